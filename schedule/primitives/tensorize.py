"""Letting hardware compute a block at once."""

from __future__ import annotations

from schedule.analysis.intrin_match import Mismatch, check_layout, match_intrin
from schedule.errors import ArgumentError, Problem, fail
from schedule.instruction import BlockOrLoopArg, primitive
from schedule.primitives.blockize import blockize
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.nodes.buffer import BufferRegion, MatchBufferRegion
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import BlockRealize
from tensorir.rewriting.fresh_copy import FreshCopy
from tensorir.tensor_intrin import TensorIntrin

NO_MATCH = Problem(
    "TensorIntrinMismatchError",
    "{0} does not match the tensor intrin {intrin!r}: {reason}\n\n"
    "The first difference: the block has\n{found}\nwhere the intrinsic has\n{expected}\n\n"
    "The block is\n{program}\n\nThe intrinsic is described as\n{description}\n",
    "split, reorder and blockize until loops, axes and accesses are those of the description",
)


@primitive("Tensorize")
def tensorize(
    state: ScheduleState,
    block_or_loop: BlockOrLoopArg,
    tensor_intrin: str,
    preserve_unit_iters: bool = True,
) -> None:
    """Replace the body of a block by a registered tensor intrinsic that computes the same.

    A loop is blockized first. The block's body must equal the body of the intrinsic's description,
    except for names, surplus dimensions and offsets into buffers; an init of the block stays. The
    intrinsic's implementation replaces the body, on views (`match_buffer`) of the matched regions.

    See `tensorir.tensor_intrin.TensorIntrin` for the registered intrinsics, and to register others.
    Raises ScheduleError: ArgumentError (a ValueError) for an unknown name,
    TensorIntrinMismatchError, and for a loop NonSingleChildBlockError and
    SubspaceNotDivisibleError.
    """
    # Preconditions.
    intrin = TensorIntrin.get(tensor_intrin, allow_missing=True)
    if intrin is None:
        known = ", ".join(TensorIntrin.names())
        reason = f"names no tensor intrinsic {tensor_intrin!r}; the registered ones are {known}"
        raise ArgumentError("tensorize", "tensor_intrin", reason)
    block, given = block_or_loop, block_or_loop.stmt
    assert given is not None
    if not block.is_block:
        block = blockize(state, block, preserve_unit_iters)
    regions = _match(block, given, tensor_intrin, intrin)

    # Rewrite.
    assert isinstance(intrin.impl.body, BlockRealize)
    copy = FreshCopy()
    old = block.block
    views = []
    for param, region in zip(intrin.impl.params, regions, strict=True):
        parameter = intrin.impl.buffer_map[param]
        views.append(MatchBufferRegion(copy.define_parameter(parameter), region))
    inside = copy.rewrite_Block(intrin.impl.body.block)
    annotations = old.annotations
    for key, value in inside.annotations.items():
        if key not in annotations:
            annotations = annotations.with_item(key, value)
    new = old.with_(
        body=inside.body,
        alloc_buffers=(*old.alloc_buffers, *inside.alloc_buffers),
        match_buffers=(*old.match_buffers, *views, *inside.match_buffers),
        annotations=annotations,
    )
    state.replace(block, new, {old: new})


def _match(block: StmtSRef, given: Node, name: str, intrin: TensorIntrin) -> list[BufferRegion]:
    """Match a block and an intrinsic; raise with both programs and the first difference.

    The error marks the user's argument, because a block that was made of a loop is rolled back.
    """
    mismatch: Mismatch
    try:
        regions = match_intrin(block.block, intrin.desc)
        for param, region in zip(intrin.impl.params, regions, strict=True):
            check_layout(region, intrin.impl.buffer_map[param])
    except Mismatch as difference:
        mismatch = difference
    else:
        return regions
    fail(
        NO_MATCH,
        given,
        intrin=name,
        reason=mismatch.reason,
        found=block.block if mismatch.found is None else mismatch.found,
        expected=intrin.desc if mismatch.expected is None else mismatch.expected,
        program=block.block,
        description=intrin.desc,
    )
