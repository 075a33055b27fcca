"""Tables as text with aligned columns, and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings; columns named in `numbers` are aligned at the right."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: frozenset[str] = frozenset()

    def text(self) -> str:
        """Return the table as lines, each column as wide as its longest cell."""
        lines = [self.headings, *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.headings))]
        return "\n".join(self._line(line, widths) for line in lines)

    def _line(self, line: tuple[str, ...], widths: list[int]) -> str:
        cells = [
            cell.rjust(width) if heading in self.numbers else cell.ljust(width)
            for cell, width, heading in zip(line, widths, self.headings, strict=True)
        ]
        return "  ".join(cells).rstrip()

    def html(self) -> str:
        """Return the table as HTML in a fixed-width font, spaces kept."""
        head = "".join(self._cell("th", h, h) for h in self.headings)
        body = "".join(
            "<tr>"
            + "".join(self._cell("td", h, c) for h, c in zip(self.headings, row, strict=True))
            + "</tr>"
            for row in self.rows
        )
        style = "font-family: monospace; white-space: pre"
        return f'<table style="{style}"><tr>{head}</tr>{body}</table>'

    def _cell(self, tag: str, heading: str, text: str) -> str:
        side = "right" if heading in self.numbers else "left"
        return f'<{tag} style="text-align: {side}">{html.escape(text)}</{tag}>'
