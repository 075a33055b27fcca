"""Another number of parallel iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule import Instruction, Schedule, Trace
from schedule.analysis.bindings import loop_iter_type
from schedule.random_state import RandomState
from schedule.sref import StmtSRef, loops_above
from search.annotations import PARALLEL
from search.errors import TuningError
from search.mutator.mutator import Mutator
from search.mutator.sampled_annotation import with_other_choice
from search.target_cores import target_cores
from tensorir.expr import IntImm, IterVar

if TYPE_CHECKING:
    from search.context import TuneContext
    from tensorir.function import IRModule


class MutateParallel(Mutator):
    """Picks another number of parallel iterations, one that makes a difference.

    How many outer loops of each block are fused depends on the number; of all numbers up to
    `max_jobs_per_core` times the cores that lead to the same fusions, one is considered. A number
    that was sampled gets another of its choices.
    """

    def __init__(self, max_jobs_per_core: int) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self._limit = 0
        self._mod: IRModule | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._limit = target_cores(context) * self.max_jobs_per_core
        self._mod = context.mod

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a trace with another number, None if there is no other that matters."""
        marks = [inst for inst in trace.insts if _marks_parallel(inst)]
        if not marks:
            return None
        if self._mod is None:
            raise TuningError("MutateParallel is used before it was initialised with a task")
        inst = marks[rand_state.uniform_int(0, len(marks))]
        present = inst.values[_place(inst, "ann_val")]
        if not isinstance(present, (int, IntImm)):
            return with_other_choice(trace, (PARALLEL,), rand_state)
        sch = Schedule(self._mod, seed=1, error_render_level="none")
        trace.apply_to_schedule(sch, remove_postproc=True)
        prefixes = [_prefixes(sch, block, self._limit) for block in _children(sch, trace, inst)]
        choices: dict[tuple[int, ...], int] = {}
        for limit in sorted({p for row in prefixes for p in row if p <= self._limit}):
            choices.setdefault(_plan(prefixes, limit), limit)
        choices.pop(_plan(prefixes, int(present)), None)
        if not choices:
            return None
        limits = list(choices.values())
        return _with_value(trace, inst, limits[rand_state.uniform_int(0, len(limits))])


def _marks_parallel(inst: Instruction) -> bool:
    return inst.kind.name == "Annotate" and inst.values[_place(inst, "ann_key")] == PARALLEL


def _place(inst: Instruction, parameter: str) -> int:
    return [param.name for param in inst.kind.params].index(parameter)


def _with_value(trace: Trace, inst: Instruction, value: int) -> Trace:
    values = list(inst.values)
    values[_place(inst, "ann_val")] = value
    changed = Instruction(inst.kind, values, inst.outputs)
    before = trace.simplified(remove_postproc=True)
    insts = [changed if other is inst else other for other in before.insts]
    return Trace(insts, before.decisions)


def _children(sch: Schedule, trace: Trace, inst: Instruction) -> list[StmtSRef]:
    """Return the blocks under the root block that an instruction annotates."""
    makers = {rv: other for other in trace.insts for rv in other.outputs if rv is not None}
    maker = makers[inst.values[0]]
    names = dict(zip((p.name for p in maker.kind.params), maker.values, strict=True))
    return sch.state.child_blocks(sch.state.root(names["func_name"]))


def _prefixes(sch: Schedule, block: StmtSRef, limit: int) -> list[int]:
    """Return the products of the extents of the outer spatial loops, up to the limit."""
    products: list[int] = []
    product = 1
    for loop in loops_above(block):
        extent = loop.loop.extent
        if not isinstance(extent, IntImm) or loop_iter_type(sch.state, loop) != IterVar.DATA_PAR:
            break
        product *= extent.value
        products.append(product)
        if product >= limit:
            break
    return products


def _plan(prefixes: list[list[int]], limit: int) -> tuple[int, ...]:
    """Return how many loops of each block it takes to reach `limit` iterations."""
    return tuple(
        next((k + 1 for k, product in enumerate(row) if product >= limit), len(row))
        for row in prefixes
    )
