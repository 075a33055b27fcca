"""How a comparison of two schedules or of two logs is shown."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from tensorir.text_table import aligned, html_table

_COLOURS: Final = {"-": "#c5221f33", "+": "#2e9e4f33", "@": "#8883"}
"""The backgrounds of the lines of a difference, which suit light and dark pages."""


class Comparison(ABC):
    """Two things side by side: `print` shows text, a notebook tables and marked differences."""

    @abstractmethod
    def tables(self) -> list[tuple[str, Sequence[Sequence[str]]]]:
        """Return the titles of the tables, each with its heading and rows."""

    def differences(self) -> list[tuple[str, list[str]]]:
        """Return the titles of the differences, each with lines that begin by `-`, `+` or a space.

        Lines that begin by `@` stand between parts.
        """
        return []

    def __str__(self) -> str:
        shown = [(title, aligned(rows)) for title, rows in self.tables()]
        shown += [(title, "\n".join(lines)) for title, lines in self.differences()]
        return "\n\n".join(f"{title}\n{text}" if title else text for title, text in shown)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def titled(title: str, content: str) -> str:
            return (f"<h4>{html.escape(title)}</h4>" if title else "") + content

        shown = [titled(title, html_table(rows)) for title, rows in self.tables()]
        shown += [titled(title, _difference(lines)) for title, lines in self.differences()]
        return "".join(shown)


def _difference(lines: Sequence[str]) -> str:
    rows = [
        f'<span style="display:block;background:{_COLOURS.get(line[:1], "none")}">'
        f"{html.escape(line) or ' '}</span>"
        for line in lines
    ]
    return f'<pre style="max-height:40em;overflow:auto" tabindex="0">{"".join(rows)}</pre>'
