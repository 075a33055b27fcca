"""Buffers that primitives work on: lookup, their definitions, and new buffers that replace them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedule.analysis.rebuild import BlockRewriter
from schedule.errors import Problem, check, fail
from schedule.operands.handles import regions_of
from schedule.sref import StmtSRef, path_up
from schedule.state import ScheduleState
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import PointerType, PrimExpr, PrimType, Var
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import uses_var

SUBREGION = Problem(
    "BufferIsSubregionError",
    "{buffer} is a view that {1} defines by match_buffer, so its layout follows from another "
    "buffer's",
    "name the buffer that it is a view of",
)
UNKNOWN_DEFINITION = Problem(
    "NonAllocatedBufferError",
    "{buffer} is neither a parameter nor allocated by a block around {0}",
    "allocate it with T.alloc_buffer or make it a parameter; cache_read makes a copy that is "
    "allocated",
)
LOST_EXTENT = Problem(
    "UndefinedExtentError",
    "the value of {size} is defined only by the shape of {buffer}, and no dimension of the new "
    "layout is {size} itself",
    "choose a layout that keeps the dimension, or make {size} a parameter of the function",
)


def defining_block(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> StmtSRef:
    """Return the block that allocates a buffer, or the root of the function for a parameter.

    Raises ScheduleError for a view of another buffer, and for a buffer of unknown origin.
    """
    for current in path_up(block):
        if current.is_block:
            node = current.block
            if buffer in node.alloc_buffers:
                return current
            viewed = any(view.buffer is buffer for view in node.match_buffers)
            check(not viewed, SUBREGION, block, current, buffer=buffer.name)
    if buffer not in state.func_of(block).buffer_map.values():
        fail(UNKNOWN_DEFINITION, block, buffer=buffer.name)
    return current


def _needs(body: Block, params: Mapping[Var, Buffer], size: Var) -> bool:
    layouts = (n for buffer in params.values() for n in buffer.layout)
    return uses_var(body, size) or any(uses_var(n, size) for n in layouts)


def replace_buffer(
    state: ScheduleState,
    site: StmtSRef,
    old: Buffer,
    new: Buffer,
    rewriter: BlockRewriter,
    start: Block | None = None,
    replaced: Mapping[Block, Block] | None = None,
) -> None:
    """Rewrite the block that defines a buffer, and the signature if the buffer is a parameter.

    If `start` is given, it is rewritten instead of the current block; `replaced` maps blocks of the
    program to their replacements in `start`. Raises ScheduleError: UndefinedExtentError.
    """
    before = site.block
    after = rewriter(start or before)
    params: dict[Var, Buffer] | None = None
    if old not in before.alloc_buffers:
        func = state.func_of(site)
        params = {var: new if buffer is old else buffer for var, buffer in func.buffer_map.items()}
        given = {*func.params, *(size for buffer in params.values() for size in buffer.layout)}
        for size in old.layout:
            needed = isinstance(size, Var) and size not in given and _needs(after, params, size)
            check(not needed, LOST_EXTENT, site, buffer=old.name, size=size)
    moved = {a: rewriter.reuse.get(b, b) for a, b in (replaced or {}).items()}
    # The schedule does not have references to statements that `start` adds to the program yet.
    known = {a: b for a, b in rewriter.reuse.items() if a in state.stmt2ref}
    state.replace(site, after, {**known, **moved})
    if params is not None:
        name = state.func_name_of(site)
        state.replace_func(name, state.func(name).with_(buffer_map=params))


# -------------------------------------------------------------------------------------- new buffers


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
    """Raise unless the storage scope is known; the empty string means global."""
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
    """Return a compact buffer in new memory for the elements of `buffer`.

    `shape` overrides the shape of `buffer`.
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
