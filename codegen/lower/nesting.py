"""The nesting of a program: what stands around a place, and the innermost node around several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.node import Node


@dataclass(eq=False, slots=True)
class Nest:
    """A node on the way from the root of a program to a place, behind those around it."""

    node: Node
    parent: Nest | None = None
    depth: int = 0
    condition: PrimExpr | None = None
    """The condition on which the place is reached from outside of the node, if there is one."""

    def enter(self, node: Node, condition: PrimExpr | None = None) -> Nest:
        """Return the nest of what stands directly inside `node`."""
        return Nest(node, self, self.depth + 1, condition)

    def up_to(self, outer: Nest) -> Iterator[Nest]:
        """Yield the nests from this one outwards to `outer`, which is not one of them."""
        at: Nest | None = self
        while at is not None and at is not outer:
            yield at
            at = at.parent

    def common(self, other: Nest) -> Nest:
        """Return the innermost nest around both, which may be one of them."""
        a, b = self, other
        while a is not b:
            if a.depth < b.depth:
                a, b = b, a
            assert a.parent is not None
            a = a.parent
        return a
