"""Random variables: what the primitives of a schedule take and return.

A handle has no content of its own. A schedule's symbol table maps it to a loop, a block or a
number, so the same handle means the same thing in a schedule and in its copy.
"""

from __future__ import annotations

from typing import TypeAlias

from tensorir.expr import PrimExpr, Var


class BlockRV:
    """A block of the program under transformation."""

    __slots__ = ("__weakref__",)


class LoopRV:
    """A loop of the program under transformation, or a mark that stands for a compute location."""

    __slots__ = ("__weakref__",)

    @staticmethod
    def inline_rv() -> LoopRV:
        """Return the mark for "inline into the consumers"."""
        return _INLINE

    @staticmethod
    def root_rv() -> LoopRV:
        """Return the mark for "leave it at the root"."""
        return _ROOT


_INLINE = LoopRV()
_ROOT = LoopRV()

ExprRV: TypeAlias = PrimExpr
"""A number that a `sample_*` primitive chose: a variable, or arithmetic on such variables."""

RandomVariable: TypeAlias = BlockRV | LoopRV | Var
