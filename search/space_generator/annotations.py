"""The annotations through which rules, mutators and postprocessors pass on their decisions.

Programs, too, may ask with `INLINE_RULE`, `SCHEDULE_RULE` and `WRITE_CACHE_LEVEL`. A root block is
the one of a function, with all others below it. The two pragmas are annotations of loops, which
the compiler reads.
"""

from __future__ import annotations

from typing import Final

from codegen.lower.annotations import EXPLICIT as PRAGMA_UNROLL_EXPLICIT
from codegen.lower.annotations import MAX_STEP as PRAGMA_AUTO_UNROLL_MAX_STEP
from tensorir.memory.layout_rewrite import LAYOUT_REWRITE_PREPROC

AUTO_TENSORIZE: Final = "meta_schedule.auto_tensorize"
"""The intrinsic that a block becomes; the empty name marks the init that was separated from one."""
AUTO_TENSORIZE_INIT: Final = "meta_schedule.auto_tensorize_init"
"""The intrinsic that the init of a block becomes, once it is separated."""
INLINE_RULE: Final = "meta_schedule.inline_rule"
"""`"disable"` on a block that is not to be inlined."""
KEPT_ROLLED: Final = "meta_schedule.kept_rolled"
"""Set on a block around which no loop is to be written out but those of its register tile."""
OPERANDS_PACKED: Final = "meta_schedule.operands_packed"
"""Set on a block whose operands a rule has brought into the order in which they are read."""
PACKED: Final = "meta_schedule.packed_operand"
"""The most iterations of a parallel loop over a copy that `RewritePanels` gives its layout."""
PARALLEL: Final = "meta_schedule.parallel"
"""The most iterations that parallel loops below a root may have."""
RANDOM_COMPUTE_PRODUCER: Final = "meta_schedule.random_compute_producer"
"""Set on a block whose producer `RandomComputeLocation` is to move as well."""
REGISTER_TILE: Final = "meta_schedule.register_tile"
"""The most vector registers that the tile of a reduction below a root may take."""
SCHEDULE_RULE: Final = "schedule_rule"
"""The rule of one's own, by name, that schedules a block; `"None"` leaves the block alone."""
TILING_STRUCTURE: Final = "meta_schedule.tiling_structure"
"""The levels of tiles, such as `"SSRSRS"`, of a block that multi-level tiling was applied to."""
UNROLL_EXPLICIT: Final = "meta_schedule.unroll_explicit"
"""The most statements that loops below a root may be written out to."""
UNROLL_IMPLICIT: Final = "meta_schedule.unroll_implicit"
"""The same, where copying the statements is left to LLVM."""
VECTORIZE: Final = "meta_schedule.vectorize"
"""The most lanes that the innermost loops below a root may have."""
WRITE_CACHE_LEVEL: Final = "meta_schedule.write_cache_level"
"""The levels of tiles at which a block gets a write cache, in the place of those of the rule."""

__all__ = [
    "AUTO_TENSORIZE",
    "AUTO_TENSORIZE_INIT",
    "INLINE_RULE",
    "KEPT_ROLLED",
    "LAYOUT_REWRITE_PREPROC",
    "OPERANDS_PACKED",
    "PACKED",
    "PARALLEL",
    "PRAGMA_AUTO_UNROLL_MAX_STEP",
    "PRAGMA_UNROLL_EXPLICIT",
    "RANDOM_COMPUTE_PRODUCER",
    "REGISTER_TILE",
    "SCHEDULE_RULE",
    "TILING_STRUCTURE",
    "UNROLL_EXPLICIT",
    "UNROLL_IMPLICIT",
    "VECTORIZE",
    "WRITE_CACHE_LEVEL",
]
