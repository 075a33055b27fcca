"""What a search minimises of a trial: by default the median of its times."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from search.errors import TuningError

if TYPE_CHECKING:
    from search.database.records import TuningRecord
    from search.runner import RunnerResult

ObjectiveArg: TypeAlias = "str | Callable[[Sequence[float]], float] | Objective"
"""`"seconds"`, a percentile as `"p90"`, or a function of the seconds of the runs of a trial."""

_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d+)?)")
_CALLS: Final = 64
"""The calls of a candidate that are timed one by one, for a percentile."""
_FEWEST: Final = 10
"""The times of a trial without which a percentile of them means nothing."""


@dataclass(frozen=True)
class Objective:
    """A number that a search makes small, from the seconds per call of each run of a trial.

    Reports, logs and records have the seconds themselves; the number ranks candidates. So what is
    stored can be ranked anew by any objective. `least_runs` is how many times of a trial it needs.
    With `bounded_by_time` it is never below the least of the times, so that a candidate is ended
    early whose every run takes longer than the best.
    """

    name: str
    function: Callable[[Sequence[float]], float]
    least_runs: int = 1
    bounded_by_time: bool = False

    @staticmethod
    def of(given: ObjectiveArg | None) -> Objective:
        """Return the objective that an argument means; TuningError for what is none."""
        if given is None or given == "seconds":
            return SECONDS
        if isinstance(given, Objective):
            return given
        if isinstance(given, str):
            found = _PERCENTILE.fullmatch(given)
            if found is not None:
                return _percentile(given, float(found[1]))
        elif callable(given):
            return Objective(getattr(given, "__name__", type(given).__name__), given)
        raise TuningError(
            'objective is "seconds" (the median), a percentile as in "p90", or a function of the '
            f"seconds of the runs of a trial, got {given!r}"
        )

    def value(self, run_secs: Sequence[float]) -> float:
        """Return the number; TuningError for too few times, and for a function that fails."""
        if len(run_secs) < self.least_runs:
            raise TuningError(
                f"the objective {self.name} needs {self.least_runs} times of a trial or more, and "
                f"the runner gave {len(run_secs)}: give it an EvaluatorConfig(repeat={_CALLS})"
            )
        try:
            value = float(self.function(run_secs))
        except Exception as error:
            raise TuningError(
                f"the objective {self.name} raised {type(error).__name__}: {error}\n"
                f"It was given {list(run_secs)}"
            ) from error
        if not 0 < value < math.inf:
            raise TuningError(
                f"the objective {self.name} is {value} for {list(run_secs)}; it has to be finite "
                "and above 0"
            )
        return value

    def judged(self, result: RunnerResult) -> RunnerResult:
        """Return a result whose one time is the number, as strategies and models are to see it.

        That of a trial that was ended early, or failed, is the result itself.
        """
        if self is SECONDS or result.stopped or result.median_secs is None:
            return result
        return replace(result, run_secs=(self.value(result.run_secs or ()),))

    def of_record(self, record: TuningRecord) -> float:
        """Return the number of a valid record; infinite for one with too few times.

        Where nothing else is asked for it is their mean, by which databases rank.
        """
        times = record.run_secs or ()
        if self is SECONDS:
            return record.mean_seconds
        return self.value(times) if len(times) >= self.least_runs else math.inf

    def evaluator(self) -> dict[str, Any]:
        """Return the options of an `EvaluatorConfig` that gives times enough, none by default."""
        return {"number": 1, "repeat": _CALLS, "min_repeat_ms": 0} if self.least_runs > 1 else {}

    def __str__(self) -> str:
        return self.name


@cache
def _percentile(name: str, percent: float) -> Objective:
    def of_times(run_secs: Sequence[float]) -> float:
        return float(np.percentile(run_secs, percent))

    return Objective(name, of_times, _FEWEST, bounded_by_time=True)


SECONDS: Final = Objective("seconds", statistics.median, bounded_by_time=True)
