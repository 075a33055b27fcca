"""One candidate that was measured: the row of a table of trials, whichever tool wrote it down."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from search.errors import DatabaseError
from search.lines import is_number

if TYPE_CHECKING:
    from search.reports.resources import Resources

Stage = Literal["build", "run", "check", "done", "stopped"]
"""The stage at which a trial ended.

It failed in `"build"`, in `"run"` or in the `"check"` of its results; it was measured (`"done"`),
or `"stopped"` as soon as it was certain that it is not the best.
"""

Score = float
"""A number of a cost model; others are seconds, and at least 0."""

NO_ERROR: Final = "NO_ERROR"
STOPPED: Final = "STOPPED_EARLY"
_LATER: Final = {"machine": None}
"""The fields that lines of earlier versions do not have, with what they mean there."""


def _as(meaning: str) -> dict[str, str]:
    """Return what makes a field one that a run writes down; its type says what is read."""
    return {"meaning": meaning}


@dataclass(frozen=True)
class Trial:
    """One candidate that was built and measured, or failed on the way.

    The fields down to `machine` are those that a run of `tune_tir` writes down; those after it
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
    predicted: Score | None = field(
        default=None, metadata=_as("what the cost model said before; higher is faster")
    )
    time: float = field(default=0.0, metadata=_as("when it ended, in seconds since 1970 (UTC)"))
    space: int | None = field(default=None, metadata=_as("the design space that it is a point of"))
    decisions: list[Any] | None = field(
        default=None, metadata=_as("the point, a decision for each site")
    )
    machine: str | None = field(
        default=None, metadata=_as("the machine that measured it, where it was another one")
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
        return None if not seconds or not self.flop else self.flop / seconds / 1e9

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
        """Return the trial that `as_json` described; DatabaseError names the field at fault."""
        known = read_fields(Trial, obj, MEANINGS, _LATER)
        return Trial(**{**known, "run_secs": tuple(map(float, known["run_secs"]))})


def read_fields(
    kind: type, obj: Any, names: Collection[str], later: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return fields of a data class from plain data; DatabaseError names the one at fault.

    `later` has what stands for those that lines of earlier versions do not have. Fields of other
    names are left out: a later version may have more.
    """
    if not isinstance(obj, dict):
        raise DatabaseError(f"a {kind.__name__} is an object, got {obj!r:.80}")
    values = {name: value for name, value in {**(later or {}), **obj}.items() if name in names}
    for one in dataclasses.fields(kind):
        if one.name in names:
            if one.name not in values:
                raise DatabaseError(f"field {one.name} is missing")
            value, (type_name, may_be_none) = values[one.name], kind_of_field(one)
            if not (value is None and may_be_none) and not READ_AS[type_name][0](value):
                raise DatabaseError(f"field {one.name} cannot be {value!r:.80}")
    return values


def kind_of_field(one: dataclasses.Field[Any]) -> tuple[str, bool]:
    """Return the type of a field without None, and whether it may be None."""
    return str(one.type).removesuffix(" | None"), str(one.type).endswith(" | None")


def _is_seconds(value: Any) -> bool:
    return is_number(value) and bool(value >= 0)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


READ_AS: Final[dict[str, tuple[Callable[[Any], bool], type[np.generic] | None, Any]]] = {
    "str": (lambda value: isinstance(value, str), np.str_, ""),
    "Stage": (lambda value: value in get_args(Stage), np.str_, ""),
    "bool": (lambda value: isinstance(value, bool), np.bool_, False),
    "int": (_is_count, np.int64, -1),
    "float": (_is_seconds, np.float64, math.nan),
    "Score": (is_number, np.float64, math.nan),
    "tuple[float, ...]": (
        lambda value: (
            isinstance(value, list) and all(_is_seconds(one) and one > 0 for one in value)
        ),
        np.float64,
        math.nan,
    ),
    "list[Any]": (lambda value: isinstance(value, list), None, None),
}
"""By the type of a field that is written down: the test of a JSON value, and what an array has of
such fields and of those that are None."""

_WRITTEN: Final = [one for one in dataclasses.fields(Trial) if one.metadata]
KINDS: Final = {one.name: kind_of_field(one) for one in _WRITTEN}
"""The types of the fields that are written down, by name, and whether they may be None."""
MEANINGS: Final[dict[str, str]] = {one.name: one.metadata["meaning"] for one in _WRITTEN}
"""What these fields mean."""
