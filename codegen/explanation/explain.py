"""The reasons why a kernel is slow: the fate of its loops, accumulators and accesses."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from codegen.compile import Compilable, emit_lowered, functions_of
from codegen.explanation.accesses import MemoryReader
from codegen.explanation.facts import Access, Accumulator, InnerLoop, Loop
from codegen.explanation.loops import loops_of, remark_on_scalar_loops, vectors_text
from codegen.lower import lower
from codegen.lower.remarks import collect_remarks
from codegen.target import Target, as_target
from tensorir.function import IRModule, PrimFunc
from tensorir.recursion import any_depth
from tensorir.text_table import aligned
from tensorir.transform import PassContext, PassInfo, PassInstrument


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


Tabulated: TypeAlias = tuple[
    tuple[str, Callable[[Any], tuple[str, ...]], tuple[str, ...], set[str]], ...
]


@dataclass(slots=True)
class Explanation:
    """The facts about a lowered program, in lists; printed, or shown in a notebook, as tables.

    Each list has the facts of all functions of a module, in program order.
    """

    target: Target
    functions: tuple[str, ...]
    loops: list[Loop] = field(default_factory=list)
    accumulators: list[Accumulator] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    inner_loops: list[InnerLoop] = field(default_factory=list)

    tables: ClassVar[Tabulated] = ()
    """The lists of facts that are shown, each with what makes a row of a fact, the headings, and
    the columns of numbers."""

    def __str__(self) -> str:
        parts = []
        for title, tables in self.sections():
            parts += [title, *(table.text() for table in tables)]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        parts = []
        for title, tables in self.sections():
            parts.append(f"<p><b>{html.escape(title)}</b></p>")
            parts += [table.html() for table in tables]
        return "".join(parts)

    def sections(self) -> Iterator[tuple[str, list[Table]]]:
        """Yield a title for each function, and its tables."""
        for name in self.functions:
            yield self._title(name), list(self._tables(name))

    def _title(self, function: str) -> str:
        registers, bits = self.target.vector_registers, self.target.vector_bits
        return f"{function}: {registers} vector registers of {bits} bits"

    def _tables(self, function: str) -> Iterator[Table]:
        """Yield a table for each kind of fact of a function, except empty tables.

        Accesses to accumulators in registers are left out.
        """
        for facts, row, headings, numbers in self.tables:
            own = (fact for fact in getattr(self, facts) if fact.function == function)
            rows = [row(fact) for fact in own if not getattr(fact, "in_register", False)]
            if rows:
                yield Table(headings, rows, frozenset(numbers))


@any_depth
def explain(
    program: Compilable, target: str | Mapping[str, Any] | Target | None = None
) -> Explanation:
    """Explain each loop, accumulator and access of a function or module after lowering.

        print(codegen.explain(sch.mod, target="llvm"))

    The facts come from the lowered program and from the remarks of passes and emission. From LLVM,
    they include only whether it vectorised the innermost scalar loops, which are left to it. LLVM
    also unrolls short loops, hoists loop invariants, and spills if there are too few registers,
    which is not shown. In the table of accesses, `times` is the number of different accesses `per`
    iteration of a loop, `lanes` the elements of each, and `step` the elements by which it moves
    from one iteration to the next.

    For a GPU it is a `GpuExplanation`: registers, spills (if NVIDIA's assembler is there, by the
    extra `cuda`) and occupancy of kernels, and how the threads of a warp access memory.

    Raises LoweringError or CodegenError for a program that `build` cannot compile.
    """
    chosen = as_target(target)
    functions = functions_of(program)
    if chosen.gpu is not None:
        from codegen.explanation.gpu import explain_for_gpu  # noqa: PLC0415 - for GPUs only

        return explain_for_gpu(functions, chosen)
    explanation = Explanation(chosen, tuple(functions))
    with collect_remarks() as remarks:
        history = {name: _History() for name in functions}
        lowered = {}
        for name, func in functions.items():
            with PassContext(config=PassContext.current().config, instruments=[history[name]]):
                lowered[name] = lower(func, chosen)
        remark_on_scalar_loops(emit_lowered(lowered, chosen), remarks)
    for name, func in functions.items():
        passes = history[name].stages
        reader = MemoryReader(name, remarks, chosen)
        reader.read(passes[[step for step, _ in passes].index("unroll") - 1][1])
        explanation.loops += loops_of(name, func, passes, remarks, reader.ordered)
        explanation.accumulators += reader.accumulators
        explanation.accesses += reader.accesses
        explanation.inner_loops += reader.inner_loops
    return explanation


class _History(PassInstrument):
    """Keeps the names of the passes and the function after each."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, PrimFunc]] = []

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Keep a function."""
        (func,) = mod.prim_funcs().values()
        self.stages.append((info.name, func))


# ------------------------------------------------------------------------------------- as tables


def _loop(f: Loop) -> tuple[str, ...]:
    mark = "" if f.mark == "serial" else f" ({f.mark})"
    extent = "?" if f.extent is None else str(f.extent)
    text = {
        "serial": "serial",
        "parallel": "divided among threads",
        "vectors": vectors_text(f.lanes),
        "unrolled": "unrolled",
        "once": "runs once, so it is not a loop",
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
    named = {
        "irregular": "gather" if f.kind == "load" else "scatter",
        "strided": f"{f.stride} apart",
        "broadcast": "one for all lanes",
        "element": "one element",
    }
    places = named.get(f.pattern, f.pattern) + ", masked" * f.masked + ", under an if" * f.guarded
    return f"{f.kind} {f.buffer}", f.statement, str(f.times), f.loop, str(f.lanes), places, step


Explanation.tables = (
    ("loops", _loop, ("loop", "extent", "block", "becomes"), {"extent"}),
    ("accumulators", _accumulator, ("accumulator", "elements", "kept in", "over", "note"), set()),
    (
        "inner_loops",
        _inner,
        ("inner loop", "sums into", "updates", "loads", "stores", "loads per update"),
        {"updates", "loads", "stores", "loads per update"},
    ),
    (
        "accesses",
        _access,
        ("access", "for", "times", "per", "lanes", "places", "step"),
        {"times", "lanes", "step"},
    ),
)
"""For each table: the facts, the function that makes a row of a fact, the headings, the columns of
numbers.
"""
