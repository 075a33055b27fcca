"""Overriding the accesses that a block declares."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from schedule.analysis.buffer_definition import checked_region
from schedule.errors import Problem, check
from schedule.instruction import (
    BlockArg,
    BufferSideInput,
    IntInput,
    IntsInput,
    RangesInput,
    primitive,
)
from schedule.operands.handles import regions_of
from schedule.operands.values import AnnotationOperand
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import BufferRegion, Range
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import normalize_annotation
from tensorir.rewriting.visit import substitute

BAD_SIDE = Problem(
    "BufTypeError",
    "the buffer access is {side!r}, which is neither 'read' nor 'write'",
    "pass 'read' or 'write'",
)
BAD_INDEX = Problem(
    "InvalidIndexError",
    "{indices} are not valid indices of the {count} {side} region(s) of {0}",
    "count from 0",
)
BAD_RANGES = Problem(
    "RegionRankError",
    "the function of {given} axes gives {ends} begins and ends, but {0} has {axes} axes and "
    "{buffer} has {ndim} dimension(s)",
    "take one parameter for each axis of the block and return one index or (begin, end) for each "
    "dimension",
)

_EXPLICIT = {"read": "explicit_read_region", "write": "explicit_write_region"}

SideArg: TypeAlias = Annotated[str, AnnotationOperand()]


@primitive("UnsafeHideBufferAccess")
def unsafe_hide_buffer_access(
    state: ScheduleState, block: BlockArg, buf_type: SideArg, buf_index_array: IntsInput
) -> None:
    """Remove accesses that a block declares, so that dependencies do not count them.

    `buf_type` is `"read"` or `"write"`; the indices count these regions. The caller must ensure
    that later transformations do not need the hidden dependencies; nothing checks that.

    Raises ScheduleError: BufTypeError, InvalidIndexError.
    """
    node = block.block
    check(buf_type in _EXPLICIT, BAD_SIDE, block, side=buf_type)
    regions = regions_of(node, buf_type)
    hidden = set(buf_index_array)
    valid = all(0 <= k < len(regions) for k in hidden)
    numbers = {"indices": list(buf_index_array), "count": len(regions), "side": buf_type}
    check(valid, BAD_INDEX, block, **numbers)
    kept = [region for k, region in enumerate(regions) if k not in hidden]
    state.replace(block, node.with_(**{f"{buf_type}s": kept}))


@primitive("AnnotateBufferAccess")
def annotate_buffer_access(
    state: ScheduleState,
    block: BlockArg,
    buffer_index: IntInput,
    buf_type: BufferSideInput,
    gen_new_ranges: RangesInput,
) -> None:
    """Declare the region of a buffer that a block accesses, if analysis finds a too large one.

    Before: T.reads(A[0:n])           # annotate_buffer_access(b, 0, "read", lambda i: [(i, i + 2)])
    After:  T.reads(A[i:i + 2])

    `gen_new_ranges` takes the block's axes and gives a pair (begin, end), or one expression for a
    single element, for each dimension of the buffer. (TVM expects one pair for each axis, which is
    a region only if there are as many axes as dimensions.) The block is annotated with
    `explicit_read_region` or `explicit_write_region`, so that lowering trusts the region; nothing
    checks it.

    Raises ValueError or TypeError for ranges of another form; ScheduleError: BufTypeError,
    BufferIndexOutOfRangeError, RegionRankError.
    """
    # Preconditions.
    node = block.block
    check(buf_type in _EXPLICIT, BAD_SIDE, block, side=buf_type)
    regions = list(regions_of(node, buf_type))
    region = checked_region(block, buf_type, buffer_index)
    buffer, ndim = region.buffer, len(region.region)
    given, ends = len(gen_new_ranges.initial_indices), len(gen_new_ranges.final_indices)
    fits = given == len(node.iter_vars) and ends == 2 * ndim
    numbers = {"given": given, "ends": ends, "axes": len(node.iter_vars), "ndim": ndim}
    check(fits, BAD_RANGES, block, buffer=buffer.name, **numbers)

    # Rewrite.
    index_map = gen_new_ranges.retyped([axis.var.dtype for axis in node.iter_vars])
    axes = dict(zip(index_map.initial_indices, (a.var for a in node.iter_vars), strict=True))
    final = [
        substitute(end, axes).astype(buffer.shape[k // 2].dtype)
        for k, end in enumerate(index_map.final_indices)
    ]
    analyzer = Analyzer()
    ranges = [
        Range.from_min_extent(begin, analyzer.simplify(end - begin))
        for begin, end in zip(final[::2], final[1::2], strict=True)
    ]
    regions[buffer_index] = BufferRegion(buffer, ranges)
    explicit = normalize_annotation(_explicit(block, buf_type, buffer_index))
    annotations = node.annotations.with_item(_EXPLICIT[buf_type], explicit)
    state.replace(block, node.with_(annotations=annotations, **{f"{buf_type}s": regions}))


def _explicit(block: StmtSRef, side: str, index: int) -> list[int]:
    """Return the indices of the regions that the user has declared, including `index`."""
    known = block.block.annotations.get(_EXPLICIT[side], ())
    numbers = [int(k) for k in known if isinstance(k, IntImm)]
    return numbers if index in numbers else [*numbers, index]
