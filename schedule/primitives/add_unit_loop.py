"""Wrapping a statement in a loop of one iteration."""

from __future__ import annotations

from schedule.instruction import BlockOrLoopArg, NewLoop, primitive
from schedule.state import ScheduleState
from tensorir.errors import IRValueError
from tensorir.expr import Var
from tensorir.ops import const
from tensorir.stmt import For, ForKind


@primitive("AddUnitLoop")
def add_unit_loop(state: ScheduleState, block_or_loop: BlockOrLoopArg) -> NewLoop:
    """Put a loop of extent 1 around a block or loop.

    Raises ValueError for the root block, which no loop can enclose.
    """
    if block_or_loop.parent is None:
        raise IRValueError("add_unit_loop cannot wrap the root block of a function")
    inner = block_or_loop.block_realize if block_or_loop.is_block else block_or_loop.loop
    unit = For(Var("u"), const(0), const(1), ForKind.SERIAL, inner)
    state.replace(block_or_loop, unit)
    return state.stmt2ref[unit]
