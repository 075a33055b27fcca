"""Storing a buffer in another layout."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.accesses import OPAQUE, check_no_opaque
from schedule.analysis.bindings import axis_domain
from schedule.analysis.block_kind import blocks_in
from schedule.analysis.buffer_definition import checked_region, defining_block, replace_buffer
from schedule.analysis.dependency import is_table
from schedule.analysis.layout_map import analyze_layout
from schedule.analysis.rebuild import InlineViews, RedirectEverywhere
from schedule.analysis.surroundings import check_touched_in_blocks
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, BufferArg, IndexMapArg, PadValueAttr, primitive
from schedule.primitives.layout_padding import LayoutPadding
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, Call, PrimExpr, Var
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.ops import cast
from tensorir.nodes.stmt import Block, For, Stmt
from tensorir.rewriting.visit import walk

WRONG_ARITY = Problem(
    "IndexMapArityError",
    "the index map takes {given} indices, but {buffer} has {ndim} dimension(s)",
    "take one parameter for each dimension of the buffer",
)
NOT_INJECTIVE = Problem(
    "TransformationNotInjectiveError",
    "the index map {index_map} cannot be a layout of {buffer}: {reason}",
    "give a map of quotients and remainders, or one with its inverse",
)
ADDS_PADDING = Problem(
    "TransformationIntroducesPaddingError",
    "the index map {index_map} introduces padding to {buffer}: nothing is mapped to the places "
    "where {padding}",
    "pass the value of the padding as pad_value, or assume_injective_transform=True if nothing "
    "relies on it",
)
PAD_FORM = Problem(
    "TransformationPaddingIndexMapError",
    "the padding of {buffer} must be one value that is a function of the {ndim} new indices, but "
    "`{value}` is not",
    "pass a number, or a function of {ndim} indices that returns one value",
)
PAD_TYPE = Problem(
    "TransformationPaddingTypeError",
    "the dtype of {buffer} is {expected}, but the dtype of the padding is {given}",
    "give the value in the type of the buffer",
)
PAD_EXPRESSION = Problem(
    "TransformationPaddingExpressionError",
    "the padding of {buffer} uses {what}",
    "it may use only constants, the new indices and elements of the buffer itself",
)


@primitive("TransformLayout")
def transform_layout(
    state: ScheduleState,
    block: BlockArg,
    buffer: BufferArg,
    index_map: IndexMapArg,
    pad_value: PadValueAttr = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Store a buffer that a block touches in another layout.

    Before: B[i] = A[i]                      # transform_layout(B, lambda i: (i // 4, i % 4))
    After:  B[i // 4, i % 4] = A[i]

    Every access is rewritten. Accesses through views by match_buffer then go to the buffer itself,
    unless the map keeps the order of all elements. A parameter changes its shape, so callers must
    pass it in the new layout. `IndexMap.AXIS_SEPARATOR` in the map starts a new physical dimension
    (`set_axis_separator`). If some places of the new shape hold no element (padding), `pad_value`
    gives their value: a number, or a function of the new indices. The padding of a buffer that
    nothing writes is assumed to hold the value. Otherwise the block that fills the buffer in order,
    element by element or reducing to each, also stores the padding; if there is no such block, a
    new block after the last writer does. A divisor in the map may be symbolic where an extent shows
    that it is positive.

    With `assume_injective_transform`, the primitive assumes that the map is injective and that the
    value of the padding does not matter.

    Raises ScheduleError: BufferIndexOutOfRangeError, BufferIsSubregionError,
    NonAllocatedBufferError, IndexMapArityError, OpaqueAccessError,
    TransformationPaddingIndexMapError, TransformationPaddingTypeError,
    TransformationPaddingExpressionError, TransformationNotInjectiveError,
    TransformationIntroducesPaddingError, BareAccessError, UndefinedExtentError.
    """
    # Preconditions.
    old = checked_region(block, *buffer).buffer
    site = defining_block(state, block, old)
    ndim = len(old.shape)
    given = len(index_map.initial_indices)
    check(given == ndim, WRONG_ARITY, block, given=given, ndim=ndim, buffer=old.name)
    index_map = index_map.retyped([n.dtype for n in old.shape])
    if pad_value is not None:
        _check_padding_value(block, old, index_map, pad_value)
    stays = tuple(index_map.final_indices) == tuple(index_map.initial_indices)
    if stays and not (old.axis_separators or old.strides):
        return
    views = InlineViews(old)
    viewed = any(realize.block.match_buffers for realize in blocks_in(site.block.body))
    direct = views(site.block) if viewed else site.block
    check(views.is_complete(direct), OPAQUE, site, buffer=old.name)
    check_no_opaque(site, old, direct)
    trusted = assume_injective_transform and pad_value is None
    try:
        layout = analyze_layout(index_map, [Range(n) for n in old.shape], trusted=trusted)
    except IRValueError as error:
        fail(NOT_INJECTIVE, block, index_map=index_map, buffer=old.name, reason=error)
    if layout.has_padding:
        values = {"index_map": index_map, "buffer": old.name, "padding": layout.padding}
        check(pad_value is not None, ADDS_PADDING, block, **values)
        # Padding is filled after the blocks that write the buffer.
        check_touched_in_blocks(state, site, block, read=[old])

    # Rewrite.
    if direct is not site.block:
        state.replace(site, direct, views.reuse)
    # A table of `cache_index` keeps its mark.
    new = old.with_(shape=layout.shape, strides=(), axis_separators=())
    if is_table(old):
        new = new.with_(strides=new.all_strides())
    before, replaced = site.block, dict[Block, Block]()
    if layout.has_padding:
        value = pad_value.retyped([n.dtype for n in layout.shape])
        # The new indices may have another type; the element type stays.
        element = cast(old.dtype, value.final_indices[0])
        value = IndexMap(value.initial_indices, [element])
        padding = LayoutPadding(state, site, old, new, layout, value)
        before, replaced = padding.apply(), padding.replaced
    replace_buffer(state, site, old, new, _Relayout(old, new, index_map), before, replaced)


def _check_padding_value(
    block: StmtSRef, buffer: Buffer, index_map: IndexMap, value: IndexMap
) -> None:
    ndim = len(index_map.final_indices)
    one = len(value.final_indices) == 1 and len(value.initial_indices) == ndim
    check(one, PAD_FORM, block, buffer=buffer.name, ndim=ndim, value=value)
    (element,) = value.final_indices
    same = element.dtype is buffer.dtype
    types = {"expected": buffer.dtype, "given": element.dtype}
    check(same, PAD_TYPE, block, buffer=buffer.name, **types)
    for node in walk(element):
        if isinstance(node, BufferLoad):
            own = node.buffer is buffer
            check(own, PAD_EXPRESSION, block, buffer=buffer.name, what=f"`{node}`")
        elif isinstance(node, Call):
            quiet = isinstance(node.op, Op) and node.op.effect in (Effect.PURE, Effect.READ)
            check(quiet, PAD_EXPRESSION, block, buffer=buffer.name, what=f"the call `{node}`")


class _Relayout(RedirectEverywhere):
    """Rewrites the accesses of a buffer for the new layout."""

    def __init__(self, old: Buffer, new: Buffer, index_map: IndexMap) -> None:
        super().__init__(old, new)
        self._index_map = index_map
        self._pending: dict[Var, Range] = {}
        """Ranges that the analyzer gets once an access needs them."""
        self._known: dict[tuple[PrimExpr, ...], list[PrimExpr]] = {}
        """The new indices for the accesses of the block, by their old ones."""

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        known = self._known.get(tuple(indices))
        if known is None:
            for var, values in self._pending.items():
                self._analyzer.bind(var, values, True)
            self._pending.clear()
            known = self._index_map.map_indices(indices, self._analyzer)
            self._known[tuple(indices)] = known
        return known

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        self._known.clear()
        self._pending[node.loop_var] = Range.from_min_extent(node.min, node.extent)
        new = self.generic(node)
        self._pending.pop(node.loop_var, None)
        return new

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        self._known.clear()
        self._pending.update(axis_domain(node.iter_vars))
        new = super().rewrite_Block(node)
        for axis in node.iter_vars:
            self._pending.pop(axis.var, None)
        return new
