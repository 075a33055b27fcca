"""Changing the order of loops to one that was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from schedule.decisions.knobs import checked_order
from schedule.errors import ArgumentError
from schedule.instruction import FactorsArg, NewLoops, Operand, primitive
from schedule.primitives.reorder import reorder
from schedule.sref import StmtSRef
from schedule.state import ScheduleState

LoopsArg: TypeAlias = Annotated[Sequence[StmtSRef], Operand("loop", many=True)]


@primitive("ReorderBy")
def reorder_by(state: ScheduleState, loops: LoopsArg, positions: FactorsArg) -> NewLoops:
    """Permute loops of a nest into a sampled order, and return them in it.

    Before: for i, j, k in T.grid(n, m, l): S(i, j, k)     # reorder_by([i, j, k], [2, 0, 1])
    After:  for k, i, j in T.grid(l, n, m): S(i, j, k)

    Raises ArgumentError unless each position occurs once; ScheduleError as `reorder`.
    """
    try:
        order = checked_order(list(positions), len(loops))
    except ValueError as error:
        raise ArgumentError("reorder_by", "positions", str(error)) from None
    ordered = [loops[position] for position in order]
    reorder(state, *ordered)
    return ordered
