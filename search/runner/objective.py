"""The number that a search minimises: by default the median of the times of a trial."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from search.errors import TuningError

if TYPE_CHECKING:
    from search.database.line_store import EnergyLog
    from search.database.records import TuningRecord
    from search.runner import RunnerResult

ObjectiveArg: TypeAlias = "str | Callable[[Sequence[float]], float] | Objective"
"""`"seconds"`, a percentile as `"p90"`, `"energy"`, or a function of a trial's seconds per call."""

_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d+)?)")
ENERGY: Final = "energy"
_REPEAT_MS: Final = 20
"""The time for a candidate in milliseconds, without the counting of its energy."""
_CALLS: Final = 64
"""The number of single calls that are timed for a percentile."""
_FEWEST: Final = 10
"""The minimum number of times for a percentile."""


@dataclass(frozen=True)
class Objective:
    """The number that a search minimises, computed from the seconds per call of a trial.

    The objective "energy" is the joules per call that the runner has counted. The number is only
    used for ranking candidates: reports, logs and records have the seconds, so stored records can
    be ranked by another objective. An objective needs `least_runs` times of a trial. If it is
    `bounded_by_time`, it is never below the minimum time, so a candidate is ended early if each run
    is slower than the best.
    """

    name: str
    function: Callable[[Sequence[float]], float]
    least_runs: int = 1
    bounded_by_time: bool = False
    log: EnergyLog | None = field(default=None, compare=False)
    """The energy of records, for the objective "energy"."""

    @staticmethod
    def of(given: ObjectiveArg | None) -> Objective:
        """Return the objective of an argument; TuningError for an invalid one."""
        if given is None or given == "seconds":
            return SECONDS
        if isinstance(given, Objective):
            return given
        if given == ENERGY:
            return Objective(ENERGY, statistics.median)
        if isinstance(given, str):
            found = _PERCENTILE.fullmatch(given)
            if found is not None:
                return _percentile(given, float(found[1]))
        elif callable(given):
            return Objective(getattr(given, "__name__", type(given).__name__), given)
        raise TuningError(
            f'unknown objective {given!r}; expected "seconds" (the median), a percentile as in '
            '"p90", "energy", or a function of the seconds of a trial'
        )

    @property
    def reads_energy(self) -> bool:
        """True for the objective "energy", for which a runner reads counters."""
        return self.name == ENERGY

    def of_result(self, result: RunnerResult) -> float:
        """Return the number of a result with times.

        TuningError as for `value`, and if the energy was not measured.
        """
        if not self.reads_energy:
            return self.value(result.run_secs or ())
        if result.joules is None:
            raise TuningError(
                "the objective energy needs a runner that measures it: give it an "
                "EvaluatorConfig(energy=True)"
            )
        return result.joules

    def kept_in(self, log: EnergyLog) -> Objective:
        """Return the objective with the log that stores the energy of records."""
        return replace(self, log=log) if self.reads_energy else self

    def note(self, run_secs: Sequence[float], results: Sequence[RunnerResult]) -> None:
        """Log the mean energy of the results of a record with these seconds."""
        known = [result.joules for result in results if result.joules is not None]
        if self.log is not None and known:
            self.log.append(run_secs, statistics.fmean(known))

    def value(self, run_secs: Sequence[float]) -> float:
        """Return the number; TuningError for too few times, and if the function fails."""
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
                f"Its argument was {list(run_secs)}"
            ) from error
        if not 0 < value < math.inf:
            raise TuningError(
                f"the objective {self.name} is {value} for {list(run_secs)}; it has to be finite "
                "and above 0"
            )
        return value

    def judged(self, result: RunnerResult) -> RunnerResult:
        """Return a result with the number as its only time, for strategies and models.

        The result of a trial that failed or was ended early is returned unchanged.
        """
        if self is SECONDS or result.stopped or result.median_secs is None:
            return result
        return replace(result, run_secs=(self.of_result(result),))

    def of_record(self, record: TuningRecord) -> float:
        """Return the number of a valid record, infinity if it is unknown.

        The default is the mean of the times, by which databases rank.
        """
        times = record.run_secs or ()
        if self is SECONDS:
            return record.mean_seconds
        if self.reads_energy:
            known = None if self.log is None else self.log.joules(times)
            return math.inf if known is None else known
        return self.value(times) if len(times) >= self.least_runs else math.inf

    def evaluator(self) -> dict[str, Any]:
        """Return options of an `EvaluatorConfig` that gives enough times; empty by default."""
        if self.reads_energy:
            return {"number": 1, "min_repeat_ms": _REPEAT_MS, "energy": True}
        return {"number": 1, "repeat": _CALLS, "min_repeat_ms": 0} if self.least_runs > 1 else {}

    def __str__(self) -> str:
        return self.name


@cache
def _percentile(name: str, percent: float) -> Objective:
    def of_times(run_secs: Sequence[float]) -> float:
        return float(np.percentile(run_secs, percent))

    return Objective(name, of_times, _FEWEST, bounded_by_time=True)


SECONDS: Final = Objective("seconds", statistics.median, bounded_by_time=True)
