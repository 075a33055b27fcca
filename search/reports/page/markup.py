"""HTML from elements, whose texts are escaped."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

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
