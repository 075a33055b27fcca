"""Tables of texts, for terminals and for notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return texts in columns, numbers to the right; the first row is the heading."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(map(_is_number, column[1:])) for column in columns]
    return "\n".join(
        "  ".join(
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    )


def _is_number(text: str) -> bool:
    return not text.strip("0123456789.+-e%")


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Return texts as a table, the first row of which is the heading."""
    heading, *body = rows
    return f"<table><thead>{_html('th', heading)}</thead><tbody>" + "".join(
        [*(_html("td", row) for row in body), "</tbody></table>"]
    )


def _html(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in cells) + "</tr>"
