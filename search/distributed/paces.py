"""How fast machines are, told by one reference kernel, so that unequal times are not compared.

A machine times the reference kernel now and then and says with each answer how long it took. A
machine of the same kind as others that is much slower than the fastest of them (a lower clock, a
busy neighbour) is left out of a search. One that is at the moment much slower or faster than it
usually is measured under other conditions than before: what it says now is measured again.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal

Verdict = Literal["fine", "drifted", "slow"]

_REMEMBERED: Final = 15
_DRIFT: Final = 1.3
"""The factor between the pace now and the usual one from which conditions are others.

The reference kernel takes 5 ms of a machine that others may use, too: its times vary by a few per
cent, on shared machines by ten or twenty.
"""
_SLOW: Final = 1.3
"""The factor to the fastest machine from which one is another sort of machine."""


@dataclass
class Paces:
    """The times of the reference kernel, in seconds, on the machines of one search."""

    _lately: dict[str, deque[float]] = field(default_factory=dict)

    def usual(self, machine: str) -> float | None:
        """Return the usual time on a machine, None if it has told none."""
        told = self._lately.get(machine)
        return statistics.median(told) if told else None

    def note(self, machine: str, seconds: float | None) -> Verdict:
        """Take note of a time, and say whether what was measured with it may be compared."""
        if seconds is None or seconds <= 0:
            return "fine"
        told = self._lately.setdefault(machine, deque(maxlen=_REMEMBERED))
        if not told or told[-1] != seconds:  # it holds for some answers
            told.append(seconds)
        usual = statistics.median(told)
        if self.is_slow(machine):
            return "slow"
        return "fine" if usual / _DRIFT <= seconds <= usual * _DRIFT else "drifted"

    def forget(self, machine: str) -> None:
        """Know nothing of a machine any more: it went away, or is to show what it is now."""
        self._lately.pop(machine, None)

    def is_slow(self, machine: str) -> bool:
        """Say whether a machine is not to be compared with the fastest one."""
        usual = self.usual(machine)
        return usual is not None and usual > _SLOW * self._fastest()

    def ratio(self, machine: str) -> float:
        """Return the factor of a machine that told its pace to the fastest one."""
        return (self.usual(machine) or 0.0) / self._fastest()

    def _fastest(self) -> float:
        return min(statistics.median(told) for told in self._lately.values())
