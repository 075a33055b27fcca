"""Wrapping a statement in a loop of one iteration."""

from __future__ import annotations

from schedule.errors import ROOT_BLOCK, check
from schedule.instruction import BlockOrLoopArg, NewLoop, primitive
from schedule.state import ScheduleState
from tensorir.nodes.expr import Var
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import For, ForKind


@primitive("AddUnitLoop")
def add_unit_loop(state: ScheduleState, block_or_loop: BlockOrLoopArg) -> NewLoop:
    """Put a loop of extent 1 around a block or loop.

    Raises ScheduleError: RootBlockError, since no loop can enclose the root block.
    """
    check(block_or_loop.parent is not None, ROOT_BLOCK, block_or_loop)
    inner = block_or_loop.block_realize if block_or_loop.is_block else block_or_loop.loop
    unit = For(Var("u"), const(0), const(1), ForKind.SERIAL, inner)
    state.replace(block_or_loop, unit)
    return state.stmt2ref[unit]
