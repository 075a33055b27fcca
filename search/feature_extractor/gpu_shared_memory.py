"""The shared memory of a kernel as lowering allocates it: versions, alignment, common bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codegen.lower.forms import PIPELINE_ORDER, PIPELINE_STAGE
from codegen.lower.gpu.share_bytes import Lifetime, parts_of
from codegen.lower.pipeline_dependences import versions_for
from codegen.lower.thread_axes import padded_bytes
from search.feature_extractor.gpu_kernels import SHARED, Kernel, ThreadStore
from tensorir.indices.accesses import common_prefix
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import For, SeqStmt
from tensorir.rewriting.visit import statements


def shared_bytes(kernel: Kernel) -> int:
    """Return the bytes of shared memory of a thread block.

    A buffer in a software pipeline counts once for each version (`pipeline_loops`), and buffers
    that live one after the other count once (`share_bytes`). What threads combine their results
    with (`cross_thread_reductions`) does not count.
    """
    buffers = [buffer for buffer in kernel.allocated if buffer.scope() in SHARED]
    parts = parts_of([_lifetime(kernel, buffer) for buffer in buffers])
    return sum(padded_bytes(part.nbytes) for part in parts)


def _lifetime(kernel: Kernel, buffer: Buffer) -> Lifetime:
    """Return the lifetime of a buffer, in positions of stores in the kernel."""
    users = [x for x in kernel.stores if any(a.buffer is buffer for a in x.accesses)]
    around = [x for x in common_prefix([list(x.loops) for x in users]) if not x.thread_tag]
    count = _elements(kernel, buffer)
    if around and PIPELINE_STAGE in around[-1].annotations:
        # The versions are allocated outside of the loop.
        count *= _versions(around.pop(), users)
    again = {
        loop
        for user in users
        for loop in user.loops
        if not loop.thread_tag and (loop not in around or not isinstance(loop.extent, IntImm))
    }
    # The contents are needed as long as a loop around an access runs again with the same memory.
    needed = [k for k, x in enumerate(kernel.stores) if x in users or not again.isdisjoint(x.loops)]
    return Lifetime(buffer.dtype, count * buffer.dtype.nbytes, needed[0], needed[-1])


def _elements(kernel: Kernel, buffer: Buffer) -> int:
    """Return the number of elements of a version of a buffer, with those between its rows."""
    sizes = kernel.allocated[buffer]
    return kernel.strides(buffer)[0] * sizes[0] if sizes else 1


def _versions(loop: For, users: Sequence[ThreadStore]) -> int:
    """Return the number of iterations of a pipeline that use a buffer at the same time."""
    stages, order = (_numbers(loop, key) for key in (PIPELINE_STAGE, PIPELINE_ORDER))
    steps = loop.body.seq if isinstance(loop.body, SeqStmt) else (loop.body,)
    if not len(steps) == len(stages) == len(order):
        return 1
    nodes = {user.node for user in users}
    count = versions_for(
        (stage, position)
        for step, stage, position in zip(steps, stages, order, strict=True)
        if not nodes.isdisjoint(statements(step))
    )
    return min(count, loop.extent.value) if isinstance(loop.extent, IntImm) else count


def _numbers(loop: For, key: str) -> list[int]:
    value: Any = loop.annotations.get(key, ())
    return [int(n) for n in (value if isinstance(value, tuple) else (value,))]
