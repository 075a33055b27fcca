"""Every error that a primitive raises in these tests is in the list of its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from schedule import Schedule, ScheduleError
from schedule.instruction import InstructionKind

OF_EVERY_CALL = {
    "ArgumentError",
    "ExpiredHandleError",
    "ImpossibleError",
    "OutOfScopeError",
    "NotSingleResult",
    "UnknownHandleError",
}
"""Errors of arguments, names, handles and results, which `Schedule` raises whatever the primitive."""


@pytest.fixture(autouse=True)
def _docstrings_list_what_is_raised(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    unlisted: set[tuple[str, str]] = set()
    locate = Schedule._locate

    def noted(self: Schedule, error: ScheduleError, kind: InstructionKind) -> None:
        own = kind.function.__module__.startswith("schedule.")
        listed = (inspect.getdoc(kind.function) or "").partition("Raises")[2]
        if own and error.code not in OF_EVERY_CALL and error.code not in listed:
            unlisted.add((kind.method, error.code))
        locate(self, error, kind)

    monkeypatch.setattr(Schedule, "_locate", noted)
    yield
    assert not unlisted, f"raised, but not listed in the docstring of the primitive: {unlisted}"
