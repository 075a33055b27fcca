"""The reasons why a kernel is slow: the fate of its loops, accumulators and accesses."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codegen.compile import Compilable, emit_lowered, functions_of
from codegen.explanation.accesses import MemoryReader
from codegen.explanation.facts import Access, Accumulator, InnerLoop, Loop
from codegen.explanation.llvm_loops import remark_on_scalar_loops
from codegen.explanation.loops import loops_of
from codegen.explanation.tables import Table, tables
from codegen.lower import lower
from codegen.lower.remarks import Remarks, collected
from codegen.target import Target, as_target
from tensorir.function import IRModule, PrimFunc
from tensorir.recursion import any_depth
from tensorir.transform import PassContext, PassInfo, PassInstrument


@dataclass(slots=True)
class Explanation:
    """The facts about a lowered program, in lists; printed, or shown in a notebook, as tables.

    Facts of all functions of a module stand in one list each, in program order.
    """

    target: Target
    functions: tuple[str, ...]
    loops: list[Loop] = field(default_factory=list)
    accumulators: list[Accumulator] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    inner_loops: list[InnerLoop] = field(default_factory=list)

    def __str__(self) -> str:
        parts = []
        for name in self.functions:
            parts += [self._title(name), *(table.text() for table in self._tables(name))]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        parts = []
        for name in self.functions:
            parts.append(f"<p><b>{html.escape(self._title(name))}</b></p>")
            parts += [table.html() for table in self._tables(name)]
        return "".join(parts)

    def _title(self, function: str) -> str:
        registers, bits = self.target.vector_registers, self.target.vector_bits
        return f"{function}: {registers} vector registers of {bits} bits"

    def _tables(self, function: str) -> Iterator[Table]:
        return tables(
            (f for f in self.loops if f.function == function),
            (f for f in self.accumulators if f.function == function),
            (f for f in self.inner_loops if f.function == function),
            (f for f in self.accesses if f.function == function),
        )


@any_depth
def explain(
    program: Compilable, target: str | Mapping[str, Any] | Target | None = None
) -> Explanation:
    """Explain each loop, accumulator and access of a function or module after lowering.

        print(codegen.explain(sch.mod, target="llvm"))

    This is what the lowered program and the remarks of passes and emission say. LLVM is asked about
    one thing, whether it made vectors of the innermost loops over scalars, which are left to it.
    Beside that it writes out short loops, moves out of a loop what does not change in it, and
    spills where there are too few registers: none of it shows here. Columns of the table of
    accesses: so many `times` different ones `per` iteration of a loop, of `lanes` elements each,
    which move by `step` elements from one iteration to the next.

    Raises LoweringError or CodegenError for a program that `build` cannot compile.
    """
    chosen = as_target(target)
    functions = functions_of(program)
    explanation = Explanation(chosen, tuple(functions))
    with collected() as remarks:
        history = {name: _History() for name in functions}
        lowered = {}
        for name, func in functions.items():
            with PassContext(config=PassContext.current().config, instruments=[history[name]]):
                lowered[name] = lower(func, chosen)
        remark_on_scalar_loops(emit_lowered(lowered, chosen), remarks)
    for name, func in functions.items():
        _add(explanation, name, func, history[name].stages, remarks)
    return explanation


class _History(PassInstrument):
    """Keeps the names of the passes and the function after each."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, PrimFunc]] = []

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Keep a function."""
        (func,) = mod.prim_funcs().values()
        self.stages.append((info.name, func))


def _add(
    explanation: Explanation,
    name: str,
    func: PrimFunc,
    passes: list[tuple[str, PrimFunc]],
    remarks: Remarks,
) -> None:
    names = [step for step, _ in passes]
    reader = MemoryReader(name, remarks, explanation.target)
    reader.read(passes[names.index("unroll") - 1][1])
    explanation.loops += loops_of(name, func, passes, remarks, reader.ordered)
    explanation.accumulators += reader.accumulators
    explanation.accesses += reader.accesses
    explanation.inner_loops += reader.inner_loops
