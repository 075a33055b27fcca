"""Grouped convolutions with an axis for the groups."""

from __future__ import annotations

from schedule import BlockRV, Schedule
from schedule.sref import StmtSRef
from search.schedule_rule.schedule_rule import ScheduleRule
from search.schedule_rule.split_axes import split_axes
from search.space_generator.tiling_needs import needs_multi_level_tiling
from tensorir.nodes.expr import FloorDiv, IntImm, IterVar, Var
from tensorir.rewriting.visit import walk


class SeparateGroups(ScheduleRule):
    """Gives the groups of a convolution an axis of their own.

    Before: for o, c: Y[o] += X[o // 8 * 4 + c] * W[o, c]
    After:  for g, o, c: Y[g, o] += X[g * 4 + c] * W[g * 8 + o, c]

    Tiles of what follows lie within a group then, and all lanes of a vector of outputs take the
    same element of X. An element-wise consumer gets the same axes.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the design with an axis for the groups, if there are any."""
        sref = sch.get_sref(block)
        if sref.parent is None or not needs_multi_level_tiling(sref):
            return [sch]
        groups = _group_sizes(sref)
        if groups:
            split_axes(sch, block, groups)
        return [sch]


def _group_sizes(block: StmtSRef) -> dict[Var, int]:
    """Return the axes that an operand is read at in quotients by a constant, and the constants."""
    extents = {
        axis.var: axis.dom.extent.value
        for axis in block.block.iter_vars
        if axis.iter_type == IterVar.DATA_PAR and axis.dom and isinstance(axis.dom.extent, IntImm)
    }
    found: dict[Var, int] = {}
    for part in walk(block.block.body):
        if (
            isinstance(part, FloorDiv)
            and isinstance(part.a, Var)
            and isinstance(part.b, IntImm)
            and 1 < part.b.value < extents.get(part.a, 0)
        ):
            found.setdefault(part.a, part.b.value)
    return found
