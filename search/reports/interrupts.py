"""Ctrl-C: what was measured is kept, and then the script that asked for it ends."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Final, Literal

from search.errors import TuningError
from search.kinds import nearest

OnInterrupt = Literal["raise", "return"]
"""After Ctrl-C a search raises KeyboardInterrupt once everything is kept, or returns the best."""

_CHOICES: Final = ("raise", "return")
_PATIENCE: Final = 3
"""The number of Ctrl-C in a row that ends also what cannot be interrupted."""


def checked_on_interrupt(value: str) -> None:
    """Raise TuningError for a value that `on_interrupt` does not have."""
    if value not in _CHOICES:
        raise TuningError(
            f"on_interrupt is 'raise' or 'return', got {value!r}{nearest(str(value), _CHOICES)}"
        )


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off a Ctrl-C to the end of the `with`, so that what it does is done entirely.

    The third one is not put off. In a thread that is not the main one nothing has to be done.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, Any]] = []

    def note(number: int, frame: Any) -> None:
        came.append((number, frame))
        if len(came) >= _PATIENCE:
            before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        before(*came[0])
