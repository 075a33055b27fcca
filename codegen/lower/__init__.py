"""Lowering: from blocks to flat loops over flat memory, one small pass after another.

Every pass is a function `PrimFunc -> PrimFunc` whose result can be printed and interpreted. `PASSES`
is the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from codegen.lower.check_supported import check_supported
from codegen.lower.compact_buffers import compact_buffers
from codegen.lower.drop_partial_strides import drop_partial_strides
from codegen.lower.errors import LoweringError
from codegen.lower.flatten_buffers import flatten_buffers
from codegen.lower.hoist_conditions import hoist_conditions
from codegen.lower.lower_init import lower_init
from codegen.lower.lower_match_buffers import lower_match_buffers
from codegen.lower.mark_unrolled import mark_unrolled
from codegen.lower.open_blocks import open_blocks
from codegen.lower.place_allocations import place_allocations
from codegen.lower.promote_accumulators import promote_accumulators
from codegen.lower.remove_blocks import remove_blocks
from codegen.lower.simplify_control import simplify_control
from codegen.lower.unroll import unroll
from codegen.lower.vectorize import vectorize
from codegen.lower.vectorize_innermost import vectorize_innermost
from codegen.target import Target, as_target
from tensorir.errors import IRValueError
from tensorir.function import PrimFunc

__all__ = ["PASSES", "LoweringError", "lower"]

Pass = Callable[[PrimFunc], PrimFunc]

PASSES: Final[tuple[tuple[str, Pass], ...]] = tuple(
    (step.__name__, step)
    for step in (
        check_supported,
        drop_partial_strides,
        lower_init,
        place_allocations,
        open_blocks,
        compact_buffers,
        lower_match_buffers,
        remove_blocks,
        flatten_buffers,
        simplify_control,
        hoist_conditions,
        vectorize_innermost,
        vectorize,
        mark_unrolled,
        unroll,
        promote_accumulators,
    )
)


def lower(
    func: PrimFunc, target: str | Target | None = None, *, until: str | None = None
) -> PrimFunc:
    """Return `func` in the form that LLVM IR is written from.

    `until` names the last pass to run, to look at what lies between. Raises LoweringError for what
    a CPU cannot run, IRValueError for a pass that does not exist.
    """
    names = [name for name, _ in PASSES]
    if until is not None and until not in names:
        raise IRValueError(f"there is no pass {until!r}; the passes are {', '.join(names)}")
    with as_target(target):
        for name, step in PASSES:
            func = step(func)
            if name == until:
                break
    return func
