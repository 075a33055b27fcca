"""The loops of an operation, and the axes of the blocks inside them.

Axes with independent domains are at level 0. An axis whose domain uses axes of level n is at level
n + 1. It needs an inner block, because a domain may only use variables from outside of its block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import collect_vars


class Axes(NamedTuple):
    """The axes of one block; `vars` maps the operation's axes to the block's variables."""

    iter_vars: list[IterVar]
    bindings: list[PrimExpr]
    vars: dict[Var, Var]


class Nest:
    """The axes of an operation by level.

    `lower(expr, vars)` replaces axes in `expr` by variables of a block.
    """

    def __init__(
        self,
        axes: Sequence[IterVar],
        lower: Callable[[PrimExpr, Mapping[Var, Var]], PrimExpr],
    ) -> None:
        self._axes = axes
        self._lower = lower
        self._level: dict[Var, int] = {}
        by_var = {axis.var: axis for axis in axes}

        def find(axis: IterVar) -> int:
            if axis.var not in self._level:
                used = collect_vars(_domain(axis))
                self._level[axis.var] = max(
                    (find(by_var[v]) + 1 for v in used if v in by_var), default=0
                )
            return self._level[axis.var]

        for axis in axes:
            find(axis)
        self._loop_vars = {axis.var: axis.var.with_name(axis.var.name) for axis in axes}
        self.innermost = max(self._level.values(), default=0)

    def level(self, axis: IterVar) -> int:
        """Return the level of an axis."""
        return self._level[axis.var]

    def loops(self, level: int, outer: Mapping[Var, Var]) -> list[tuple[Var, Range]]:
        """Return the loops of a level, given the variables of the enclosing block."""
        return [
            (self._loop_vars[axis.var], self._lower_domain(axis, outer))
            for axis in self._axes
            if self.level(axis) == level
        ]

    def block_axes(self, level: int, outer: Mapping[Var, Var]) -> Axes:
        """Return new axes for a block inside the loops of a level.

        It has the axes of all levels so far: the axes of this level iterate over its loops, the
        axes of outer levels keep their values. An operation without axes gets one axis of value 0.
        """
        if not self._axes:
            return Axes([IterVar(Range(1), "vi", IterVar.DATA_PAR)], [const(0)], {})
        result = Axes([], [], {})
        for axis in self._axes:
            if self.level(axis) > level:
                continue
            var = result.vars[axis.var] = Var(f"v_{axis.var.name}", axis.var.dtype)
            if self.level(axis) == level:
                domain = self._lower_domain(axis, outer)
                result.bindings.append(self._loop_vars[axis.var])
            else:
                domain = Range.point(outer[axis.var])
                result.bindings.append(outer[axis.var])
            result.iter_vars.append(IterVar(domain, var, axis.iter_type))
        return result

    def _lower_domain(self, axis: IterVar, outer: Mapping[Var, Var]) -> Range:
        domain = _domain(axis)
        return Range.from_min_extent(
            self._lower(domain.min, outer), self._lower(domain.extent, outer)
        )


def _domain(axis: IterVar) -> Range:
    assert axis.dom is not None
    return axis.dom
