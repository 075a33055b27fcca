"""One measured candidate: a row of a table of trials, for logs of any tool."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from search.errors import DatabaseError
from search.lines import is_number

if TYPE_CHECKING:
    from search.reports.resources import Resources

Stage = Literal["build", "run", "check", "done", "stopped"]
"""The stage at which a trial ended.

It failed in `"build"`, in `"run"` or in the `"check"` of its results; it was measured (`"done"`);
or it was `"stopped"` as soon as it could no longer be the best.
"""

Score: TypeAlias = float
"""A prediction of a cost model, of either sign; other numbers of trials are at least 0."""
NO_ERROR: Final = "NO_ERROR"
STOPPED: Final = "STOPPED_EARLY"


def _kept_field(meaning: str) -> dict[str, str]:
    """Return the metadata of a field that is written to the file of trials."""
    return {"meaning": meaning}


@dataclass(frozen=True)
class Trial:
    """One candidate that was built and measured, or failed.

    A run of `tune_tir` writes the fields down to `machine`. The other fields come from other logs
    and from the program of the candidate.
    """

    task: str = field(metadata=_kept_field("the name of the task"))
    workload: str = field(metadata=_kept_field("the key of its program in the database of the run"))
    target: str = field(metadata=_kept_field("the target it was compiled for"))
    batch: int = field(
        metadata=_kept_field("its batch within the task; the model learns between batches")
    )
    number: int = field(metadata=_kept_field("its number within the task, from 0"))
    stage: Stage = field(
        metadata=_kept_field("the stage it reached: build, run, check, done, or stopped early")
    )
    error: str | None = field(default=None, metadata=_kept_field("the text of the error"))
    build_secs: float = field(default=0.0, metadata=_kept_field("seconds of building"))
    measure_secs: float = field(
        default=0.0, metadata=_kept_field("seconds of running, with warm-up")
    )
    run_secs: tuple[float, ...] = field(
        default=(), metadata=_kept_field("seconds per call; a lower bound if it was stopped")
    )
    predicted: Score | None = field(
        default=None,
        metadata=_kept_field("the earlier prediction of the cost model; higher is faster"),
    )
    time: float = field(default=0.0, metadata=_kept_field("its end in seconds since 1970 (UTC)"))
    space: int | None = field(default=None, metadata=_kept_field("its design space"))
    decisions: list[Any] | None = field(
        default=None, metadata=_kept_field("its point, one decision per sampling instruction")
    )
    machine: str | None = field(
        default=None, metadata=_kept_field("the machine that measured it, if it was another one")
    )
    knobs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The decisions by name."""
    config: int | None = field(default=None, repr=False)
    """The number of the configuration, in logs that number them."""
    error_name: str | None = field(default=None, repr=False)
    """The name of the error, in logs that name errors."""
    total_secs: float | None = field(default=None, repr=False)
    """Seconds of building and measuring, in logs that have only their sum."""
    flop: float | None = field(default=None, repr=False)
    """Operations of a call; 0 means the same as None."""
    resources: Resources | None = field(default=None, repr=False)

    @cached_property
    def seconds(self) -> float | None:
        """The mean of `run_secs`; None if the measurement did not complete."""
        return statistics.fmean(self.run_secs) if self.stage == "done" and self.run_secs else None

    @property
    def slower_than(self) -> float | None:
        """The minimum seconds of a call if it was stopped early, otherwise None."""
        is_bound = self.stage == "stopped" and self.run_secs
        return statistics.fmean(self.run_secs) if is_bound else None

    @property
    def failed(self) -> bool:
        """True if an error ended the trial in `stage`."""
        return self.stage not in ("done", "stopped")

    @property
    def ending(self) -> str:
        """`NO_ERROR`, `STOPPED_EARLY`, or the name of the error."""
        known = {"done": NO_ERROR, "stopped": STOPPED}
        return known.get(self.stage) or self.error_name or f"{self.stage.upper()}_ERROR"

    @property
    def spent(self) -> float:
        """Seconds of building and measuring together."""
        return self.build_secs + self.measure_secs if self.total_secs is None else self.total_secs

    @property
    def gflops(self) -> float | None:
        """Operations per nanosecond."""
        return self.flop / self.seconds / 1e9 if self.flop and self.seconds else None

    def as_json(self) -> dict[str, Any]:
        """Return the written fields by name; an infinite score becomes None."""
        score = self.predicted
        return {
            **{name: getattr(self, name) for name in MEANINGS},
            "run_secs": [float(seconds) for seconds in self.run_secs],
            "predicted": float(score) if score is not None and math.isfinite(score) else None,
        }

    @staticmethod
    def from_json(obj: Any) -> Trial:
        """Return the trial that `as_json` wrote; DatabaseError names an invalid field."""
        known = read_fields(Trial, obj, MEANINGS)
        return Trial(**{**known, "run_secs": tuple(map(float, known.get("run_secs", ())))})


MEANINGS: Final[dict[str, str]] = {
    one.name: one.metadata["meaning"] for one in dataclasses.fields(Trial) if one.metadata
}
"""The written fields of a trial, with their meanings."""


def read_fields(kind: type, obj: Any, names: Collection[str]) -> dict[str, Any]:
    """Return fields of a data class from plain data; DatabaseError names an invalid field.

    Lines of earlier versions may lack fields that have defaults, and lines of later versions may
    have more fields, which are ignored.
    """
    if not isinstance(obj, dict):
        raise DatabaseError(f"a {kind.__name__} is an object, got {obj!r:.80}")
    known = {}
    for name, is_valid, may_be_none, is_needed in _tests(kind):
        if name not in names:
            continue
        if name in obj:
            value = known[name] = obj[name]
            if not (may_be_none and value is None) and not is_valid(value):
                raise DatabaseError(f"field {name} cannot be {value!r:.80}")
        elif is_needed:
            raise DatabaseError(f"field {name} is missing")
    return known


@cache
def _tests(kind: type) -> list[tuple[str, Callable[[Any], bool], bool, bool]]:
    """Return for each field its name, its test, and whether it may be None and has no default."""
    return [
        (
            one.name,
            _IS_VALID.get(str(one.type).removesuffix(" | None"), lambda value: False),
            str(one.type).endswith(" | None"),
            one.default is dataclasses.MISSING,
        )
        for one in dataclasses.fields(kind)
    ]


def _is_seconds(value: Any) -> bool:
    return is_number(value) and bool(value >= 0)


_IS_VALID: Final[dict[str, Callable[[Any], bool]]] = {
    "str": lambda value: isinstance(value, str),
    "Stage": lambda value: value in get_args(Stage),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int and value >= 0,
    "float": _is_seconds,
    "Score": is_number,
    "tuple[float, ...]": lambda value: (
        isinstance(value, list) and all(_is_seconds(one) and one > 0 for one in value)
    ),
    "list[Any]": lambda value: isinstance(value, list),
}
"""The tests of JSON values by the types of fields."""
