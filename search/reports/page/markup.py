"""HTML from elements, whose texts are escaped, and programs as HTML.

Programs are highlighted if Pygments is installed. Two programs are shown with their differences.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

Content: TypeAlias = "str | int | Iterable[Content] | None"
"""Text, an element, several of them, or nothing."""

_CONTROL: Final = dict.fromkeys({*range(32), *range(127, 160)} - {9, 10, 13}, "\ufffd")
"""HTML has no control characters."""
_WITHOUT_END: Final = frozenset(["br", "col", "link", "meta"])


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def markup(content: Content) -> Markup:
    """Return content as HTML; text that is not `Markup` is escaped."""
    if isinstance(content, Markup):
        return content
    if content is None:
        return Markup()
    if isinstance(content, (str, int)):
        return Markup(html.escape(str(content)).translate(_CONTROL))
    return Markup("".join(map(markup, content)))


def element(name: str, /, *content: Content, **attributes: str | int | bool | None) -> Markup:
    """Return an element. True makes a bare attribute; False and None make no attribute.

    `class_` is the attribute `class`, and `data_task` the attribute `data-task`.
    """
    given = ""
    for key, value in attributes.items():
        if value is not None and value is not False:
            text = "" if value is True else f'="{markup(value)}"'
            given += f" {key.rstrip('_').replace('_', '-')}{text}"
    end = "" if name in _WITHOUT_END else f"{markup(content)}</{name}>"
    return Markup(f"<{name}{given}>{end}")


def table(
    heading: Sequence[Content],
    rows: Iterable[Sequence[Content]],
    *,
    caption: str,
    numbers: Collection[int] = (),
) -> Markup:
    """Return a table that scrolls sideways in a narrow window; its first column names the rows.

    The columns `numbers` are aligned at the right.
    """

    def cell(name: str, text: Content, k: int, scope: str | None = None) -> Markup:
        return element(name, text, scope=scope, class_="number" if k in numbers else None)

    head = [cell("th", text, k, "col") for k, text in enumerate(heading)]
    body = [
        element(
            "tr",
            element("th", first, scope="row"),
            [cell("td", text, k) for k, text in enumerate(rest, 1)],
        )
        for first, *rest in rows
    ]
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", head)),
        element("tbody", body),
    )
    # Keys can scroll only an element that can have the focus.
    return element("div", made, class_="wide", tabindex=0, role="region", aria_label=caption)


def details(summary: Content, *content: Content, id_: str | None = None) -> Markup:
    """Return a folded part."""
    return element("details", element("summary", summary), *content, id_=id_)


_PREFIX: Final = "p-"
_STYLES: Final = {"pre": "xcode", "[data-theme=dark] pre": "github-dark"}


@lru_cache(maxsize=256)
def program(text: str, label: str) -> Markup:
    """Return a program in a scrolling element; `label` names it for screen readers."""
    return scroll_box(_highlight(text), label)


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
    marked = (_mark_lines(before, kept[0], "del", "-"), _mark_lines(after, kept[1], "ins", "+"))
    figures = [
        element("figure", element("figcaption", label), scroll_box(lines, label))
        for lines, label in zip(marked, labels, strict=True)
    ]
    return element("div", figures, class_="beside")


def _mark_lines(text: str, kept: Collection[int], name: str, sign: str) -> list[Markup]:
    """Return the lines of a program, with the sign before each line that is not kept."""
    return [
        markup([element("i", " "), line]) if k in kept else element(name, element("i", sign), line)
        for k, line in enumerate(_highlight(text))
    ]


def scroll_box(lines: Sequence[Content], label: str, class_: str | None = None) -> Markup:
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


def _highlight(text: str) -> list[Markup]:
    """Return the lines of a program. Pygments escapes them and closes each element in its line."""
    if find_spec("pygments") is None:
        return [markup(line) for line in text.splitlines()]
    lexer = import_module("pygments.lexers").PythonLexer(stripnl=False, ensurenl=False)
    made = str(import_module("pygments").highlight(text, lexer, _formatter(_STYLES["pre"])))
    return [Markup(line) for line in made.removesuffix("\n").split("\n")]


def _formatter(style: str) -> Any:
    formatters = import_module("pygments.formatters")
    return formatters.HtmlFormatter(nowrap=True, classprefix=_PREFIX, style=style)
