"""The trials of a run, failed ones included, as a table."""

from __future__ import annotations

import html
import math
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from search.database.growing_file import GrowingFile, Line, is_number, json_line, json_of
from search.errors import DatabaseError

TRIALS_FILE: Final = "tuning_trials.json"

Stage = Literal["build", "run", "check", "done", "stopped"]
"""The stage at which a trial ended.

It failed in `"build"`, in `"run"` or in the `"check"` of its results; it was measured (`"done"`),
or `"stopped"` as soon as it was certain that it is not the best.
"""

_MOST_ERROR_TEXT: Final = 120


@dataclass(frozen=True)
class Trial:
    """One candidate that was built and measured, or failed on the way."""

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

    @property
    def seconds(self) -> float | None:
        """The mean of `run_secs` of a trial that was measured to the end, else None."""
        done = self.stage == "done" and self.run_secs
        return statistics.fmean(self.run_secs) if done else None

    @property
    def slower_than(self) -> float | None:
        """What a call takes at least, in seconds, of a trial that was stopped early, else None."""
        return (
            statistics.fmean(self.run_secs) if self.stage == "stopped" and self.run_secs else None
        )

    @property
    def failed(self) -> bool:
        """Whether there is neither a time nor a bound: an error in `stage` ended the trial."""
        return self.stage not in ("done", "stopped")

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name, as plain data; a score that is no finite number is None."""
        score = self.predicted
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
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
        known = {name: obj[name] for name in _FIELDS}
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
_NAMES: Final = ", ".join(_FIELDS)
assert list(_FIELDS) == [field.name for field in fields(Trial)]


class TrialLog:
    """The file `tuning_trials.json` in a working directory: one trial on a line, only growing.

    A trial is handed to the system at once, so a process that is killed loses at most the line
    being written. Several processes may write; each waits for the lock of the file.
    """

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        self.path = Path(work_dir) / TRIALS_FILE
        self._file = GrowingFile(self.path, b"{")

    def append(self, trial: Trial) -> None:
        """Add a trial. DatabaseError if the file cannot be written."""
        with self._file.appending(_pass_over):
            self._file.append([json_line(trial.as_json())])

    def read(self) -> list[Trial]:
        """Return all trials; lines that are none are left out, and one warning names them."""
        trials: list[Trial] = []
        GrowingFile(self.path, b"{").catch_up(
            lambda line: trials.append(Trial.from_json(json_of(line.text)))
        )
        return trials


def _pass_over(_: Line) -> None:
    """Take a line that nobody asks for."""


class RunTable(Sequence[Trial]):
    """The trials of a working directory in the order in which they ended."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.trials = list(trials)

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, index: Any) -> Any:
        """Return one trial, or the table of a slice."""
        chosen = self.trials[index]
        return RunTable(chosen) if isinstance(index, slice) else chosen

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def of_task(self, task: str) -> RunTable:
        """Return the trials of one task."""
        return RunTable([trial for trial in self.trials if trial.task == task])

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks in the order of their first trial."""
        return list(dict.fromkeys(trial.task for trial in self.trials))

    @cached_property
    def array(self) -> NDArray[np.void]:
        """The table as a structured array, one row a trial.

        Columns are the fields of `Trial` that are numbers or short texts, and two more.
        `run_secs` is the mean in seconds, NaN for a trial without times; a `predicted` of NaN and a
        `space` of -1 stand for None; `error` is the first line, cut short. `best_so_far` is the
        lowest mean of the same task, program and target up to this trial, NaN before the first;
        `elapsed` the seconds since the first trial of the table began.
        """
        rows = self.trials
        starts = (trial.time - trial.build_secs - trial.measure_secs for trial in rows)
        start = min(starts, default=0.0)
        columns: dict[str, NDArray[Any]] = {
            "task": np.array([trial.task for trial in rows], np.str_),
            "workload": np.array([trial.workload for trial in rows], np.str_),
            "target": np.array([trial.target for trial in rows], np.str_),
            "batch": np.array([trial.batch for trial in rows], np.int64),
            "number": np.array([trial.number for trial in rows], np.int64),
            "stage": np.array([trial.stage for trial in rows], np.str_),
            "error": np.array([_first_line(trial.error) for trial in rows], np.str_),
            "build_secs": np.array([trial.build_secs for trial in rows], np.float64),
            "measure_secs": np.array([trial.measure_secs for trial in rows], np.float64),
            "run_secs": np.array([_mean(trial.run_secs) for trial in rows], np.float64),
            "predicted": np.array(
                [math.nan if trial.predicted is None else trial.predicted for trial in rows],
                np.float64,
            ),
            "time": np.array([trial.time for trial in rows], np.float64),
            "space": np.array(
                [-1 if trial.space is None else trial.space for trial in rows], np.int64
            ),
            "best_so_far": np.array(list(self._best_so_far()), np.float64),
            "elapsed": np.array([trial.time - start for trial in rows], np.float64),
        }
        table = np.empty(len(rows), [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            table[name] = column
        return table

    def _best_so_far(self) -> Iterator[float]:
        best: dict[tuple[str, str, str], float] = {}
        for trial in self.trials:
            key = (trial.task, trial.workload, trial.target)
            if trial.seconds is not None:
                best[key] = min(best.get(key, math.inf), trial.seconds)
            yield best.get(key, math.nan)

    def frame(self) -> Any:
        """Return the table as a pandas data frame, with all fields in full; needs pandas."""
        try:
            import pandas  # noqa: PLC0415 - optional
        except ImportError as error:
            raise ImportError("RunTable.frame needs pandas; .array needs nothing") from error
        frame = pandas.DataFrame([trial.as_json() for trial in self.trials], columns=list(_FIELDS))
        frame["best_so_far"] = self.array["best_so_far"]
        frame["elapsed"] = self.array["elapsed"]
        return frame

    def summary(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of texts for each task: how its trials ended, and the best."""
        heading = (
            "Task",
            "Trials",
            "Done",
            "Stopped",
            "Failed",
            "Best (us)",
            "Build (s)",
            "Run (s)",
        )
        rows: list[tuple[str, ...]] = [heading]
        for task in self.tasks:
            trials = self.of_task(task).trials
            stages = [trial.stage for trial in trials]
            done, stopped = stages.count("done"), stages.count("stopped")
            best = min((t.seconds for t in trials if t.seconds is not None), default=None)
            rows.append(
                (
                    task,
                    str(len(trials)),
                    str(done),
                    str(stopped),
                    str(len(trials) - done - stopped),
                    "N/A" if best is None else f"{best * 1e6:.4f}",
                    f"{sum(trial.build_secs for trial in trials):.1f}",
                    f"{sum(trial.measure_secs for trial in trials):.1f}",
                )
            )
        return rows

    def __str__(self) -> str:
        rows = self.summary()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        )

    def __repr__(self) -> str:
        return f"<RunTable of {len(self)} trials>\n{self}"

    def _repr_html_(self) -> str:
        heading, *rows = self.summary()
        body = "".join(_html_row("td", row) for row in rows)
        return f"<table><thead>{_html_row('th', heading)}</thead><tbody>{body}</tbody></table>"


def load_run(work_dir: str | os.PathLike[str]) -> RunTable:
    """Return the trials that the runs in a working directory left.

    DatabaseError if there are none. Lines that are no trials are left out, with a warning.
    """
    log = TrialLog(work_dir)
    if not log.path.exists():
        raise DatabaseError(f"no run left trials in {work_dir}: there is no file {log.path}")
    return RunTable(log.read())


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _mean(seconds: Sequence[float]) -> float:
    return statistics.fmean(seconds) if seconds else math.nan


def _first_line(error: str | None) -> str:
    return "" if not error else error.strip().partition("\n")[0][:_MOST_ERROR_TEXT]
