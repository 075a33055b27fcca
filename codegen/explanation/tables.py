"""The facts of an explanation as tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from codegen.explanation.facts import Access, Accumulator, InnerLoop, Loop
from codegen.explanation.loops import vectors_text
from tensorir.text_table import aligned


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings; columns named in `numbers` are aligned at the right."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: frozenset[str] = frozenset()

    def text(self) -> str:
        """Return the table as lines, each column as wide as its longest cell."""
        return aligned([self.headings, *self.rows], self.numbers)

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


def tables(
    loops: Iterable[Loop],
    accumulators: Iterable[Accumulator],
    inner_loops: Iterable[InnerLoop],
    accesses: Iterable[Access],
) -> Iterator[Table]:
    """Yield a table of each kind of fact of one function, those without rows left out.

    Accesses to accumulators in registers are left out too.
    """
    nest = ("loop", "extent", "block", "becomes")
    sums = ("accumulator", "elements", "kept in", "over", "note")
    inner = ("inner loop", "sums into", "updates", "loads", "stores", "loads per update")
    memory = ("access", "for", "times", "per", "lanes", "places", "step")
    found = (
        Table(nest, [_loop(f) for f in loops], frozenset({"extent"})),
        Table(sums, [_accumulator(f) for f in accumulators]),
        Table(inner, [_inner(f) for f in inner_loops], frozenset(inner[2:])),
        Table(
            memory,
            [_access(f) for f in accesses if not f.in_register],
            frozenset({"times", "lanes", "step"}),
        ),
    )
    return (table for table in found if table.rows)


def _loop(f: Loop) -> tuple[str, ...]:
    mark = "" if f.mark == "serial" else f" ({f.mark})"
    extent = "?" if f.extent is None else str(f.extent)
    text = {
        "serial": "serial",
        "parallel": "spread over threads",
        "vectors": vectors_text(f.lanes),
        "unrolled": "unrolled",
        "once": "runs once, no loop",
        "removed": "removed",
    }[f.becomes]
    by = f" by {f.by}" if f.by else ""
    note = f"; {f.note}" if f.note else ""
    return "  " * f.depth + f.name + mark, extent, ", ".join(f.blocks), text + by + note


def _accumulator(f: Accumulator) -> tuple[str, ...]:
    one = f.dtype if f.lanes == 1 else f"{f.dtype}x{f.lanes}"
    return f.buffer, f"{f.count} {one}", f.home, f.loop, f.note


def _inner(f: InnerLoop) -> tuple[str, ...]:
    counts = str(f.updates), str(f.loads), str(f.stores)
    return f.loop, ", ".join(f.buffers), *counts, f"{f.loads / f.updates:.2f}"


def _access(f: Access) -> tuple[str, ...]:
    step = "varies" if f.step is None else str(f.step)
    places = _places(f)
    if f.masked:
        places += ", masked"
    if f.guarded:
        places += ", under an if"
    return f"{f.kind} {f.buffer}", f.statement, str(f.times), f.loop, str(f.lanes), places, step


def _places(f: Access) -> str:
    named = {
        "irregular": "gather" if f.kind == "load" else "scatter",
        "strided": f"{f.stride} apart",
        "broadcast": "one for all lanes",
        "element": "one element",
    }
    return named.get(f.pattern, f.pattern)
