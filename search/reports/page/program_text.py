"""Programs as HTML: highlighted if Pygments is installed, and two programs with differences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from search.reports.page.markup import Content, Markup, element, markup

_PREFIX: Final = "p-"
_STYLES: Final = {"pre": "xcode", "[data-theme=dark] pre": "github-dark"}


@lru_cache(maxsize=256)
def program(text: str, label: str) -> Markup:
    """Return a program in a scrolling element; `label` names it for screen readers."""
    return scrolled(_highlighted(text), label)


@lru_cache(maxsize=128)
def side_by_side(before: str, after: str, labels: tuple[str, str]) -> Markup:
    """Return two programs side by side, or one below the other in a narrow window.

    Lines that occur only in the first program are marked by `-`, lines only in the second by `+`.
    Indentation is ignored.
    """
    old, new = ([line.strip() for line in text.splitlines()] for text in (before, after))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    same = [(a + k, b + k) for a, b, size in matcher.get_matching_blocks() for k in range(size)]
    kept = [{pair[side] for pair in same} for side in (0, 1)]
    marked = (_marked(before, kept[0], "del", "-"), _marked(after, kept[1], "ins", "+"))
    figures = [
        element("figure", element("figcaption", label), scrolled(lines, label))
        for lines, label in zip(marked, labels, strict=True)
    ]
    return element("div", figures, class_="beside")


def _marked(text: str, kept: Collection[int], name: str, sign: str) -> list[Markup]:
    """Return the lines of a program, with the sign before each line that is not kept."""
    return [
        markup([element("i", " "), line]) if k in kept else element(name, element("i", sign), line)
        for k, line in enumerate(_highlighted(text))
    ]


def scrolled(lines: Sequence[Content], label: str, class_: str | None = None) -> Markup:
    """Return lines of text in an element that scrolls, also by keys."""
    code = element("code", Markup("\n".join(map(markup, lines))))
    return element("pre", code, tabindex=0, role="region", aria_label=label, class_=class_)


def styles() -> str:
    """Return the style sheet for highlighted programs, empty without Pygments."""
    if find_spec("pygments") is None:
        return ""
    rules: list[str] = []
    for where, style in _STYLES.items():
        text: str = _formatter(style).get_style_defs(where)
        # The rules without a class are for line numbers and the background.
        rules += [row for row in text.splitlines() if row.startswith(f"{where} .{_PREFIX}")]
    return "\n".join(rules)


def _highlighted(text: str) -> list[Markup]:
    """Return the lines of a program. Pygments escapes them and closes each element in its line."""
    if find_spec("pygments") is None:
        return [markup(line) for line in text.splitlines()]
    lexer = import_module("pygments.lexers").PythonLexer(stripnl=False, ensurenl=False)
    made = str(import_module("pygments").highlight(text, lexer, _formatter(_STYLES["pre"])))
    return [Markup(line) for line in made.removesuffix("\n").split("\n")]


def _formatter(style: str) -> Any:
    formatters = import_module("pygments.formatters")
    return formatters.HtmlFormatter(nowrap=True, classprefix=_PREFIX, style=style)
