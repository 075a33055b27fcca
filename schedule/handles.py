"""Random variables: the handles and numbers that primitives take and return.

A handle contains nothing. A schedule's symbol table maps it to a loop, a block or a number, so the
same handle means the same thing in a schedule and in its copy. A handle only keeps a reference to
the schedule that made it, so that it can print its meaning there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias
from weakref import ReferenceType

from schedule.sref import StmtSRef
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import PrimExpr, Var


class HandleTable(Protocol):
    """The part of a schedule that handles and operands use: it resolves handles."""

    def get(self, rv_or_sref: Any) -> Any:
        """Return the value of a handle."""

    def get_sref(self, rv_or_stmt: Any) -> StmtSRef:
        """Return the reference behind a handle."""

    def get_block(self, name: str) -> BlockRV:
        """Return a handle of the block with a name."""

    def bind_index_map(self, index_map: IndexMap) -> IndexMap:
        """Return an index map with the sampled numbers in it filled in."""

    def meaning_of(self, rv: Handle) -> str:
        """Return the name and the value of a handle."""


class Handle:
    """A name for a part of a program, given out by a schedule."""

    __slots__ = ("__weakref__", "_maker")

    def __init__(self, maker: ReferenceType[HandleTable] | None = None) -> None:
        self._maker = maker

    @property
    def schedule(self) -> HandleTable | None:
        """The schedule that made the handle, None if it was deleted or the handle has none."""
        return None if self._maker is None else self._maker()

    def __repr__(self) -> str:
        schedule = self.schedule
        if schedule is not None:
            meaning = schedule.meaning_of(self)
        else:
            meaning = "of no schedule" if self._maker is None else "its schedule is gone"
        return f"{type(self).__name__}({meaning})"

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        """Pickle without the schedule, which does not exist in another process."""
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
        """Return the mark for "keep it at the root"."""
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
