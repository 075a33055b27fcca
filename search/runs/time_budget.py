"""The time budget of a run: the search, the winners, and the reports."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final

_WINNERS_FRACTION: Final = 0.1
"""The maximum fraction of a bounded time for re-measuring the best candidates."""
_REPORTS_FRACTION: Final = 0.05
"""The maximum fraction of it for measuring the unscheduled programs."""
_SHARE: Final = 0.02
_LEAST_SECONDS: Final = 0.5
"""Re-measuring the best candidates of a task: a share of the search, and a minimum in seconds."""
BASELINE_SECONDS: Final = 0.3
"""The seconds that an unscheduled program may run for, at least."""


@dataclass(frozen=True)
class TimeBudget:
    """The time budget of a run of so many tasks: `max_seconds` from `began`, None for no limit.

    `began` is a time of the monotonic clock. The caller has `after` seconds of the budget for
    itself. With `is_confirmed` the best candidates of each task are measured again at the end.
    """

    max_seconds: float | None
    tasks: int
    is_confirmed: bool
    began: float
    after: float = 0.0

    @property
    def seconds(self) -> float:
        """The seconds since the run began."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        """The seconds until the run is over, at least 0; infinite without a limit."""
        if self.max_seconds is None:
            return math.inf
        return max(0.0, self.max_seconds - self.after - self.seconds)

    def has_time_for(self, seconds: float) -> bool:
        """Return True if work of so many seconds ends before the winners are named."""
        return self.left > seconds + self._for_winners + self._for_reports

    @property
    def _for_winners(self) -> float:
        """The seconds at the end of a bounded run that are reserved for naming winners."""
        if self.max_seconds is None or not self.is_confirmed:
            return 0.0
        return min(_WINNERS_FRACTION * self.max_seconds, self._confirmation(self.max_seconds))

    @property
    def _for_reports(self) -> float:
        """The seconds after that, which are reserved for measuring unscheduled programs."""
        if self.max_seconds is None or not self.is_confirmed:
            return 0.0
        return min(_REPORTS_FRACTION * self.max_seconds, BASELINE_SECONDS * self.tasks)

    @property
    def for_a_winner(self) -> float:
        """The seconds for naming the winner of one task in a run that has lasted this long."""
        return self._confirmation(self.seconds) / self.tasks

    def for_winner_number(self, index: int) -> float:
        """Return the maximum seconds for naming winner `index`."""
        rest = 1 - index / self.tasks
        return max(0.0, self.left - self._for_reports * rest) / (self.tasks - index)

    def _confirmation(self, seconds: float) -> float:
        return max(_LEAST_SECONDS * self.tasks, _SHARE * seconds)
