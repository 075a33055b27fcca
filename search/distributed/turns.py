"""Who may compute beside whom on a machine that measures."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Turns:
    """Work that may go on beside other work, and work that has to be alone.

    Whoever wants to be alone waits until the work that goes on has ended, and nothing new begins
    before it: measurements of a target of all cores would otherwise wait for ever for a moment
    without a build.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._beside = 0
        self._alone = False
        self._wanting_to_be_alone = 0

    @contextlib.contextmanager
    def beside_others(self) -> Iterator[None]:
        """Wait until nobody is alone, or wants to be; others may enter meanwhile."""
        with self._condition:
            self._condition.wait_for(lambda: not self._alone and not self._wanting_to_be_alone)
            self._beside += 1
        try:
            yield
        finally:
            with self._condition:
                self._beside -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nobody else is at work; nobody begins before the end."""
        with self._condition:
            self._wanting_to_be_alone += 1
            self._condition.wait_for(lambda: not self._alone and not self._beside)
            self._wanting_to_be_alone -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._condition:
                self._alone = False
                self._condition.notify_all()
