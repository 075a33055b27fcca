"""One candidate that was measured: the row of a table of trials, whichever tool wrote it down."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from search.database.growing_file import is_number
from search.errors import DatabaseError

if TYPE_CHECKING:
    from search.analysis.resources import Resources

Stage = Literal["build", "run", "check", "done", "stopped"]
"""The stage at which a trial ended.

It failed in `"build"`, in `"run"` or in the `"check"` of its results; it was measured (`"done"`),
or `"stopped"` as soon as it was certain that it is not the best.
"""

NO_ERROR: Final = "NO_ERROR"
STOPPED: Final = "STOPPED_EARLY"


@dataclass(frozen=True)
class Trial:
    """One candidate that was built and measured, or failed on the way.

    The fields down to `decisions` are those that a run of `tune_tir` writes down; those after it
    are what other logs have besides, and what is known of the candidate's program.
    """

    task: str
    workload: str
    """The key of the program in the database."""
    target: str
    batch: int
    number: int
    """The place of the trial in its task, from 0."""
    stage: Stage
    error: str | None = None
    build_secs: float = 0.0
    measure_secs: float = 0.0
    """Wall time of the measurement in seconds."""
    run_secs: tuple[float, ...] = ()
    """Seconds per call; a lower bound where the trial was stopped."""
    predicted: float | None = None
    """The score that the cost model gave before; higher is faster."""
    time: float = 0.0
    """The time at which the trial ended, in seconds since 1970 (UTC)."""
    space: int | None = None
    decisions: list[Any] | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What was chosen, by name."""
    config: int | None = field(default=None, repr=False)
    """The number of the configuration, in logs that number them."""
    error_name: str | None = field(default=None, repr=False)
    """What the log calls the error, in logs that have names for them."""
    total_secs: float | None = field(default=None, repr=False)
    """Seconds of building and measuring, in logs that do not tell them apart."""
    flop: float | None = field(default=None, repr=False)
    """Operations of a call; 0 means the same as None."""
    resources: Resources | None = field(default=None, repr=False)

    @property
    def seconds(self) -> float | None:
        """The mean of `run_secs` of a trial that was measured to the end, else None."""
        done = self.stage == "done" and self.run_secs
        return statistics.fmean(self.run_secs) if done else None

    @property
    def slower_than(self) -> float | None:
        """What a call takes at least, in seconds, of a trial that was stopped early, else None."""
        stopped = self.stage == "stopped" and self.run_secs
        return statistics.fmean(self.run_secs) if stopped else None

    @property
    def failed(self) -> bool:
        """Whether there is neither a time nor a bound: an error in `stage` ended the trial."""
        return self.stage not in ("done", "stopped")

    @property
    def ending(self) -> str:
        """`NO_ERROR`, `STOPPED_EARLY`, or the name of what went wrong."""
        known = {"done": NO_ERROR, "stopped": STOPPED}
        return known.get(self.stage) or self.error_name or f"{self.stage.upper()}_ERROR"

    @property
    def spent(self) -> float:
        """Seconds of building and measuring together."""
        return self.build_secs + self.measure_secs if self.total_secs is None else self.total_secs

    @property
    def gflops(self) -> float | None:
        """Operations per nanosecond."""
        seconds = self.seconds
        return None if seconds is None or not self.flop else self.flop / seconds / 1e9

    def as_json(self) -> dict[str, Any]:
        """Return what is written down, by name; a score that is no finite number is None."""
        score = self.predicted
        return {
            **{name: getattr(self, name) for name in WRITTEN},
            "run_secs": [float(seconds) for seconds in self.run_secs],
            "predicted": float(score) if score is not None and math.isfinite(score) else None,
        }

    @staticmethod
    def from_json(obj: Any) -> Trial:
        """Return the trial that `as_json` described; DatabaseError names the field at fault.

        Fields of other names are left out: a later version may have more.
        """
        if not isinstance(obj, dict):
            raise DatabaseError(f"a trial is an object with a field for each of {_NAMES}")
        for name, holds in _FIELDS.items():
            if name not in obj:
                raise DatabaseError(f"field {name} is missing")
            if not holds(obj[name]):
                raise DatabaseError(f"field {name} cannot be {obj[name]!r:.80}")
        known = {name: obj[name] for name in WRITTEN}
        return Trial(**{**known, "run_secs": tuple(map(float, known["run_secs"]))})


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_seconds(value: Any) -> bool:
    return is_number(value) and bool(value >= 0)


_FIELDS: Final[dict[str, Callable[[Any], bool]]] = {
    "task": _is_text,
    "workload": _is_text,
    "target": _is_text,
    "batch": _is_count,
    "number": _is_count,
    "stage": lambda value: value in get_args(Stage),
    "error": lambda value: value is None or _is_text(value),
    "build_secs": _is_seconds,
    "measure_secs": _is_seconds,
    "run_secs": lambda value: isinstance(value, list) and all(map(_is_seconds, value)),
    "predicted": lambda value: value is None or is_number(value),
    "time": _is_seconds,
    "space": lambda value: value is None or _is_count(value),
    "decisions": lambda value: value is None or isinstance(value, list),
}
WRITTEN: Final = tuple(_FIELDS)
"""The names of the fields that are written down."""
_NAMES: Final = ", ".join(WRITTEN)
assert tuple(one.name for one in fields(Trial))[: len(WRITTEN)] == WRITTEN
