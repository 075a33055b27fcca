"""The table of trials: one meaning for each column, whichever log the trials come from."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from search.errors import TuningError
from search.reports.cost_curve import CostCurve, TurningPoint, cost_curve
from search.reports.report import RunReport, TaskReport
from search.reports.resources import RESOURCES
from search.reports.tasks import Tasks, TaskTrials, program_of
from search.reports.trial import KINDS, MEANINGS, READ_AS, Trial
from tensorir.text_table import aligned, html_table

Row = dict[str, Any]
Value = Callable[[Trial], Any]

_MOST_SHOWN: Final = 20
_MOST_TEXT: Final = 120

_FIRST: Final[dict[str, Value]] = {
    "task": attrgetter("task"),
    "target": attrgetter("target"),
    "index": lambda trial: trial.space if trial.config is None else trial.config,
}
_COSTS: Final[dict[str, Value]] = {
    "cost": attrgetter("seconds"),
    "slower_than": attrgetter("slower_than"),
    "gflops": attrgetter("gflops"),
    "error": attrgetter("ending"),
    "build_seconds": lambda trial: trial.build_secs if trial.total_secs is None else None,
    "run_seconds": lambda trial: trial.measure_secs if trial.total_secs is None else None,
    "all_cost": attrgetter("spent"),
    "time": attrgetter("time"),
}
_SHORT: Final[dict[str, Value]] = {
    "run_secs": lambda trial: statistics.fmean(trial.run_secs) if trial.run_secs else None,
    "error": lambda trial: (trial.error or "").strip().partition("\n")[0][:_MOST_TEXT],
}
"""What arrays have of fields of several numbers or lines."""
_UNKNOWN: Final[Row] = dict.fromkeys(RESOURCES)
_PLAIN: Final = frozenset([*_FIRST, *RESOURCES, *_COSTS, "best_so_far", "elapsed"])
"""The columns that every table has."""


class Trials(Sequence[Any]):
    """Trials in the order in which they ended, with what can be asked of them all.

    `rows` has one row for each, which maps columns to values: `task`, `target`, `index` (of the
    configuration, or of the design space), the `knobs`, the resources of the program (see
    `Resources`), `cost` (mean seconds per run), `slower_than` (what the cost is at least, of one
    that was ended early: `error` is `STOPPED_EARLY`), `gflops`, `error` (`NO_ERROR`, a name of
    `MeasureErrorNo`, or the stage that failed), `build_seconds`, `run_seconds` and `all_cost` (both
    together), `time` (seconds since 1970), `best_so_far` (seconds, of the task up to here) and
    `elapsed` (seconds since the first ended). What is not known is None. A knob of several numbers
    has a column for each, `tile_y[0]` the outermost; one that has the name of another column,
    `time` say, is `time (knob)`. `reports` are what runs reported of tasks at their ends, oldest
    first.
    """

    def __init__(self, trials: Sequence[Trial], reports: Sequence[TaskReport] = ()) -> None:
        self.trials = list(trials)
        self._reports = tuple(reports)
        self._part_of: tuple[Trials, Sequence[int]] | None = None

    @cached_property
    def rows(self) -> list[Row]:
        """The facts about each trial by column; a part of a table has the rows of the whole."""
        if self._part_of is not None:
            whole, places = self._part_of
            return [whole.rows[k] for k in places]
        columns = self._columns_of_knobs()
        start = min((trial.time for trial in self.trials), default=0.0)
        return [
            {
                **{name: value(trial) for name, value in _FIRST.items()},
                **{column: trial.knobs.get(name) for name, column in columns.items()},
                **(asdict(trial.resources) if trial.resources else _UNKNOWN),
                **{name: value(trial) for name, value in _COSTS.items()},
                "best_so_far": best,
                "elapsed": trial.time - start,
            }
            for trial, best in zip(self.trials, self.told.best_so_far, strict=True)
        ]

    @cached_property
    def told(self) -> Tasks:
        """What became of the trials of each program, summed up."""
        return Tasks(self.trials, self._reports)

    @property
    def task(self) -> TaskTrials:
        """What became of the trials of one task: of the last of its programs."""
        return self.told.of(program_of(self.trials[-1]))

    @property
    def report(self) -> RunReport:
        """Before and after, for each task: what the last run reported at its end.

        A task with trials of a run that has no end yet, or was interrupted, has in it what these
        say. Listed tasks without a trial come last.
        """
        return self.told.report

    @cached_property
    def array(self) -> NDArray[np.void]:
        """The table as a structured array, one row a trial.

        Columns are the fields of `Trial` that are numbers or short texts, and two more.
        `run_secs` is the mean in seconds, NaN for a trial without times; a `predicted` of NaN and a
        `space` of -1 stand for None; `error` is the first line, cut short. `best_so_far` is the
        lowest mean of the same task, program and target up to this trial, NaN before the first;
        `elapsed` the seconds since the first trial of the table began.
        """
        columns: dict[str, NDArray[Any]] = {}
        for name, (kind, _) in KINDS.items():
            _, dtype, missing = READ_AS[kind]
            if dtype is not None:
                values = map(_SHORT.get(name, attrgetter(name)), self.trials)
                known = [missing if value is None else value for value in values]
                columns[name] = np.array(known, dtype)
        columns["best_so_far"] = np.array(list(map(_number, self.told.best_so_far)), np.float64)
        columns["elapsed"] = columns["time"] - self.told.start
        table = np.empty(len(self), [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            table[name] = column
        return table

    # --------------------------------------------------------------------------------- rows of it

    def _part(self, places: Sequence[int]) -> Self:
        part = type(self)([self.trials[k] for k in places], self._reports)
        part._part_of = (self, places)
        return part

    @cached_property
    def labels(self) -> list[str]:
        """The labels of the tasks in `told`: their names, with the target where they have several.

        Programs of the same name and target are numbered.
        """
        named = {(one.known.task, one.known.target) for one in self.told if one.trials}
        several = len({name for name, _ in named}) < len(named)
        return [
            f"{one.known.task} on {one.known.target}" if several else one.label for one in self.told
        ]

    @property
    def tasks(self) -> list[str]:
        """The labels of the tasks that have trials."""
        return list(dict.fromkeys(self.labels[place] for place in self.told.places))

    def of_task(self, task: str | int) -> Self:
        """Return the trials of a task, by its place or its name in `tasks`.

        A name that is none of these stands for all targets. TuningError for a task that is not
        there.
        """
        tasks = self.tasks
        if isinstance(task, int) and not -len(tasks) <= task < len(tasks):
            raise TuningError(f"there is no task {task}; the log has {len(tasks)}")
        wanted = tasks[task] if isinstance(task, int) else task
        places = [k for k, of in enumerate(self.told.places) if self.labels[of] == wanted]
        places = places or [k for k, one in enumerate(self.trials) if one.task == wanted]
        if not places:
            raise TuningError(f"there is no task {task!r}; the log has {tasks}")
        return self._part(places)

    def best(self) -> Row | None:
        """Return the row with the lowest cost, None if nothing was measured."""
        measured = [row for row in self.rows if row["cost"] is not None]
        return min(measured, key=lambda row: row["cost"], default=None)

    def winner(self) -> Row | None:
        """Return the row of the winner of one task.

        That is the trial which a run named after measuring the best again; where no run did, the
        one with the lowest cost. None if nothing was measured, or if the winner was not a trial
        (the unscheduled program, say).
        """
        report = self.task.report
        if not report.rounds:
            return self.best()
        pairs = zip(self.trials, self.rows, strict=True)
        return next((row for one, row in pairs if one.number == report.winner), None)

    def errors(self) -> dict[str, int]:
        """Return how many measurements ended in which way, the most frequent first."""
        return dict(Counter(trial.ending for trial in self.trials).most_common())

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, index: Any) -> Any:
        """Return one trial, or the table of a slice."""
        is_part = isinstance(index, slice)
        return self._part(range(len(self))[index]) if is_part else self._item(index)

    def _item(self, index: int) -> Any:
        return self.trials[index]

    # ------------------------------------------------------------------------------------- columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.rows[0]) if self.rows else ()

    @property
    def _known(self) -> list[str]:
        """The columns in which something is known."""
        return [name for name in self.columns if any(row[name] is not None for row in self.rows)]

    def _columns_of_knobs(self) -> dict[str, str]:
        named = dict.fromkeys(name for trial in self.trials for name in trial.knobs)
        return {name: f"{name} (knob)" if name in _PLAIN else name for name in named}

    @cached_property
    def knobs(self) -> tuple[str, ...]:
        """The columns of what was chosen."""
        chosen = set(self._columns_of_knobs().values())
        return tuple(name for name in self._known if name in chosen)

    @property
    def resources(self) -> tuple[str, ...]:
        """The columns of what programs take that are known."""
        return tuple(name for name in self._known if name in RESOURCES)

    def setting(self, row: Row) -> str:
        """Return the knobs of a row with their values, as text."""
        return ", ".join(f"{name}={row[name]}" for name in self.knobs if row[name] is not None)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column: float64 with NaN for None where all are numbers, else objects.

        TuningError for one that is not there.
        """
        if self.rows and name not in self.rows[0]:
            raise TuningError(f"there is no column {name!r}; known are {list(self.columns)}")
        values = [row[name] for row in self.rows]
        if all(value is None or type(value) in (int, float) for value in values):
            return np.array(list(map(_number, values)), np.float64)
        return np.array(values, object)

    def group_by(self, column: str) -> CostCurve:
        """Return the costs for each value of a column.

        TuningError for a column that is not there, and where several tasks would be mixed:
        choose one with `of_task`.
        """
        if len(self.tasks) > 1:
            raise TuningError(
                f"costs of different tasks do not compare; choose one of {self.tasks} with of_task"
            )
        self.column(column)
        return cost_curve(
            column,
            ((row[column], row["cost"]) for row in self.rows),
            ((row[column], row["slower_than"]) for row in self.rows),
        )

    def turning_point(self, column: str, rise: bool = False) -> TurningPoint | None:
        """Return the place where the curve of the best cost against a column drops (rises) most."""
        return self.group_by(column).turning_point(rise)

    # -------------------------------------------------------------------------------------- as text

    def _cells(self) -> list[tuple[str, ...]]:
        """Return a heading and rows of texts."""
        raise NotImplementedError

    def __str__(self) -> str:
        rows = self._cells()
        shown = rows[: _MOST_SHOWN + 1]
        rest = len(rows) - len(shown)
        return aligned(shown) + (f"\n... and {rest} more" if rest else "")

    def _repr_html_(self) -> str:
        return html_table(self._cells()[: _MOST_SHOWN + 1])


class LogTable(Trials):
    """The trials of a log, each of which is shown, and given, as a row of its columns."""

    def _item(self, index: int) -> Row:
        return self.rows[index]

    def frame(self) -> Any:
        """Return the table as a pandas data frame. ImportError without pandas."""
        return _data_frame(self.rows, self.columns, "LogTable.frame needs pandas; .column")

    def _cells(self) -> list[tuple[str, ...]]:
        """Return the rows, without columns in which nothing is known."""
        names = self._known
        return [tuple(names), *(tuple(_cell(row[n]) for n in names) for row in self.rows)]

    def __repr__(self) -> str:
        return f"<LogTable of {len(self)} measurements>\n{self}"


class RunTable(Trials):
    """The trials of a working directory, summed up for each task."""

    def frame(self) -> Any:
        """Return the table as a pandas data frame, with all fields in full; needs pandas."""
        rows = [trial.as_json() for trial in self.trials]
        frame = _data_frame(rows, MEANINGS, "RunTable.frame needs pandas; .array")
        frame["best_so_far"] = self.array["best_so_far"]
        frame["elapsed"] = self.array["elapsed"]
        return frame

    def summary(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of texts for each task: how its trials ended, and the best."""
        labelled = zip(self.labels, self.told, strict=True)
        return [_SUMS, *(_summary(label, task) for label, task in labelled if task.trials)]

    _cells = summary

    def __repr__(self) -> str:
        return f"<RunTable of {len(self)} trials>\n{self}"


_SUMS: Final = ("Task", "Trials", "Done", "Stopped", "Failed", "Best (us)", "Build (s)", "Run (s)")


def _summary(label: str, task: TaskTrials) -> tuple[str, ...]:
    counts = (len(task.trials), task.counts["done"], task.counts["stopped"], task.failed)
    return (
        label,
        *map(str, counts),
        "N/A" if task.best is None else f"{task.best * 1e6:.4f}",
        f"{task.build_secs:.1f}",
        f"{task.measure_secs:.1f}",
    )


def _cell(value: Any) -> str:
    """Return a value of a table as a short text."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _data_frame(rows: Sequence[Row], columns: Iterable[str], otherwise: str) -> Any:
    try:
        import pandas  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ImportError(f"{otherwise} needs nothing") from error
    return pandas.DataFrame(rows, columns=list(columns))


def _number(value: float | None) -> float:
    return math.nan if value is None else value
