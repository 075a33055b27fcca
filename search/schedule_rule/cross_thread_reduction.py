"""The rule that lets the threads of a GPU's thread block reduce together."""

from __future__ import annotations

from collections.abc import Sequence

from schedule import BlockRV, ExpiredHandleError, ExprRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.block_kind import output_buffer
from schedule.sref import loops_above, lowest_common_ancestor
from search.schedule_rule.rfactor import reduction_innermost
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.thread_binding import THREAD_AXIS
from search.space_generator.tiling_needs import needs_rfactor
from tensorir.nodes.expr import IntImm, IterVar
from tensorir.nodes.stmt import Block
from tensorir.reducers import NoReducer, NotAReduction, reduction_of


class CrossThreadReduction(ScheduleRule):
    """Divides a reduction among the threads of a thread block.

    It applies to the reductions that `AddRFactor` factors on a CPU. The fused reduction loop is
    split, and its inner part bound to `threadIdx.x`. The number of threads is sampled from
    `thread_extents` up to the limit of the target. If possible, the block is computed in the nest
    of its consumers, by the same threads, and its result is in shared memory. The design without
    the change is kept, too. Reductions without a known reducer stay unchanged.
    """

    def __init__(self, thread_extents: Sequence[int]) -> None:
        self.thread_extents = list(thread_extents)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the design with threads that reduce together, and the unchanged one."""
        gpu, sref = self._task_target().gpu, sch.get_sref(block)
        if gpu is None or sref.parent is None:
            return [sch]
        most = gpu.max_threads_per_block
        extents = [extent for extent in self.thread_extents if extent <= most]
        if not extents or not needs_rfactor(sch.state, sref, most) or not _is_known(sref.block):
            return [sch]
        for with_consumers in (True, False):
            design = sch.copy()
            try:
                place = _place(design, block) if with_consumers else None
                sampled = design.sample_categorical(extents, [1 / len(extents)] * len(extents))
                threads: int | ExprRV = sampled
                if place is not None:
                    threads = _move_to_consumers(design, block, *place, sampled)
                reduction, _ = reduction_innermost(design, block)
                _, inner = design.split(reduction, [None, threads])
                design.bind(inner, THREAD_AXIS)
            except ScheduleError:
                continue
            return [design, sch]
        return [sch]


def _is_known(block: Block) -> bool:
    """Return True if threads can combine the partial results of a reduction."""
    try:
        reduction_of(block)
    except (NotAReduction, NoReducer):
        return False
    return True


def _place(sch: Schedule, block: BlockRV) -> tuple[list[LoopRV], int] | None:
    """Return the loops of the first consumer, and the index of that at which to compute a block.

    The loop encloses all consumers, and is as far inside as there are spatial loops around the
    block. None if there is no such loop, or the block writes an output.
    """
    consumers = sch.get_consumers(block)
    if not consumers or output_buffer(sch.state, sch.get_sref(block)) is not None:
        return None
    common = lowest_common_ancestor([sch.get_sref(consumer) for consumer in consumers])
    if len(consumers) > 1 and common.is_block:
        return None
    own, others = (loops_above(sch.get_sref(rv)) for rv in (block, consumers[0]))
    place = -1
    for kind, other in zip(loop_iter_types(sch.state, own), others, strict=False):
        if kind != IterVar.DATA_PAR:
            break
        place += 1
        if other is common:
            break
    return None if place < 0 else (sch.get_loops(consumers[0]), place)


def _move_to_consumers(
    sch: Schedule, block: BlockRV, loops: list[LoopRV], place: int, threads: ExprRV
) -> int | ExprRV:
    """Compute a block at a loop of its consumer, in shared memory; return the number of threads.

    If none of the consumer's `loops` is bound to threads yet, the innermost one is.
    """
    used: int | ExprRV = threads
    bound = [loop for loop in loops if sch.get(loop).thread_tag == THREAD_AXIS]
    target = loops[place]
    if bound:
        used = _split_factor(sch, bound[0])
    else:
        outer, inner = sch.split(loops[-1], [None, threads])
        sch.bind(inner, THREAD_AXIS)
        if place == len(loops) - 1:
            target = outer
    sch.compute_at(block, target, preserve_unit_loops=True)
    for k in range(len(sch.get(block).writes)):
        sch.set_scope(block, k, "shared")
    return used


def _split_factor(sch: Schedule, loop: LoopRV) -> int | ExprRV:
    """Return the extent of a loop; a sampled factor of the split that made it, if there is one."""
    for inst in sch.trace.insts:
        if inst.kind.name == "Split":
            for factor, made in zip(inst.value_of("factors"), inst.outputs, strict=True):
                if factor is not None and _is_same(sch, made, loop):
                    return factor  # type: ignore[no-any-return]
    extent = sch.get(loop).extent
    assert isinstance(extent, IntImm)
    return extent.value


def _is_same(sch: Schedule, one: object, other: LoopRV) -> bool:
    assert isinstance(one, LoopRV)
    try:
        return sch.get_sref(one) is sch.get_sref(other)
    except ExpiredHandleError:
        return False
