"""The table of trials: its columns have the same meaning for every kind of log."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from search.errors import TuningError
from search.reports.cost_curve import CostCurve, TurningPoint, cost_curve, most_telling
from search.reports.report import RunReport, TaskReport
from search.reports.resources import RESOURCES
from search.reports.tasks import Tasks, TaskTrials, program_of
from search.reports.trial import MEANINGS, Trial
from tensorir.text_table import aligned, html_table

Row = dict[str, Any]

_MOST_SHOWN: Final = 20
_MOST_TEXT: Final = 120
_PART: Final = re.compile(r"\[\d+\]$")
_MISSING: Final = {"predicted": math.nan, "space": -1, "machine": "", "error": ""}
"""The values of `Trials.array` for None."""


class Trials(Sequence[Any]):
    """Trials, ordered by their ends, as a table.

    `rows` has one row per trial with these columns: `task`, `target`, `index` (of the
    configuration, or of the design space), the `knobs`, the resources of the program (see
    `Resources`), `cost` (mean seconds per run), `slower_than` (a lower bound of the cost of a trial
    that was stopped early: its `error` is `STOPPED_EARLY`), `gflops`, `error` (`NO_ERROR`, a name
    of `MeasureErrorNo`, or the stage that failed), `build_seconds`, `run_seconds` and `all_cost`
    (their sum), `time` (seconds since 1970), `best_so_far` (seconds, of the task) and `elapsed`
    (seconds since the end of the first trial). Unknown values are None. A knob of several numbers
    has a column for each, `tile_y[0]` the outermost; a knob with the name of another column, such
    as `time`, is `time (knob)`. `reports` are the reports of tasks by earlier runs, oldest first.
    """

    def __init__(self, trials: Sequence[Trial], reports: Sequence[TaskReport] = ()) -> None:
        self.trials = list(trials)
        self._reports = tuple(reports)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of the table."""
        start = min((trial.time for trial in self.trials), default=0.0)
        knobs = self._knob_columns
        return [
            {
                "task": trial.task,
                "target": trial.target,
                "index": trial.space if trial.config is None else trial.config,
                **{column: trial.knobs.get(name) for name, column in knobs.items()},
                **_facts(trial),
                "best_so_far": best,
                "elapsed": trial.time - start,
            }
            for trial, best in zip(self.trials, self.by_task.best_so_far, strict=True)
        ]

    @cached_property
    def by_task(self) -> Tasks:
        """The trials by task, with their sums."""
        return Tasks(self.trials, self._reports)

    @property
    def task(self) -> TaskTrials:
        """The task of the last trial, for tables of one task."""
        return self.by_task.of(program_of(self.trials[-1]))

    @property
    def report(self) -> RunReport:
        """The report of each task by the last complete run, updated by later trials.

        Tasks without trials come last.
        """
        return self.by_task.report

    @cached_property
    def array(self) -> NDArray[np.void]:
        """The table as a structured array, one row per trial.

        Columns are the fields of `Trial` with numbers or short texts: `run_secs` is the mean in
        seconds, NaN for a trial without times; None is NaN in `predicted` and -1 in `space`;
        `error` is the first line, shortened. Further columns are `best_so_far`, the minimum of the
        same task, program and target up to this trial, NaN before the first measurement, and
        `elapsed`, the seconds since the start of the first trial.
        """
        columns: dict[str, NDArray[Any]] = {
            name: np.array([_MISSING[name] if v is None else v for v in self._values(name)])
            for name in MEANINGS
            if name != "decisions"
        }
        columns["best_so_far"] = np.array(self.by_task.best_so_far, np.float64)
        columns["elapsed"] = columns["time"] - self.by_task.start
        table = np.empty(len(self), [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            table[name] = column
        return table

    def _values(self, name: str) -> list[Any]:
        if name == "run_secs":
            return [statistics.fmean(t.run_secs or [math.nan]) for t in self.trials]
        if name == "error":
            texts = [(trial.error or "").strip() for trial in self.trials]
            return [text.partition("\n")[0][:_MOST_TEXT] for text in texts]
        return [getattr(trial, name) for trial in self.trials]

    # --------------------------------------------------------------------------------- rows of it

    @cached_property
    def labels(self) -> list[str]:
        """The labels of the tasks in `by_task`."""
        return self.by_task.labels

    @property
    def tasks(self) -> list[str]:
        """The labels of the tasks that have trials."""
        return list(dict.fromkeys(self.labels[place] for place in self.by_task.places))

    def of_task(self, task: str | int) -> Self:
        """Return the trials of a task, given by its index in `tasks`, its label or its name.

        A name without a target selects all targets. Raises TuningError for an unknown task.
        """
        tasks = self.tasks
        if isinstance(task, int) and not -len(tasks) <= task < len(tasks):
            raise TuningError(f"there is no task {task}; the log has {len(tasks)}")
        wanted = tasks[task] if isinstance(task, int) else task
        labelled = zip(self.trials, self.by_task.places, strict=True)
        found = [one for one, place in labelled if self.labels[place] == wanted]
        found = found or [one for one in self.trials if one.task == wanted]
        if not found:
            raise TuningError(f"there is no task {task!r}; the log has {tasks}")
        return self if len(found) == len(self) else type(self)(found, self._reports)

    def best(self) -> Row | None:
        """Return the row with the lowest cost, None if nothing was measured."""
        measured = [row for row in self.rows if row["cost"] is not None]
        return min(measured, key=lambda row: row["cost"], default=None)

    def winner(self) -> Row | None:
        """Return the row of the winner of one task.

        That is the trial that a run named after measuring the best again; without such a run, the
        trial with the lowest cost. None if nothing was measured, or if the winner is not a trial
        (the unscheduled program, for example).
        """
        report = self.task.report
        if not report.rounds:
            return self.best()
        pairs = zip(self.trials, self.rows, strict=True)
        return next((row for one, row in pairs if one.number == report.winner), None)

    def errors(self) -> dict[str, int]:
        """Return the number of trials by their ending, most frequent first."""
        return dict(Counter(trial.ending for trial in self.trials).most_common())

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, index: Any) -> Any:
        """Return one trial, or the table of a slice."""
        if isinstance(index, slice):
            return type(self)(self.trials[index], self._reports)
        return self._item(index)

    def _item(self, index: int) -> Any:
        return self.trials[index]

    # ------------------------------------------------------------------------------------- columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.rows[0]) if self.rows else ()

    @cached_property
    def _known(self) -> list[str]:
        """The columns with a known value."""
        return [name for name in self.columns if any(row[name] is not None for row in self.rows)]

    @cached_property
    def knobs(self) -> tuple[str, ...]:
        """The columns of knobs with a known value."""
        chosen = set(self._knob_columns.values())
        return tuple(name for name in self._known if name in chosen)

    @property
    def _knob_columns(self) -> dict[str, str]:
        names = dict.fromkeys(name for trial in self.trials for name in trial.knobs)
        return {name: f"{name} (knob)" if name in _PLAIN else name for name in names}

    @property
    def resources(self) -> tuple[str, ...]:
        """The columns of resources with a known value."""
        return tuple(name for name in self._known if name in RESOURCES)

    def setting(self, row: Row) -> str:
        """Return the knobs of a row with their values, as text; the parts of a tile as a list."""
        values: dict[str, list[str]] = {}
        for name in self.knobs:
            if row[name] is not None:
                values.setdefault(_PART.sub("", name), []).append(str(row[name]))
        return ", ".join(
            f"{name}={found[0]}" if len(found) == 1 else f"{name}=[{', '.join(found)}]"
            for name, found in values.items()
        )

    def column(self, name: str) -> NDArray[Any]:
        """Return a column: float64 with NaN for None if all values are numbers, otherwise objects.

        Raises TuningError for an unknown column.
        """
        if self.rows and name not in self.rows[0]:
            raise TuningError(f"there is no column {name!r}; known are {list(self.columns)}")
        values = [row[name] for row in self.rows]
        is_numeric = all(value is None or type(value) in (int, float) for value in values)
        return np.array(values, np.float64 if is_numeric else object)

    def group_by(self, column: str) -> CostCurve:
        """Return the costs for each value of a column.

        Raises TuningError for an unknown column, and for a table of several tasks: choose one with
        `of_task`.
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

    @cached_property
    def curves(self) -> list[CostCurve]:
        """The curves of the knobs and the resources."""
        return [self.group_by(name) for name in (*self.knobs, *self.resources)]

    @property
    def what_matters(self) -> list[CostCurve]:
        """The curves of the knobs and resources that varied, most telling first."""
        return most_telling(self.curves)

    def turning_point(self, column: str, rise: bool = False) -> TurningPoint | None:
        """Return where the curve of the best cost against a column drops (rises) most."""
        return self.group_by(column).turning_point(rise)

    # -------------------------------------------------------------------------------------- as text

    def _cells(self) -> list[tuple[str, ...]]:
        """Return a heading and rows of texts."""
        raise NotImplementedError

    def __str__(self) -> str:
        rows = self._cells()
        rest = len(rows) - _MOST_SHOWN - 1
        return aligned(rows[: _MOST_SHOWN + 1]) + f"\n... and {rest} more" * (rest > 0)

    def _repr_html_(self) -> str:
        return html_table(self._cells()[: _MOST_SHOWN + 1])


class LogTable(Trials):
    """The trials of a log; its items are rows."""

    def _item(self, index: int) -> Row:
        return self.rows[index]

    def _cells(self) -> list[tuple[str, ...]]:
        """Return the rows, without columns that are unknown everywhere."""
        names = self._known
        return [tuple(names), *(tuple(_cell(row[n]) for n in names) for row in self.rows)]

    def __repr__(self) -> str:
        return f"<LogTable of {len(self)} measurements>\n{self}"


class RunTable(Trials):
    """The trials of a working directory; its text has a row per task."""

    def summary(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of texts for each task: its trials by their ends, its best."""
        rows: list[tuple[str, ...]] = [
            ("Task", "Trials", "Done", "Stopped", "Failed", "Best (us)", "Build (s)", "Run (s)")
        ]
        for label, task in zip(self.labels, self.by_task, strict=True):
            if task.trials:
                done, stopped = task.counts["done"], task.counts["stopped"]
                best = "N/A" if task.best is None else f"{task.best * 1e6:.4f}"
                counts = map(str, (len(task.trials), done, stopped, task.failed))
                spent = (f"{task.build_secs:.1f}", f"{task.measure_secs:.1f}")
                rows.append((label, *counts, best, *spent))
        return rows

    _cells = summary

    def __repr__(self) -> str:
        return f"<RunTable of {len(self)} trials>\n{self}"


def _facts(trial: Trial) -> Row:
    """Return the columns of a trial that do not depend on other trials or on its log."""
    has_stages = trial.total_secs is None
    return {
        **(asdict(trial.resources) if trial.resources else dict.fromkeys(RESOURCES)),
        "cost": trial.seconds,
        "slower_than": trial.slower_than,
        "gflops": trial.gflops,
        "error": trial.ending,
        "build_seconds": trial.build_secs if has_stages else None,
        "run_seconds": trial.measure_secs if has_stages else None,
        "all_cost": trial.spent,
        "time": trial.time,
    }


_PLAIN: Final = frozenset(
    ["task", "target", "index", "best_so_far", "elapsed", *_facts(Trial("", "", "", 0, 0, "done"))]
)
"""The columns of every table."""


def _cell(value: Any) -> str:
    """Return a value as a short text."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
