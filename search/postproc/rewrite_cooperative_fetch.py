"""The postprocessor that divides a copy to shared memory among the threads of a block."""

from __future__ import annotations

from schedule import BlockRV, Schedule
from search.postproc.postproc import Postproc
from search.space_generator.annotations import COOPERATIVE_FETCH
from search.space_generator.thread_binding import THREAD_AXIS
from tensorir.nodes.expr import IntImm

_ROWS = "threadIdx.y"


class RewriteCooperativeFetch(Postproc):
    """Binds the copies that `MultiLevelTiling` has annotated with a vector length.

    The fused loop of a copy is split into serial steps, the threads of the block (the extents of
    the last loops that were bound to `threadIdx.x` and `.y` before the annotation), and a vector.
    A length that does not divide the copy becomes 1. It never rejects.
    """

    def apply(self, sch: Schedule) -> bool:
        """Bind every annotated copy."""
        threads: dict[str, int] = {}
        copies: list[tuple[BlockRV, int, dict[str, int]]] = []
        for inst in sch.trace.insts:
            if inst.kind.name == "Bind":
                extent = sch.get(inst.value_of("loop")).extent
                if isinstance(extent, IntImm):
                    threads[inst.value_of("thread_axis")] = extent.value
            elif inst.kind.name == "Annotate" and inst.value_of("ann_key") == COOPERATIVE_FETCH:
                block = inst.value_of("block_or_loop")
                length = sch.get(block).annotations.get(COOPERATIVE_FETCH)
                if length is not None:
                    number = length.value if isinstance(length, IntImm) else int(length)
                    copies.append((block, number, dict(threads)))
        for block, length, around in copies:
            _bind_copy(sch, block, length, around)
        return True


def _bind_copy(sch: Schedule, block: BlockRV, length: int, threads: dict[str, int]) -> None:
    sch.unannotate(block, COOPERATIVE_FETCH)
    fused = sch.get_loops(block)[-1]
    extent = sch.get(fused).extent
    if not isinstance(extent, IntImm):
        return
    axes = [axis for axis in (_ROWS, THREAD_AXIS) if axis in threads]
    vector = [length] if length > 1 and extent.value % length == 0 else []
    parts = sch.split(fused, [None, *(threads[axis] for axis in axes), *vector])
    if vector:
        sch.vectorize(parts[-1])
    for axis, part in reversed(list(zip(axes, parts[1:], strict=False))):
        sch.bind(part, axis)
