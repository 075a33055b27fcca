"""The time of each part of a search."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

from tensorir.text_table import aligned

_stack: ContextVar[tuple[Profiler, ...]] = ContextVar("profilers", default=())


class Profiler:
    """Adds up the seconds spent in named scopes while it is entered.

    `with Profiler() as p: ...; print(p.table())`. Without a profiler `Profiler.timeit` does
    nothing.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._started = 0.0

    def get(self) -> dict[str, float]:
        """Return seconds by scope; `Total` is present after the `with`."""
        return dict(self._seconds)

    def table(self) -> str:
        """Return a table of the scopes in minutes and percent, longest first."""
        total = self._seconds.get("Total", 0.0)
        others = [(name, s) for name, s in self._seconds.items() if name != "Total"]
        others.sort(key=lambda entry: -entry[1])
        rows = [("ID", "Name", "Time (min)", "Percentage"), _row("", "Total", total, total)]
        rows += [_row(str(k), name, s, total) for k, (name, s) in enumerate(others, start=1)]
        heading, *lines = aligned(rows, rows[0], " | ").split("\n")
        rule = "-" * len(heading)
        return "\n".join([heading, rule, *lines, rule])

    @staticmethod
    def current() -> Profiler | None:
        """Return the innermost active profiler, or None."""
        stack = _stack.get()
        return stack[-1] if stack else None

    @staticmethod
    @contextmanager
    def timeit(name: str) -> Iterator[None]:
        """Add the time of the `with` block to scope `name` of the current profiler."""
        profiler = Profiler.current()
        if profiler is None:
            yield
            return
        start = time.perf_counter()
        try:
            yield
        finally:
            profiler._add(name, time.perf_counter() - start)

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def __enter__(self) -> Self:
        _stack.set((*_stack.get(), self))
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._add("Total", time.perf_counter() - self._started)
        _stack.set(_stack.get()[:-1])


def _row(index: str, name: str, seconds: float, total: float) -> tuple[str, str, str, str]:
    share = 100 * seconds / total if total else 0.0
    return (index, name, f"{seconds / 60:.4f}", f"{share:.2f}")
