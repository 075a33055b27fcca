"""Formats of logs: which files have them, and how what they say becomes trials.

A format is one class in one file: as soon as it is defined, `search.explain` asks it for each path.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from search.database.measure_error_no import MeasureErrorNo
from search.database.record_files import LineError, json_object
from search.reports.report import TaskReport
from search.reports.trial import STOPPED, Stage, Trial

MOST_PROGRAMS: Final = 1000
"""The most measurements whose programs are made for their resources: some milliseconds each."""
_LINES_LOOKED_AT: Final = 10


class Field(NamedTuple):
    """A field of a line of a log, with its value and what it means."""

    name: str
    value: str
    meaning: str


class Log(NamedTuple):
    """The contents of a log."""

    trials: Sequence[Trial]
    fields: Sequence[Field] = ()
    """The line of the best trial, taken apart."""
    left_out: int = 0
    """The number of lines that are no records."""
    reports: Sequence[TaskReport] = ()
    """What runs reported of their tasks."""


class LogFormat(ABC):
    """A format of logs; the one that was defined last is asked first whether a path has it."""

    known: ClassVar[list[type[LogFormat]]] = []

    def __init_subclass__(cls) -> None:
        LogFormat.known.insert(0, cls)

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """Say whether a file or a directory, which is there, has this format."""

    @abstractmethod
    def read(self, path: Path) -> Log:
        """Return the trials of a log that has this format."""


def first_fields(path: Path) -> dict[str, Any]:
    """Return the object of the first line of a file that is one of JSON, of the first ten lines."""
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in islice(file, _LINES_LOOKED_AT):
                try:
                    return json_object(line)
                except LineError:
                    continue
    return {}


def spread_out(count: int, most: bool | int) -> range:
    """Return the indices of trials whose programs are made: all of `count`, none, or `most`.

    They are spread over the whole log, as configurations get better from its start to its end.
    """
    if most is True:
        return range(count)
    return range(0, count, -(-count // most)) if most and count else range(0)


# ---------------------------------------------------------------------------------- results of logs


class Result(Protocol):
    """What a log says of a measurement; both AutoTVM and Ansor do."""

    @property
    def costs(self) -> Sequence[float]:
        """Seconds per run; after an error whatever stands for them."""

    @property
    def error_no(self) -> int:
        """The number of the ending, see `MeasureErrorNo`."""

    @property
    def all_cost(self) -> float:
        """Seconds of building and running together."""

    @property
    def timestamp(self) -> float:
        """The end of it in seconds since 1970."""

    @property
    def slower_than(self) -> float | None:
        """Seconds that a run takes at least which was ended early."""


def trial_of_result(result: Result, number: int, **facts: Any) -> Trial:
    """Return the trial that left a result; `facts` are the other fields of `Trial`."""
    error = MeasureErrorNo(result.error_no)
    stage: Stage = _STAGES.get(error, "run")
    seconds: Sequence[float] = result.costs if stage == "done" else ()
    if result.slower_than is not None:
        stage, seconds = "stopped", (result.slower_than,)
    return Trial(
        **{"workload": "", "batch": 0, **facts},
        number=number,
        stage=stage,
        error_name=error.name,
        run_secs=tuple(map(float, seconds)),
        time=result.timestamp,
        total_secs=result.all_cost,
    )


_STAGES: Final[dict[MeasureErrorNo, Stage]] = {
    MeasureErrorNo.NO_ERROR: "done",
    MeasureErrorNo.INSTANTIATION_ERROR: "build",
    MeasureErrorNo.COMPILE_HOST: "build",
    MeasureErrorNo.COMPILE_DEVICE: "build",
    MeasureErrorNo.BUILD_TIMEOUT: "build",
    MeasureErrorNo.WRONG_ANSWER: "check",
}


def fields_of_result(name: str, row: Sequence[Any], trial: Trial) -> list[Field]:
    """Return the fields of a result that a line has as [costs, error number, seconds, time]."""
    costs, error_no, all_cost, timestamp = row
    kind = trial.error_name
    fields = [
        Field(f"{name}[0]", json.dumps(costs), meaning_of_costs(trial, costs)),
        Field(f"{name}[1]", str(error_no), f"{kind}: {ERROR_MEANINGS[trial.ending]}"),
        Field(
            f"{name}[2]",
            f"{all_cost:.6g}",
            "wall time in seconds of building and running together; the log does not tell them "
            "apart",
        ),
        Field(f"{name}[3]", str(timestamp), f"when it ended: {utc(timestamp)}"),
    ]
    if trial.slower_than is not None:
        meaning = "seconds that a run takes at least: it was ended early"
        fields.append(Field("slower_than", f"{trial.slower_than:.6g}", meaning))
    return fields


def meaning_of_costs(trial: Trial, costs: Sequence[float]) -> str:
    """Return what the seconds of a trial say; `costs` are those that its log has."""
    if trial.seconds is None:
        stand = f", and {costs[0]:g} stands for them" if costs else ""
        return f"after an error there are no costs{stand}"
    count = len(trial.run_secs)
    text = f"seconds per run, one number for each of {count} repeat{'s' if count > 1 else ''}"
    if count > 1:
        text += f"; they lie {max(trial.run_secs) / min(trial.run_secs) - 1:.1%} apart"
    text += f"; the mean is {trial.seconds * 1e6:.1f} us"
    if trial.gflops is not None:
        text += f", so {trial.flop:.4g} operations run at {trial.gflops:.1f} GFLOPS"
    return text


ERROR_MEANINGS: Final = {
    "NO_ERROR": "it was built and measured",
    "INSTANTIATION_ERROR": "the template or a primitive refused the configuration",
    "COMPILE_HOST": "the program could not be compiled",
    "COMPILE_DEVICE": "the program could not be compiled for the device",
    "RUNTIME_DEVICE": "it failed while it ran, or the process that ran it died",
    "WRONG_ANSWER": "the results differ from those of the reference",
    "BUILD_TIMEOUT": "building took longer than the builder allows",
    "RUN_TIMEOUT": "running took longer than the runner allows",
    "UNKNOWN_ERROR": "none of these",
    STOPPED: "it was stopped as soon as it was certain not to be the best",
    "BUILD_ERROR": "it could not be built",
    "RUN_ERROR": "it failed while it ran",
    "CHECK_ERROR": "the results differ from those of the unscheduled program",
}


def utc(timestamp: float) -> str:
    """Return a time in seconds since 1970 as a date; the number if it is none."""
    try:
        return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp} s after 1970"
