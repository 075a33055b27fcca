"""The seconds of a run, and what is kept of them for what follows the search."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final

_FOR_WINNERS: Final = 0.1
"""The share of a bounded time that measuring the best again may take, at most."""
_FOR_REPORTS: Final = 0.05
"""The share of it for what the reports compare them with, at most."""
_SHARE: Final = 0.02
_LEAST_SECONDS: Final = 0.5
"""The time of measuring the best again: a share of the search, but enough for a few rounds with
quick kernels."""
BASELINE_SECONDS: Final = 0.3
"""The time for which the end of an unscheduled program is waited for: a share of the search, but
enough for small ones."""


@dataclass(frozen=True)
class TimeBudget:
    """The time of a run of so many tasks, `max_seconds` long; None for any time.

    It counts from `began`, by the monotonic clock. `after` seconds of it are the caller's. With
    `is_confirmed` the best of each task are measured again at its end.
    """

    max_seconds: float | None
    tasks: int
    is_confirmed: bool
    began: float
    after: float = 0.0

    @property
    def seconds(self) -> float:
        """The seconds that the run has been going on."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        """The seconds until the time of the run is over, at least 0; infinite for any time."""
        if self.max_seconds is None:
            return math.inf
        return max(0.0, self.max_seconds - self.after - self.seconds)

    def has_time_for(self, seconds: float) -> bool:
        """Say whether what takes so many seconds can end before the winners are to be named."""
        return self.left > seconds + self.for_winners + self.for_reports

    @property
    def for_winners(self) -> float:
        """The seconds at the end of a run of bounded time in which no trial begins."""
        if self.max_seconds is None or not self.is_confirmed:
            return 0.0
        return min(_FOR_WINNERS * self.max_seconds, self._confirmation(self.max_seconds))

    @property
    def for_reports(self) -> float:
        """The seconds after that, in which unscheduled programs are measured."""
        if self.max_seconds is None or not self.is_confirmed:
            return 0.0
        return min(_FOR_REPORTS * self.max_seconds, BASELINE_SECONDS * self.tasks)

    @property
    def for_a_winner(self) -> float:
        """The seconds that naming the winner of one task takes in a run as long as this one."""
        return self._confirmation(self.seconds) / self.tasks

    def for_winner_number(self, index: int) -> float:
        """Return the seconds that the naming of winner `index` may take at most."""
        rest = 1 - index / self.tasks
        return max(0.0, self.left - self.for_reports * rest) / (self.tasks - index)

    def _confirmation(self, seconds: float) -> float:
        return max(_LEAST_SECONDS * self.tasks, _SHARE * seconds)
