"""The data pointers of a function that may lead to the same memory."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.rewriting.visit import pre_order_visit


class Aliasing:
    """The knowledge about the memory that the pointers of a function lead to.

    Allocations are memory of their own. Buffer parameters share none with one another if the
    function is marked `tir.noalias`. Of any other pointer nothing is known.
    """

    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        noalias = func.attrs.get("tir.noalias")
        self._parameters_are_distinct = noalias is not None and bool(int(noalias))
        self._parameters = frozenset(buffer.data for buffer in func.buffer_map.values())

    @cached_property
    def allocated(self) -> frozenset[Var]:
        """The pointers to memory that the function allocates."""
        found: set[Var] = set()

        def visit(node: Any) -> bool:
            if isinstance(node, (s.Allocate, s.AllocateConst)):
                found.add(node.buffer_var)
            return not isinstance(node, (PrimExpr, s.BufferStore))

        pre_order_visit(self._func.body, visit)
        return frozenset(found)

    def may_overlap(self, some: Collection[Var], others: Collection[Var]) -> bool:
        """Say whether what one of `some` leads to may be what one of `others` leads to."""
        if not set(some).isdisjoint(others):
            return True
        if not others or self.allocated.issuperset(some) or self.allocated.issuperset(others):
            return False
        outside = {*some, *others} - self.allocated
        return not (self._parameters_are_distinct and outside <= self._parameters)
