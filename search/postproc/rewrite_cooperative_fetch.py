"""The postprocessor that divides a copy to shared memory among the threads of a block."""

from __future__ import annotations

from codegen.target.gpu import WARP
from schedule import BlockRV, Schedule
from schedule.sref import loops_above
from search.postproc.postproc import Postproc
from search.space_generator.annotations import COOPERATIVE_FETCH, WARP_EXECUTION
from search.space_generator.thread_binding import THREAD_AXIS
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Block, For
from tensorir.rewriting.visit import statements

_ROWS = "threadIdx.y"


class RewriteCooperativeFetch(Postproc):
    """Binds the copies that `MultiLevelTiling` has annotated with a vector length.

    The fused loop of a copy is split into serial steps, the threads of its kernel (the extents of
    the loops bound to `threadIdx.x` and `.y`), and a vector. The threads of a warp that runs a
    block together (`WARP_EXECUTION`) are in `threadIdx.x`. A length that does not divide the copy
    becomes 1. It never rejects.
    """

    def apply(self, sch: Schedule) -> bool:
        """Bind every annotated copy."""
        for inst in sch.trace.insts:
            if inst.kind.name == "Annotate" and inst.value_of("ann_key") == COOPERATIVE_FETCH:
                block = inst.value_of("block_or_loop")
                length = sch.get(block).annotations.get(COOPERATIVE_FETCH)
                if length is not None:
                    number = length.value if isinstance(length, IntImm) else int(length)
                    _bind_copy(sch, block, number, _threads_around(sch, block))
        return True


def _threads_around(sch: Schedule, block: BlockRV) -> dict[str, int]:
    """Return the extents of the thread axes of the kernel that contains a block."""
    threads: dict[str, int] = {}
    for node in statements(loops_above(sch.get_sref(block))[0].loop):
        if isinstance(node, For) and isinstance(node.extent, IntImm):
            threads[node.thread_tag] = max(threads.get(node.thread_tag, 1), node.extent.value)
        elif isinstance(node, Block) and WARP_EXECUTION in node.annotations:
            threads[THREAD_AXIS] = WARP
    return threads


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
