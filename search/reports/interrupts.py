"""Ctrl-C: measurements are kept, and then the script ends."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Final, Literal

from search.errors import TuningError
from search.kinds import nearest

OnInterrupt = Literal["raise", "return"]
"""After Ctrl-C a search keeps its measurements; then it raises KeyboardInterrupt or returns."""

_CHOICES: Final = ("raise", "return")
_PATIENCE: Final = 3
"""The number of Ctrl-C that also interrupt an `uninterrupted` block."""


def checked_on_interrupt(value: str) -> None:
    """Raise TuningError for an unknown value of `on_interrupt`."""
    if value not in _CHOICES:
        raise TuningError(
            f"on_interrupt is 'raise' or 'return', got {value!r}{nearest(str(value), _CHOICES)}"
        )


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the `with`, so that its block is executed completely.

    The third Ctrl-C is not delayed. Only the main thread receives Ctrl-C, so other threads are
    never interrupted.
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
