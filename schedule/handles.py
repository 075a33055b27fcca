"""Random variables: the handles and numbers that primitives take and return.

A handle is empty. A schedule's symbol table maps it to a loop, a block or a number, so the same
handle means the same thing in a schedule and in its copy. A handle only keeps a reference to the
schedule that made it, so that it can print its meaning there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import ReferenceType

from tensorir.nodes.expr import PrimExpr, Var

if TYPE_CHECKING:
    from schedule.schedule import Schedule


class Handle:
    """A name for a part of a program, given out by a schedule."""

    __slots__ = ("__weakref__", "_maker")

    def __init__(self, maker: ReferenceType[Schedule] | None = None) -> None:
        self._maker = maker

    @property
    def schedule(self) -> Schedule | None:
        """The schedule that made it, None if it is gone or the handle was made by none."""
        return None if self._maker is None else self._maker()

    def __repr__(self) -> str:
        schedule = self.schedule
        if schedule is not None:
            meaning = schedule.meaning_of(self)
        else:
            meaning = "of no schedule" if self._maker is None else "its schedule is gone"
        return f"{type(self).__name__}({meaning})"

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        """Pickle without the schedule, which another process does not have."""
        return (type(self), ())


class BlockRV(Handle):
    """A block of the program under transformation."""

    __slots__ = ()


class LoopRV(Handle):
    """A loop of the program under transformation, or a marker of a compute location."""

    __slots__ = ()

    @staticmethod
    def inline_rv() -> LoopRV:
        """Return the mark for "inline into the consumers"."""
        return _INLINE

    @staticmethod
    def root_rv() -> LoopRV:
        """Return the mark for "leave it at the root"."""
        return _ROOT

    def __repr__(self) -> str:
        if self is _INLINE or self is _ROOT:
            return f"LoopRV.{'inline' if self is _INLINE else 'root'}_rv()"
        return super().__repr__()


_INLINE = LoopRV()
_ROOT = LoopRV()

ExprRV: TypeAlias = PrimExpr
"""A number that a `sample_*` primitive chose: a variable, or arithmetic on such variables."""

RandomVariable: TypeAlias = BlockRV | LoopRV | Var
