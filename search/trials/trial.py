"""One candidate that was measured: the row of a table of trials, whichever tool wrote it down."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

import numpy as np

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
_MOST_TEXT: Final = 120


def _as(meaning: str) -> dict[str, str]:
    """Return what makes a field one that a run writes down; its type says what is read."""
    return {"meaning": meaning}


@dataclass(frozen=True)
class Trial:
    """One candidate that was built and measured, or failed on the way.

    The fields down to `decisions` are those that a run of `tune_tir` writes down; those after it
    are what other logs have besides, and what is known of the candidate's program.
    """

    task: str = field(metadata=_as("the name of the task"))
    workload: str = field(metadata=_as("the key of its program in the database beside"))
    target: str = field(metadata=_as("the target it was compiled for"))
    batch: int = field(
        metadata=_as(
            "the batch of the task that it was measured in; the model learns between batches"
        )
    )
    number: int = field(metadata=_as("its place in the task, from 0"))
    stage: Stage = field(metadata=_as("how far it came: build, run, check, done, or stopped early"))
    error: str | None = field(default=None, metadata=_as("the text of the error"))
    build_secs: float = field(default=0.0, metadata=_as("seconds that building took"))
    measure_secs: float = field(
        default=0.0, metadata=_as("seconds that running took, with warm-up")
    )
    run_secs: tuple[float, ...] = field(
        default=(), metadata=_as("seconds per call; a lower bound where it was stopped")
    )
    predicted: float | None = field(
        default=None, metadata=_as("what the cost model said before; higher is faster")
    )
    time: float = field(default=0.0, metadata=_as("when it ended, in seconds since 1970 (UTC)"))
    space: int | None = field(default=None, metadata=_as("the design space that it is a point of"))
    decisions: list[Any] | None = field(
        default=None, metadata=_as("the point, a decision for each site")
    )
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
            **{name: getattr(self, name) for name in MEANINGS},
            "run_secs": [float(seconds) for seconds in self.run_secs],
            "predicted": float(score) if score is not None and math.isfinite(score) else None,
        }

    @staticmethod
    def from_json(obj: Any) -> Trial:
        """Return the trial that `as_json` described; DatabaseError names the field at fault.

        Fields of other names are left out: a later version may have more.
        """
        if not isinstance(obj, dict):
            names = ", ".join(MEANINGS)
            raise DatabaseError(f"a trial is an object with a field for each of {names}")
        for name, kind in KINDS.items():
            if name not in obj:
                raise DatabaseError(f"field {name} is missing")
            if not READ_AS[kind].holds(obj[name]):
                raise DatabaseError(f"field {name} cannot be {obj[name]!r:.80}")
        known = {name: obj[name] for name in MEANINGS}
        return Trial(**{**known, "run_secs": tuple(map(float, known["run_secs"]))})


def _is_seconds(value: Any) -> bool:
    return is_number(value) and bool(value >= 0)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _first_line(text: str | None) -> str:
    return "" if not text else text.strip().partition("\n")[0][:_MOST_TEXT]


def _mean(seconds: tuple[float, ...]) -> float:
    return statistics.fmean(seconds) if seconds else math.nan


class Kind(NamedTuple):
    """A type of fields that are written down."""

    holds: Callable[[Any], bool]
    """Says whether a value of JSON is of this type."""
    dtype: type[np.generic] | None
    """What an array of such fields has; None if there is none."""
    plain: Callable[[Any], Any] | None = None
    """Returns what stands for a value in an array, if that is not the value itself."""


READ_AS: Final[dict[str, Kind]] = {
    "str": Kind(lambda value: isinstance(value, str), np.str_),
    "str | None": Kind(lambda value: value is None or isinstance(value, str), np.str_, _first_line),
    "Stage": Kind(lambda value: value in get_args(Stage), np.str_),
    "int": Kind(_is_count, np.int64),
    "int | None": Kind(
        lambda value: value is None or _is_count(value),
        np.int64,
        lambda value: -1 if value is None else value,
    ),
    "float": Kind(_is_seconds, np.float64),
    "float | None": Kind(
        lambda value: value is None or is_number(value),
        np.float64,
        lambda value: math.nan if value is None else value,
    ),
    "tuple[float, ...]": Kind(
        lambda value: isinstance(value, list) and all(map(_is_seconds, value)), np.float64, _mean
    ),
    "list[Any] | None": Kind(lambda value: value is None or isinstance(value, list), None),
}
"""By the type of a field that is written down, what it may hold."""

_WRITTEN: Final = [one for one in dataclasses.fields(Trial) if one.metadata]
KINDS: Final = {one.name: str(one.type) for one in _WRITTEN}
"""The types of the fields that are written down, by name."""
MEANINGS: Final[dict[str, str]] = {one.name: one.metadata["meaning"] for one in _WRITTEN}
"""What these fields mean."""
