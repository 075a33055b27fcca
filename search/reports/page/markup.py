"""HTML that is made of elements: whatever is text is escaped, and only elements are not."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

Content: TypeAlias = "str | int | Iterable[Content] | None"
"""Text, elements, or several of both; None is nothing."""

_CONTROL: Final = dict.fromkeys({*range(32), *range(127, 160)} - {9, 10, 13}, "\ufffd")
_WITHOUT_END: Final = frozenset(["br", "col", "link", "meta"])


class Markup(str):
    """Text that is HTML as it stands: it was made by `element`, or is part of the page itself."""

    __slots__ = ()


def markup(content: Content) -> Markup:
    """Return content as HTML; text that is no `Markup` is escaped."""
    if isinstance(content, Markup):
        return content
    if content is None:
        return Markup()
    if isinstance(content, (str, int)):
        return Markup(_escaped(content))
    return Markup("".join(map(markup, content)))


def element(name: str, /, *content: Content, **attributes: str | int | bool | None) -> Markup:
    """Return an element; a bare attribute is True, one that is left out False or None.

    `class_` stands for `class`, and `data_task` for `data-task`.
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    end = "" if name in _WITHOUT_END else f"{markup(content)}</{name}>"
    return Markup(f"<{name}{given}>{end}")


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_escaped(value)}"'


def _escaped(text: str | int) -> str:
    """Return text for HTML, which has no control characters: each becomes U+FFFD."""
    return html.escape(str(text)).translate(_CONTROL)


def table(
    heading: Sequence[Content],
    rows: Iterable[Sequence[Content]],
    *,
    caption: str,
    numbers: Iterable[int] = (),
) -> Markup:
    """Return a table that scrolls sideways where it is too wide; its first column names the rows.

    `numbers` are the columns that stand to the right. Whoever hears the page is told the caption,
    and the headings of each cell.
    """
    right = frozenset(numbers)

    def side(k: int) -> str | None:
        return "number" if k in right else None

    head = [element("th", text, scope="col", class_=side(k)) for k, text in enumerate(heading)]
    body = [
        element(
            "tr",
            [
                element("td", cell, class_=side(k)) if k else element("th", cell, scope="row")
                for k, cell in enumerate(row)
            ],
        )
        for row in rows
    ]
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", head)),
        element("tbody", body),
    )
    # What scrolls is reached by keys only if it can have the focus.
    return element("div", made, class_="wide", tabindex=0, role="region", aria_label=caption)


def details(summary: Content, *content: Content, id_: str | None = None) -> Markup:
    """Return a part that is folded until somebody opens it."""
    return element("details", element("summary", summary), *content, id_=id_)
