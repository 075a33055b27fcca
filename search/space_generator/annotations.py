"""The annotations by which rules, mutators and postprocessors pass on decisions.

A user's program may use `INLINE_RULE`, `SCHEDULE_RULE` and `WRITE_CACHE_LEVEL`. "Root" is the root
block of a function. The two pragmas are annotations of loops for the compiler.
"""

from __future__ import annotations

from typing import Final

from codegen.lower.forms import EXPLICIT, MAX_STEP

AUTO_TENSORIZE: Final = "meta_schedule.auto_tensorize"
"""The intrinsic for a block; an empty name marks the init that was separated from such a block."""
AUTO_TENSORIZE_INIT: Final = "meta_schedule.auto_tensorize_init"
"""The intrinsic for the init of a block, once it is separated."""
COOPERATIVE_FETCH: Final = "meta_schedule.cooperative_fetch"
"""On a copy: the number of elements that a thread copies at a time; the block shares the copy."""
INLINE_RULE: Final = "meta_schedule.inline_rule"
"""`"disable"` on a block that must not be inlined."""
KEPT_ROLLED: Final = "meta_schedule.kept_rolled"
"""On a block whose loops are not unrolled, except those of its register tile."""
OPERANDS_PACKED: Final = "meta_schedule.operands_packed"
"""On a block whose operands were copied to the layout in which it reads them."""
PACKED: Final = "meta_schedule.packed_operand"
"""On a copy that `RewritePanels` lays out: the maximum number of iterations of a parallel loop."""
PARALLEL: Final = "meta_schedule.parallel"
"""On a root: the maximum number of iterations of parallel loops."""
PRAGMA_AUTO_UNROLL_MAX_STEP: Final = MAX_STEP
PRAGMA_UNROLL_EXPLICIT: Final = EXPLICIT
RANDOM_COMPUTE_PRODUCER: Final = "meta_schedule.random_compute_producer"
"""On a block whose producer `RandomComputeLocation` moves too."""
REGISTER_TILE: Final = "meta_schedule.register_tile"
"""On a root: the maximum number of vector registers of a reduction's register tile."""
SCHEDULE_RULE: Final = "schedule_rule"
"""The name of the custom rule that schedules a block; `"None"` leaves the block unchanged."""
THREAD_EXTENT_HIGH: Final = "meta_schedule.thread_extent_high_inclusive"
THREAD_EXTENT_LOW: Final = "meta_schedule.thread_extent_low_inclusive"
"""On a block: the least and the largest number of threads of its thread block."""
TILING_STRUCTURE: Final = "meta_schedule.tiling_structure"
"""The tile levels of a block after multi-level tiling, such as `"SSRSRS"`."""
UNROLL_EXPLICIT: Final = "meta_schedule.unroll_explicit"
"""On a root: the maximum number of statements that an unrolled loop may have."""
UNROLL_IMPLICIT: Final = "meta_schedule.unroll_implicit"
"""The same, but LLVM unrolls."""
VECTORIZE: Final = "meta_schedule.vectorize"
"""On a root: the maximum number of lanes of a vectorised loop."""
WARP_EXECUTION: Final = "warp_execution"
"""1 on a block that all threads of a warp run together; its warps are bound to `threadIdx.y`."""
WRITE_CACHE_LEVEL: Final = "meta_schedule.write_cache_level"
"""The tile levels at which a block gets a write cache, instead of those of the rule."""
