"""The postprocessor that rejects programs which need more than a GPU has."""

from __future__ import annotations

from typing import Final

from codegen.target.gpu import GRID_ROWS, WARP, GpuLimits
from schedule import Schedule
from search.feature_extractor.gpu_kernels import Kernel, kernels_of
from search.feature_extractor.gpu_shared_memory import shared_bytes
from search.postproc.postproc import Postproc
from search.space_generator.annotations import (
    THREAD_EXTENT_HIGH,
    THREAD_EXTENT_LOW,
    WARP_EXECUTION,
)
from tensorir.indices.accesses import placed_statements
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Block, For

_ROW_AXES: Final = ("blockIdx.y", "blockIdx.z")


class VerifyGPUCode(Postproc):
    """Rejects a schedule whose kernels do not fit the limits of the target.

    Limited are the threads and the shared memory of a thread block, the local memory of a thread,
    the width of loads and stores, and the thread blocks in the axes y and z of a grid. Virtual
    threads are written out before a kernel is made and have no limit. All stores must be in a
    thread block. A block may also require a number of threads by annotations, as
    `MultiLevelTiling` does.
    """

    def apply(self, sch: Schedule) -> bool:
        """Return True if all kernels fit the target; a CPU has no limits."""
        return not self.reason(sch)

    def reason(self, sch: Schedule) -> str:
        """Return the first limit that a kernel exceeds, as a clause."""
        gpu = self._task_target().gpu
        if gpu is None:
            return ""
        for func in sch.mod.prim_funcs().values():
            for kernel in kernels_of(func):
                problem = refusal(kernel, gpu)
                if problem:
                    return problem
            for node, around in placed_statements(func.body):
                if isinstance(node, Block):
                    problem = _wrong_extent(node, [x for x in around if isinstance(x, For)])
                    if problem:
                        return problem
        return ""


def refusal(kernel: Kernel, gpu: GpuLimits) -> str:
    """Return the limit of a GPU that a kernel exceeds, as a clause; `""` if it fits."""
    store = kernel.stores[0]
    name = store.loops[0].loop_var.name if store.loops else store.accesses[0].buffer.name
    if not kernel.is_bound:
        return f"the nest of {name!r} is not bound to thread blocks and threads"
    used = (
        ("threads per block", kernel.count("threadIdx"), gpu.max_threads_per_block),
        ("bytes of shared memory", shared_bytes(kernel), gpu.max_shared_memory_per_block),
        (
            "bytes of local memory per thread",
            4 * kernel.local_words,
            gpu.max_local_memory_per_thread,
        ),
        ("bytes in a vector", kernel.vector_bytes, gpu.max_vector_bytes),
        *((f"blocks in {axis}", kernel.axes.get(axis, 1), GRID_ROWS) for axis in _ROW_AXES),
    )
    for what, number, most in used:
        if number > most:
            return f"the nest of {name!r} has {number} {what}; the target allows {most}"
    return ""


def _wrong_extent(block: Block, loops: list[For]) -> str:
    """Return why the number of threads around a block is not in its annotated range."""
    low, high = (
        block.annotations.get(key, default)
        for key, default in ((THREAD_EXTENT_LOW, 0), (THREAD_EXTENT_HIGH, 1 << 30))
    )
    threads = {x.thread_tag: x.extent for x in loops if x.thread_tag.startswith("threadIdx")}
    count = WARP if WARP_EXECUTION in block.annotations else 1
    for extent in threads.values():
        count *= extent.value if isinstance(extent, IntImm) else 1
    low, high = (x.value if isinstance(x, IntImm) else int(x) for x in (low, high))
    if low <= count <= high:
        return ""
    return f"block {block.name_hint!r} has {count} threads; it requires {low} to {high}"
