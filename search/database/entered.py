"""The stack of databases and histories entered by `with`, which builds and passes ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Final, Self

from search.errors import TuningError

if TYPE_CHECKING:
    from search.database.database import Database


class Entered(ABC):
    """Something that is current inside of its `with`, unless another one is entered there."""

    @abstractmethod
    def as_database(self) -> Database:
        """Return the database that is current inside."""

    def __enter__(self) -> Self:
        # Builds ask what is entered from here on: what answers them is built on databases.
        import_module("search.dispatch.apply_database")
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        stack = _entered.get()
        if not stack or stack[-1] is not self:
            raise TuningError(
                "a database or history is left before another one that was entered inside of it; "
                "nest their `with` statements"
            )
        _entered.set(stack[:-1])


_entered: Final[ContextVar[tuple[Entered, ...]]] = ContextVar("entered", default=())


def innermost() -> Entered | None:
    """Return the object that the innermost `with` entered, None outside."""
    stack = _entered.get()
    return stack[-1] if stack else None
