"""Finding blocks and loops; none of these changes the program."""

from __future__ import annotations

from schedule.analysis.dependency import dependencies
from schedule.errors import ArgumentError, Problem, fail
from schedule.instruction import (
    BlockArg,
    NewBlock,
    NewBlocks,
    NewLoops,
    UnnamedBlockOrLoopArg,
    primitive,
)
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.errors import IRValueError

_NOT_FOUND = Problem(
    "NotSingleResult",
    'Cannot find a block with the name: {name} in function "{func_name}"',
    "the function has the blocks {present}",
)
_AMBIGUOUS = Problem(
    "NotSingleResult",
    'Found  {count} blocks with the name: {name} in function "{func_name}"',
    "give the blocks different names, or reach the one you mean with get_child_blocks",
)


@primitive("GetBlock", pure=True)
def get_block(state: ScheduleState, name: str, func_name: str | None = None) -> NewBlock:
    """Find a block by its name.

    `func_name` names the function to look in; it defaults to the one chosen by `work_on`.
    Raises ScheduleError (NotSingleResult) unless exactly one block has the name, ArgumentError
    unless there is a function of that name with blocks.
    """
    if func_name is None:
        raise ArgumentError("get_block", "func_name", "is missing; a saved trace names it")
    try:
        state.root(func_name)
    except IRValueError as error:
        raise ArgumentError("get_block", "func_name", f"is wrong: {error}") from None
    blocks = list(state.blocks(func_name))
    found = [b for b in blocks if b.block.name_hint == name]
    if len(found) == 1:
        return found[0]
    if not found:
        present = ", ".join(b.block.name_hint for b in blocks)
        fail(_NOT_FOUND, name=name, func_name=func_name, present=present)
    fail(_AMBIGUOUS, *found, name=name, func_name=func_name, count=len(found))


@primitive("GetLoops", pure=True)
def get_loops(state: ScheduleState, block: BlockArg) -> NewLoops:
    """Return the loops around a block in its scope, outermost first."""
    return loops_above(block)


@primitive("GetChildBlocks", pure=True)
def get_child_blocks(state: ScheduleState, block_or_loop: UnnamedBlockOrLoopArg) -> NewBlocks:
    """Return the blocks right below a block or loop, in program order."""
    return state.child_blocks(block_or_loop)


@primitive("GetProducers", pure=True)
def get_producers(state: ScheduleState, block: BlockArg) -> NewBlocks:
    """Return the blocks of the same scope that write a buffer that this block reads or overwrites.

    Raises ScheduleError (RootBlockError) for the root block.
    """
    return dependencies(state, state.scope_root(block), declared_only=True).producers_of(block)


@primitive("GetConsumers", pure=True)
def get_consumers(state: ScheduleState, block: BlockArg) -> NewBlocks:
    """Return the blocks of the same scope that read or overwrite a buffer that this block writes.

    Raises ScheduleError (RootBlockError) for the root block.
    """
    return dependencies(state, state.scope_root(block), declared_only=True).consumers_of(block)


@primitive("GetOutputBlocks", pure=True)
def get_output_blocks(state: ScheduleState, scope_block: BlockArg) -> NewBlocks:
    """Return the blocks below a block that write a buffer not allocated by their own scope."""
    found: list[StmtSRef] = []
    pending = list(reversed(state.child_blocks(scope_block)))
    while pending:
        sref = pending.pop()
        allocated = state.scope_root(sref).block.alloc_buffers
        if any(region.buffer not in allocated for region in sref.block.writes):
            found.append(sref)
        pending.extend(reversed(state.child_blocks(sref)))
    return found
