"""Programs as HTML: highlighted where Pygments is installed, two of them with their differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from search.reports.page.markup import Markup, element, markup

_PREFIX: Final = "p-"
_LIGHT: Final = "xcode"
_DARK: Final = "github-dark"


@lru_cache(maxsize=256)
def program(text: str, label: str) -> Markup:
    """Return a program as a part that scrolls, by keys too; `label` says what it is."""
    return _scrolled(_code_lines(text), label)


@lru_cache(maxsize=128)
def side_by_side(before: str, after: str, labels: tuple[str, str]) -> Markup:
    """Return two programs beside each other, or one below the other where there is no room.

    Lines that only one of them has are marked by a sign and a colour: `-` those that are gone, `+`
    those that came. How far a line is indented does not count.
    """
    old, new = before.splitlines(), after.splitlines()
    stripped = [[line.strip() for line in lines] for lines in (old, new)]
    kept = SequenceMatcher(None, stripped[0], stripped[1], autojunk=False).get_matching_blocks()
    kept_old = {block.a + k for block in kept for k in range(block.size)}
    kept_new = {block.b + k for block in kept for k in range(block.size)}
    left = _scrolled(_marked(_code_lines(before), kept_old, "del", "-"), labels[0])
    right = _scrolled(_marked(_code_lines(after), kept_new, "ins", "+"), labels[1])
    return element(
        "div",
        *(
            element("figure", element("figcaption", label), pre)
            for label, pre in zip(labels, (left, right), strict=True)
        ),
        class_="beside",
    )


def styles() -> str:
    """Return the style sheet of highlighted programs, empty without Pygments."""
    if find_spec("pygments") is None:
        return ""
    rules: list[str] = []
    for style, where in ((_LIGHT, "pre"), (_DARK, "[data-theme=dark] pre")):
        text: str = _formatter(style).get_style_defs(where)
        # The rules without a class are those of line numbers and the background.
        rules += [row for row in text.splitlines() if row.startswith(f"{where} .{_PREFIX}")]
    return "\n".join(rules)


def _scrolled(lines: Sequence[Markup], label: str) -> Markup:
    code = element("code", Markup("\n".join(lines)))
    return element("pre", code, tabindex=0, role="region", aria_label=label)


def _marked(lines: Sequence[Markup], kept: set[int], name: str, sign: str) -> list[Markup]:
    """Return lines, in front of which stands the sign of those that are not kept."""
    gap, mark = element("i", " "), element("i", sign)
    return [
        Markup(gap + line) if k in kept else element(name, mark, line)
        for k, line in enumerate(lines)
    ]


def _code_lines(text: str) -> list[Markup]:
    if find_spec("pygments") is None:
        return [markup(line) for line in text.splitlines()]
    return list(_highlighted(text))


def _highlighted(text: str) -> Iterator[Markup]:
    """Yield the lines of a text; Pygments escapes it, and ends elements in the line they are of."""
    lexer = import_module("pygments.lexers").PythonLexer(stripnl=False, ensurenl=False)
    made = str(import_module("pygments").highlight(text, lexer, _formatter(_LIGHT)))
    yield from map(Markup, made.removesuffix("\n").split("\n"))


def _formatter(style: str) -> Any:
    formatters = import_module("pygments.formatters")
    return formatters.HtmlFormatter(nowrap=True, classprefix=_PREFIX, style=style)
