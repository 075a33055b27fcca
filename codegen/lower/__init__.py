"""Lowering: from blocks to flat loops over flat memory, one small pass after another.

Every pass is a function `PrimFunc -> PrimFunc` whose result can be printed, verified (`forms` says
what holds after each) and interpreted. `PASSES` is the order. `annotations` lists what passes tell
one another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from codegen.lower.check_overflow import check_overflow
from codegen.lower.check_supported import check_supported
from codegen.lower.compact_buffers import compact_buffers
from codegen.lower.contiguous_accesses import contiguous_accesses
from codegen.lower.drop_partial_strides import drop_partial_strides
from codegen.lower.errors import LoweringError
from codegen.lower.flatten_buffers import flatten_buffers
from codegen.lower.forms import verify_form
from codegen.lower.hoist_allocations import hoist_allocations
from codegen.lower.hoist_conditions import hoist_conditions
from codegen.lower.lower_init import lower_init
from codegen.lower.lower_match_buffers import lower_match_buffers
from codegen.lower.mark_unrolled import mark_unrolled
from codegen.lower.open_blocks import open_blocks
from codegen.lower.place_allocations import place_allocations
from codegen.lower.promote_accumulators import promote_accumulators
from codegen.lower.remove_blocks import remove_blocks
from codegen.lower.repeat_loads import repeat_loads
from codegen.lower.simplify_control import simplify_control
from codegen.lower.split_tails import split_tails
from codegen.lower.transpose_tiles import transpose_tiles
from codegen.lower.unmask_tiles import unmask_tiles
from codegen.lower.unroll import unroll
from codegen.lower.vectorize import vectorize
from codegen.lower.vectorize_innermost import vectorize_innermost
from codegen.target import Target, as_target
from tensorir.errors import IRValueError
from tensorir.function import PrimFunc
from tensorir.recursion import any_depth
from tensorir.verify import verify_well_formed

__all__ = ["PASSES", "LoweringError", "lower"]

Pass = Callable[[PrimFunc], PrimFunc]

PASSES: Final[tuple[tuple[str, Pass], ...]] = tuple(
    (step.__name__, step)
    for step in (
        check_supported,
        check_overflow,
        drop_partial_strides,
        lower_init,
        open_blocks,
        place_allocations,
        compact_buffers,
        lower_match_buffers,
        remove_blocks,
        flatten_buffers,
        simplify_control,
        hoist_allocations,
        hoist_conditions,
        vectorize_innermost,
        vectorize,
        mark_unrolled,
        split_tails,
        unroll,
        unmask_tiles,
        promote_accumulators,
        transpose_tiles,
        contiguous_accesses,
        repeat_loads,
    )
)


VERIFY: Final = os.environ.get("TENSORIR_VERIFY") == "1"
"""True if programs are verified after each pass unless a call says otherwise."""


@any_depth
def lower(
    func: PrimFunc,
    target: str | Target | None = None,
    *,
    until: str | None = None,
    verify: bool | None = None,
) -> PrimFunc:
    """Return `func` in the form that LLVM IR is written from.

    `until` names the last pass to run, to look at what lies between. With `verify` the program is
    checked after each pass; by default that is done if the environment
    variable `TENSORIR_VERIFY` is 1 when this package is imported, as it is in the tests.
    Raises LoweringError for what a CPU cannot run, IRValueError for a pass that does not exist,
    and WellFormedError naming the pass that made a program ill-formed.
    """
    names = [name for name, _ in PASSES]
    if until is not None and until not in names:
        raise IRValueError(f"there is no pass {until!r}; the passes are {', '.join(names)}")
    verify = VERIFY if verify is None else verify
    # A pass answers for what it makes of a well-formed program only.
    verify = verify and verify_well_formed(func, assert_mode=False)
    with as_target(target):
        for k, (name, step) in enumerate(PASSES):
            before, func = func, step(func)
            if verify and func is not before:
                verify_form(func, names[: k + 1])
            if name == until:
                break
    return func
