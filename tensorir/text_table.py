"""Tables of texts, for terminals and for notebooks."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence


def aligned(
    rows: Sequence[Sequence[str]], right: Collection[str] | None = None, between: str = "  "
) -> str:
    """Return texts in columns; the first row is the heading.

    Columns whose headings are in `right` are right-aligned; by default the columns of numbers.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if right is None:
        right = {column[0] for column in columns if all(map(_is_number, column[1:]))}
    return "\n".join(
        between.join(
            text.rjust(width) if heading in right else text.ljust(width)
            for text, width, heading in zip(row, widths, rows[0], strict=True)
        ).rstrip()
        for row in rows
    )


def _is_number(text: str) -> bool:
    return not text.strip("0123456789.+-e%")


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Return texts as an HTML table; the first row is the heading."""
    heading, *body = rows
    return f"<table><thead>{_html('th', heading)}</thead><tbody>" + "".join(
        [*(_html("td", row) for row in body), "</tbody></table>"]
    )


def _html(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in cells) + "</tr>"
