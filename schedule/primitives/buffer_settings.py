"""Properties of the buffers that a block touches: alignment, storage scope, data type, division."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from schedule.analysis.buffer_definition import (
    check_storage_scope,
    checked_region,
    defining_block,
    replace_buffer,
)
from schedule.analysis.rebuild import RedirectBuffers
from schedule.analysis.surroundings import check_only_name
from schedule.errors import ArgumentError, Problem, check, fail
from schedule.instruction import BlockArg, BufferArg, WriteIndex, primitive
from schedule.primitives.annotate import set_annotation
from schedule.sref import StmtSRef, path_up
from schedule.state import ScheduleState
from tensorir.nodes.buffer import Buffer, MatchBufferRegion
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, Cast, IntImm, PointerType, PrimExpr, PrimType, Var
from tensorir.nodes.float_format import holds_values_of
from tensorir.nodes.ops import cast
from tensorir.nodes.stmt import BufferStore, Stmt

INVALID_FACTOR = Problem(
    "StorageAlignInvalidFactorError",
    "the alignment factor must be positive, but it is {factor}",
    "pass a factor of at least 1",
)
AXIS_OUT_OF_RANGE = Problem(
    "StorageAlignAxisOutOfRangeError",
    "axis {axis} is out of range: {buffer} has {ndim} dimension(s)",
    "negative axes count from the end",
)
NOT_ALLOCATED = Problem(
    "NonAllocatedBufferError",
    "{buffer} is not allocated by a block, it is a parameter or a view",
    "cache_write makes a buffer that a block allocates",
)
INVALID_ANNOTATION = Problem(
    "StorageAlignInvalidAnnotationError",
    "the annotation buffer_dim_align of {0} must be a list of [buffer, axis, factor, offset]",
    "unannotate it with the key 'buffer_dim_align' and call storage_align again",
)

WRONG_SEPARATORS = Problem(
    "InvalidAxisSeparatorError",
    "{separators} must be ascending positions among the {ndim} dimension(s) of {buffer}",
    "a separator at position k comes before dimension k",
)

_ALIGN_KEY = "buffer_dim_align"


@primitive("StorageAlign")
def storage_align(
    state: ScheduleState, block: BlockArg, buffer_index: int, axis: int, factor: int, offset: int
) -> None:
    """Require the stride of one dimension to be `factor * k + offset` elements for some k.

    An earlier request for the same buffer and axis is replaced.
    Raises ScheduleError: BufferIndexOutOfRangeError, StorageAlignInvalidFactorError,
    StorageAlignAxisOutOfRangeError, NonAllocatedBufferError, StorageAlignInvalidAnnotationError.
    """
    buffer = checked_region(block, "write", buffer_index).buffer
    check(factor > 0, INVALID_FACTOR, block, factor=factor)
    ndim = len(buffer.shape)
    inside = -ndim <= axis < ndim
    check(inside, AXIS_OUT_OF_RANGE, block, axis=axis, buffer=buffer.name, ndim=ndim)
    _allocation(block, buffer)
    present = block.block.annotations.get(_ALIGN_KEY, ())
    check(isinstance(present, tuple), INVALID_ANNOTATION, block)
    requests: dict[tuple[int, int], tuple[int, int]] = {}
    for entry in present:
        valid = (
            isinstance(entry, tuple)
            and len(entry) == 4
            and all(isinstance(v, IntImm) for v in entry)
        )
        check(valid, INVALID_ANNOTATION, block)
        requests[int(entry[0]), int(entry[1])] = int(entry[2]), int(entry[3])
    requests[buffer_index, axis % ndim] = factor, offset
    entries = [[*place, *stride] for place, stride in requests.items()]
    set_annotation(state, block, _ALIGN_KEY, entries)


@primitive("SetScope")
def set_scope(
    state: ScheduleState, block: BlockArg, buffer_index: WriteIndex, storage_scope: str
) -> None:
    """Put a buffer that the block writes into another storage scope, as `<buffer>_<scope>`.

    Raises ScheduleError: BufferIndexOutOfRangeError, InvalidStorageScopeError,
    NonAllocatedBufferError, AliasedBufferError.
    """
    buffer = checked_region(block, "write", buffer_index).buffer
    check_storage_scope(block, storage_scope)
    scope = storage_scope or "global"
    if buffer.scope() == scope:
        return

    def moved(old: Buffer) -> Buffer:
        name = f"{old.name}_{scope}"
        data = Var(name, PointerType(PrimType(_storage_type(old.dtype)), scope))
        return old.with_(name=name, data=data)

    site = _allocation(block, buffer)
    check_only_name(block, site, buffer)
    _change(state, site, _ChangeBuffer(buffer, moved))


@primitive("UnsafeSetDType")
def unsafe_set_dtype(state: ScheduleState, block: BlockArg, buffer_index: int, dtype: str) -> None:
    """Store a buffer that the block writes in another data type, which may lose precision.

    Stores convert to `dtype`, loads convert back. If `dtype` can represent every number of the old
    type, no precision is lost. A load that is converted to a third type is then converted directly
    from `dtype`, provided that every store names the buffer, so that it holds only numbers of the
    old type. Raises ScheduleError: BufferIndexOutOfRangeError, NonAllocatedBufferError,
    AliasedBufferError; ValueError for text that names no type.
    """
    buffer = checked_region(block, "write", buffer_index).buffer
    try:
        kind = DataType(dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentError("unsafe_set_dtype", "dtype", f"names no type: {error}") from None
    if buffer.dtype is kind:
        return

    def converted(old: Buffer) -> Buffer:
        data = Var(old.data.name, PointerType(PrimType(_storage_type(kind)), old.scope()))
        return old.with_(dtype=kind, data=data)

    site = _allocation(block, buffer)
    check_only_name(block, site, buffer)
    _change(state, site, _ChangeDType(buffer, converted))


@primitive("SetAxisSeparator")
def set_axis_separator(
    state: ScheduleState,
    block: BlockArg,
    buffer: BufferArg,
    axis_separators: Sequence[int] | None,
) -> None:
    """Declare before which dimensions of a buffer a new physical dimension begins.

    Lowering flattens the dimensions between two separators together; None or an empty list makes
    the buffer flat. Views by match_buffer, which have the buffer's last dimensions, get the same
    separators there.

    Raises ScheduleError: BufferIndexOutOfRangeError, BufferIsSubregionError,
    NonAllocatedBufferError, InvalidAxisSeparatorError.
    """
    old = checked_region(block, *buffer).buffer
    site = defining_block(state, block, old)
    separators = [int(k) for k in axis_separators or ()]
    ndim = len(old.shape)
    valid = all(0 <= k <= ndim for k in separators) and all(a < b for a, b in pairwise(separators))
    check(valid, WRONG_SEPARATORS, block, separators=separators, ndim=ndim, buffer=old.name)

    def divided(buffer: Buffer) -> Buffer:
        dropped = ndim - len(buffer.shape)
        return buffer.with_(axis_separators=[max(0, k - dropped) for k in separators])

    _change(state, site, _ChangeBuffer(old, divided))


class _ChangeBuffer(RedirectBuffers):
    """Changes a buffer, and the views that blocks make of it, in the same way."""

    def __init__(self, buffer: Buffer, change: Callable[[Buffer], Buffer]) -> None:
        super().__init__({buffer: change(buffer)}, None)
        self.old = buffer
        self.changed = self._buffers
        self._change = change

    def rewrite_MatchBufferRegion(self, node: MatchBufferRegion) -> MatchBufferRegion:  # noqa: N802
        if node.source.buffer in self.changed:
            view = self._change(node.buffer)
            self.changed[node.buffer] = view
            self._pointers[node.buffer.data] = view.data
        return self.generic(node)


class _ChangeDType(_ChangeBuffer):
    def rewrite_Cast(self, node: Cast) -> PrimExpr:  # noqa: N802
        load = node.value
        if isinstance(load, BufferLoad):
            wide = self.rewrite_BufferLoad(load)
            if isinstance(wide, Cast) and isinstance(wide.value, BufferLoad):
                stored = wide.value
                if stored.buffer is not load.buffer and holds_values_of(stored.dtype, load.dtype):
                    return cast(node.dtype, stored)
        return self.generic(node)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        new = self.generic(node)
        return cast(node.dtype, new) if node.buffer in self.changed else new

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:  # noqa: N802
        buffer = self.changed.get(node.buffer)
        if buffer is None:
            return self.generic(node)
        value = self(node.value)
        dtype = buffer.dtype.with_lanes(value.dtype.lanes)
        predicate = self.maybe(node.predicate)
        stored = value if value.dtype is dtype else Cast(dtype, value)
        return BufferStore(buffer, stored, self.each(node.indices), predicate)


def _storage_type(dtype: DataType) -> DataType:
    return DataType("int8") if dtype.is_bool else dtype


def _allocation(block: StmtSRef, buffer: Buffer) -> StmtSRef:
    """Return the block that allocates a buffer."""
    for current in path_up(block):
        if current.is_block and buffer in current.block.alloc_buffers:
            return current
    fail(NOT_ALLOCATED, block, buffer=buffer.name)


def _change(state: ScheduleState, site: StmtSRef, rewriter: _ChangeBuffer) -> None:
    """Rewrite all statements that may use a buffer that the block `site` allocates."""
    old = rewriter.old
    replace_buffer(state, site, old, rewriter.changed[old], rewriter)
