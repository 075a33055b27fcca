"""Formats of logs: how a log is recognised, and how its lines become trials.

A format is one class. `search.explain` finds it as soon as the class is defined.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from search.database.record_files import LineError, MeasureErrorNo, json_object
from search.reports.report import TaskReport
from search.reports.trial import STOPPED, Stage, Trial

MOST_PROGRAMS: Final = 1000
"""The maximum number of trials whose programs are replayed for their resources, which takes some
milliseconds each."""
_INSPECTED_LINES: Final = 10


class Field(NamedTuple):
    """A field of a line of a log, with its value and its meaning."""

    name: str
    value: str
    meaning: str


class Log(NamedTuple):
    """The contents of a log."""

    trials: Sequence[Trial]
    fields: Sequence[Field] = ()
    """The fields of the line of the best trial."""
    left_out: int = 0
    """The number of invalid lines."""
    reports: Sequence[TaskReport] = ()
    """The reports of tasks at the ends of runs."""


class LogFormat(ABC):
    """A format of logs. Formats are tried in the reverse order of their definitions."""

    known: ClassVar[list[type[LogFormat]]] = []

    def __init_subclass__(cls) -> None:
        LogFormat.known.insert(0, cls)

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """Return True if an existing file or directory has this format."""

    @abstractmethod
    def read(self, path: Path) -> Log:
        """Return the contents of a log of this format."""


def first_fields(path: Path) -> dict[str, Any]:
    """Return the first JSON object in the first ten lines of a file, {} if there is none."""
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in islice(file, _INSPECTED_LINES):
                try:
                    return json_object(line)
                except LineError:
                    continue
    return {}


def spread_out(count: int, most: bool | int) -> range:
    """Return the indices of the trials to replay: all of `count`, none, or at most `most`.

    They are evenly spaced, since configurations get better in the course of a log.
    """
    if most is True:
        return range(count)
    return range(0, count, -(-count // most)) if most and count else range(0)


# ---------------------------------------------------------------------------------- results of logs


def trial_of_result(result: Any, number: int, **fields: Any) -> Trial:
    """Return the trial of a `MeasureResult` of AutoTVM or Ansor; `fields` are others of `Trial`."""
    error = MeasureErrorNo(result.error_no)
    stage: Stage = _STAGES.get(error, "run")
    seconds: Sequence[float] = result.costs if stage == "done" else ()
    if result.slower_than is not None:
        stage, seconds = "stopped", (result.slower_than,)
    return Trial(
        **{"workload": "", "batch": 0, **fields},
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
    """Return the fields of a result, which a log writes as [costs, error number, seconds, time]."""
    costs, error_no, all_cost, timestamp = row
    ending = f"{trial.error_name}: {ERROR_MEANINGS[trial.ending]}"
    spent = (
        "wall time in seconds of building and running together; the log does not tell them apart"
    )
    fields = [
        Field(f"{name}[0]", json.dumps(costs), meaning_of_costs(trial, costs)),
        Field(f"{name}[1]", str(error_no), ending),
        Field(f"{name}[2]", f"{all_cost:.6g}", spent),
        Field(f"{name}[3]", str(timestamp), f"when it ended: {utc(timestamp)}"),
    ]
    if trial.slower_than is not None:
        meaning = "seconds that a run takes at least: it was ended early"
        fields.append(Field("slower_than", f"{trial.slower_than:.6g}", meaning))
    return fields


def meaning_of_costs(trial: Trial, costs: Sequence[float]) -> str:
    """Return the meaning of the seconds of a trial; `costs` are the numbers in its log."""
    if trial.seconds is None:
        placeholder = f", and {costs[0]:g} is a placeholder" if costs else ""
        return f"after an error there are no costs{placeholder}"
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
    """Return a time in seconds since 1970 as a date, or the number if it is out of range."""
    try:
        return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp} s after 1970"
