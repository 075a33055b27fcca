"""A result that is on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

R = TypeVar("R")


class Future(Generic[R]):
    """The result of a build or a measurement, which may still be on its way."""

    def __init__(
        self,
        f_done: Callable[[], bool],
        f_result: Callable[[], R],
        f_give_up: Callable[[], object] | None = None,
    ) -> None:
        self._done = f_done
        self._result = f_result
        self._give_up = f_give_up

    def done(self) -> bool:
        """Say whether the result is there."""
        return self._done()

    def result(self) -> R:
        """Return the result, waiting for it if need be."""
        return self._result()

    def give_up(self) -> None:
        """Say that nobody will ask for the result, so that what was not begun need not be."""
        if self._give_up is not None:
            self._give_up()

    @classmethod
    def ready(cls, result: R) -> Self:
        """Return a future of a result that is there already."""
        return cls(lambda: True, lambda: result)

    @classmethod
    def on_demand(cls, find: Callable[[], R]) -> Self:
        """Return a future whose result is found when it is asked for first."""
        found: list[R] = []

        def result() -> R:
            if not found:
                found.append(find())
            return found[0]

        return cls(lambda: bool(found), result)
