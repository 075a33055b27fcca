"""The definition of a buffer, and replacing it in everything that may use it."""

from __future__ import annotations

from collections.abc import Mapping

from schedule.analysis.rebuild import BlockRewriter
from schedule.errors import Problem, check, fail
from schedule.sref import StmtSRef, path_up
from schedule.state import ScheduleState
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var
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
    "callers give the value of {size} by the shape of {buffer} only, and no dimension of the new "
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

    `start` is rewritten in place of the current block; `replaced` maps blocks of the program to
    the blocks in `start` that replace them. Raises ScheduleError: UndefinedExtentError.
    """
    before = site.block
    after = rewriter(start or before)
    moved = {a: rewriter.reuse.get(b, b) for a, b in (replaced or {}).items()}
    # Statements that `start` adds to the program are still without references.
    known = {a: b for a, b in rewriter.reuse.items() if a in state.stmt2ref}
    state.replace(site, after, {**known, **moved})
    if old in before.alloc_buffers:
        return
    name = state.func_name_of(site)
    func = state.func(name)
    params = {var: new if buffer is old else buffer for var, buffer in func.buffer_map.items()}
    given = {*func.params, *(size for buffer in params.values() for size in buffer.layout)}
    for size in old.layout:
        needed = isinstance(size, Var) and size not in given and _needs(after, params, size)
        check(not needed, LOST_EXTENT, site, buffer=old.name, size=size)
    state.replace_func(name, func.with_(buffer_map=params))
