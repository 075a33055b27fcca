"""The buffer that a primitive is called for, and the new buffer that replaces it."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.errors import Problem, check
from schedule.operands.handles import regions_of
from schedule.sref import StmtSRef
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import PointerType, PrimExpr, PrimType, Var
from tensorir.nodes.ops import const

INVALID_SCOPE = Problem(
    "InvalidStorageScopeError",
    "unknown storage scope {storage_scope!r}",
    "the scopes are global, shared, local, warp and their tagged forms such as shared.dyn",
)
INDEX_OUT_OF_RANGE = Problem(
    "BufferIndexOutOfRangeError",
    "the argument `buffer_index` is {index}, but {0} has {count} {side} region(s)",
    "count from 0",
)

STORAGE_SCOPES = (
    "global",
    "shared",
    "warp",
    "local",
    "wmma.",
    "texture",
    "amx.tmm",
    "m16n8k8.",
    "metal.",
)


def check_storage_scope(block: StmtSRef, storage_scope: str) -> None:
    """Raise unless there is such a storage scope; the empty one is global."""
    valid = storage_scope == "" or storage_scope.startswith(STORAGE_SCOPES)
    check(valid, INVALID_SCOPE, block, storage_scope=storage_scope)


def checked_region(block: StmtSRef, side: str, index: int) -> BufferRegion:
    """Return a region that a block declares to read or write; raise if there is none."""
    regions = regions_of(block.block, side)
    inside = 0 <= index < len(regions)
    check(inside, INDEX_OUT_OF_RANGE, block, index=index, count=len(regions), side=side)
    return regions[index]


def checked_buffer(block: StmtSRef, index: int, storage_scope: str, side: str) -> Buffer:
    """Return the buffer of a block's region; raise for a scope or an index that does not exist."""
    check_storage_scope(block, storage_scope)
    return checked_region(block, side, index).buffer


def stage_buffer(
    buffer: Buffer, name: str, storage_scope: str, shape: Sequence[PrimExpr] | None = None
) -> Buffer:
    """Return a compact buffer of the same elements in its own memory.

    With a `shape`, its dimensions are others than those of `buffer`.
    """
    kind = buffer.data.type_annotation
    assert isinstance(kind, PointerType)
    assert isinstance(kind.element_type, PrimType)
    dtype = buffer.elem_offset.dtype
    if shape is not None:
        dtype = shape[0].dtype if shape else INT64
    return buffer.with_(
        name=name,
        data=Var(name, PointerType(kind.element_type, storage_scope)),
        shape=tuple(buffer.shape if shape is None else shape),
        strides=(),
        elem_offset=const(0, dtype),
        axis_separators=buffer.axis_separators if shape is None else (),
        buffer_type="",
    )


def cache_buffer(
    buffer: Buffer, storage_scope: str, shape: Sequence[PrimExpr] | None = None
) -> Buffer:
    """Return a buffer `<buffer>_<scope>` in another storage scope; see `stage_buffer`."""
    return stage_buffer(buffer, f"{buffer.name}_{storage_scope or 'global'}", storage_scope, shape)
