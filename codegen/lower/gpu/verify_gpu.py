"""The check of a lowered program against the limits of a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from codegen.errors import LoweringError
from codegen.lower.check_supported import name_of
from codegen.lower.hoist_allocations import constant_bytes
from codegen.lower.thread_axes import THREAD, is_kernel, kind_of, padded_bytes, thread_loops
from codegen.target import Target, as_target
from codegen.target.gpu import GpuLimits
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import is_fragment, memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, IntImm
from tensorir.rewriting.visit import children, statements, walk

_NAMED: Final = 4
"""The maximum number of buffers that a message names."""


def verify_gpu(func: PrimFunc, target: str | Target | None = None) -> PrimFunc:
    """Return a lowered program that fits a GPU; raise LoweringError for any other.

    The message names the kernel's loops for too many threads in a block, its buffers for too much
    shared or local memory, and the buffer for an access that is too wide. A program for a CPU fits.
    """
    limits = as_target(target).gpu
    if limits is not None:
        for kernel in _kernels(func.body):
            _check_threads(kernel, limits, name_of(func))
            _check_memory(kernel, limits, name_of(func))
            _check_vectors(kernel, limits, name_of(func))
    return func


def _kernels(node: s.Stmt) -> Iterator[s.Stmt]:
    if is_kernel(node):
        yield node
        return
    for part in children(node):
        if isinstance(part, s.Stmt):
            yield from _kernels(part)


def _check_threads(kernel: s.Stmt, limits: GpuLimits, name: str) -> None:
    loops = [loop for loop in thread_loops(kernel) if kind_of(loop) == THREAD]
    counts = [loop.extent.value for loop in loops if isinstance(loop.extent, IntImm)]
    if math.prod(counts) > limits.max_threads_per_block:
        names = " and ".join(loop.loop_var.name for loop in loops)
        raise LoweringError(
            f"{name} has {' * '.join(map(str, counts))} threads in a block ({names}), the target "
            f"at most {limits.max_threads_per_block}; bind loops of a smaller extent (sch.split)"
        )


def _check_memory(kernel: s.Stmt, limits: GpuLimits, name: str) -> None:
    owned = (
        ("shared", "a block", limits.max_shared_memory_per_block, "stage smaller tiles"),
        (
            "local",
            "a thread",
            limits.max_local_memory_per_thread,
            "bind more loops to threads (sch.bind), so that each has less of a buffer, or compute "
            "the largest one in a kernel of its own, in global memory",
        ),
    )
    for memory, owner, most, remedy in owned:
        sizes = {
            node.buffer_var: padded_bytes(constant_bytes(node) or 0)
            for node in statements(kernel)
            if isinstance(node, s.Allocate)
            and memory_of(node.buffer_var) == memory
            and not is_fragment(node.buffer_var)
        }
        if sum(sizes.values()) > most:
            largest = sorted(sizes.items(), key=lambda item: -item[1])[:_NAMED]
            parts = ", ".join(f"{pointer.name} {size:,}" for pointer, size in largest)
            raise LoweringError(
                f"{name} takes {sum(sizes.values()):,} bytes of {memory} memory in {owner} "
                f"({parts}), the target has {most:,}; {remedy}"
            )


def _check_vectors(kernel: s.Stmt, limits: GpuLimits, name: str) -> None:
    for node in walk(kernel):
        if isinstance(node, (BufferLoad, s.BufferStore)):
            lanes = node.indices[-1].dtype.lanes if node.indices else 1
            width = lanes * node.buffer.dtype.nbytes
            if lanes > 1 and width > limits.max_vector_bytes:
                raise LoweringError(
                    f"{name} accesses {lanes} elements of {node.buffer.name} at once, {width} "
                    f"bytes, the target at most {limits.max_vector_bytes}; use shorter vectors"
                )
