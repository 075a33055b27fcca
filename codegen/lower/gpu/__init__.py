"""The passes of lowering for a GPU: from loops bound to threads to launches.

A launched kernel is a nest of loops over blocks, then over threads, each axis once and from 0.
Between them is shared memory, below them what each thread has; `T.tvm_storage_sync` has the threads
of a block wait for one another. The host runs what is around: launches in order, loops, and the
allocations of global memory that several launches use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from codegen.lower.blocks import drop_partial_strides, lower_init, open_blocks, remove_blocks
from codegen.lower.check_overflow import check_overflow
from codegen.lower.flatten_buffers import flatten_buffers
from codegen.lower.gpu.check_bound import check_bound
from codegen.lower.gpu.check_tensor_cores import check_tensor_cores
from codegen.lower.gpu.compact_thread_buffers import (
    compact_local_buffers,
    compact_shared_buffers,
)
from codegen.lower.gpu.cross_thread_reductions import cross_thread_reductions
from codegen.lower.gpu.hoist_shared import hoist_shared
from codegen.lower.gpu.inject_virtual_threads import inject_virtual_threads
from codegen.lower.gpu.lift_threads import lift_threads
from codegen.lower.gpu.place_barriers import place_barriers
from codegen.lower.gpu.unroll_local import unroll_local
from codegen.lower.gpu.verify_gpu import verify_gpu
from codegen.lower.hoist_conditions import hoist_conditions
from codegen.lower.lower_match_buffers import lower_match_buffers
from codegen.lower.mark_unrolled import mark_unrolled
from codegen.lower.pipeline_loops import pipeline_loops
from codegen.lower.place_allocations import place_allocations
from codegen.lower.simplify_control import simplify_control
from codegen.lower.unroll import unroll
from codegen.lower.vectorize import vectorize
from tensorir.function import PrimFunc

PASSES: Final[tuple[tuple[str, Callable[[PrimFunc], PrimFunc]], ...]] = tuple(
    (step.__name__, step)
    for step in (
        check_bound,
        check_overflow,
        drop_partial_strides,
        cross_thread_reductions,
        lower_init,
        open_blocks,
        place_allocations,
        compact_shared_buffers,
        lower_match_buffers,
        pipeline_loops,
        lift_threads,
        compact_local_buffers,
        remove_blocks,
        inject_virtual_threads,
        hoist_shared,
        hoist_conditions,
        place_barriers,
        flatten_buffers,
        simplify_control,
        vectorize,
        mark_unrolled,
        unroll,
        unroll_local,
        check_tensor_cores,
        verify_gpu,
    )
)
"""The passes of lowering for a GPU by name, in order."""
