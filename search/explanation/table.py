"""The measurements of a log as a table: knobs, resources, costs."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from search.analysis.resources import RESOURCES, Resources
from search.errors import TuningError
from tensorir.text_table import aligned, html_table

Row = dict[str, Any]

NO_ERROR: Final = "NO_ERROR"
STOPPED: Final = "STOPPED_EARLY"
_MOST_SHOWN: Final = 20
_UNKNOWN: Final[Row] = dict.fromkeys(RESOURCES)
_FIRST: Final = ("task", "target", "index")
_COSTS: Final = (
    "cost",
    "slower_than",
    "gflops",
    "error",
    "build_seconds",
    "run_seconds",
    "all_cost",
    "time",
)
_PLAIN: Final = frozenset([*_FIRST, *RESOURCES, *_COSTS, "best_so_far", "elapsed"])
"""The columns that every table has."""


@dataclass(frozen=True)
class Measurement:
    """The facts about one measurement; None is what is not known."""

    task: str
    target: str
    index: int | None
    """The number of the configuration, or of the design space."""
    knobs: Mapping[str, Any]
    resources: Resources | None
    flop: float | None
    """Operations of a run; 0 means the same as None."""
    cost: float | None
    """Mean seconds per run."""
    slower_than: float | None
    error: str
    all_cost: float
    """Seconds of building and running together."""
    time: float
    """The time at which it ended, in seconds since 1970."""
    build_seconds: float | None = None
    run_seconds: float | None = None

    @property
    def gflops(self) -> float | None:
        """Operations per nanosecond."""
        return None if self.cost is None or not self.flop else self.flop / self.cost / 1e9


def spread_out(count: int, most: bool | int) -> range:
    """Return the indices of measurements whose programs are made: all of `count`, none, or `most`.

    They are spread over the whole log, as configurations get better from its start to its end.
    """
    if most is True:
        return range(count)
    return range(0, count, -(-count // most)) if most and count else range(0)


@dataclass(frozen=True)
class TurningPoint:
    """Two neighbouring values of a column between which the best cost changes most."""

    before: Any
    after: Any
    factor: float
    """The best cost at `before`, divided by that at `after`; above 1 where costs drop."""

    def __str__(self) -> str:
        if self.factor >= 1:
            return f"{self.before} -> {self.after}: {self.factor:.2f} times as fast"
        return f"{self.before} -> {self.after}: {1 / self.factor:.2f} times as slow"


@dataclass(frozen=True)
class CostCurve:
    """Costs in seconds against the values of one column, in the order of the values."""

    column: str
    values: tuple[Any, ...]
    best: tuple[float, ...]
    median: tuple[float, ...]
    counts: tuple[int, ...]
    """The number of measurements of each value."""
    explained: float | None
    """The share of the variance of the logarithm of the costs that the values explain: omega
    squared, which is near 0 for values that do not matter, however many there are. None where no
    value was measured twice."""

    def turning_point(self, rise: bool = False) -> TurningPoint | None:
        """Return the largest relative drop of the best cost between neighbours, or its rise.

        None where it drops (rises) nowhere.
        """
        steps = [
            TurningPoint(self.values[k], self.values[k + 1], self.best[k] / self.best[k + 1])
            for k in range(len(self.values) - 1)
        ]
        if rise:
            least = min(steps, key=lambda step: step.factor, default=None)
            return least if least is not None and least.factor < 1 else None
        most = max(steps, key=lambda step: step.factor, default=None)
        return most if most is not None and most.factor > 1 else None

    def __str__(self) -> str:
        rows = [(self.column, "best (us)", "median (us)", "measured")]
        for value, best, median, count in zip(
            self.values, self.best, self.median, self.counts, strict=True
        ):
            rows.append((str(value), f"{best * 1e6:.1f}", f"{median * 1e6:.1f}", str(count)))
        return aligned(rows)


class LogTable(Sequence[Row]):
    """One row for each measurement, in the order of the log; a row maps columns to values.

    Columns: `task`, `target`, `index` (of the configuration, or of the design space), the `knobs`,
    the resources of the program (see `Resources`), `cost` (mean seconds per run), `slower_than`
    (what the cost is at least, of one that was ended early: `error` is `STOPPED_EARLY`), `gflops`,
    `error` (`NO_ERROR`, a name of `MeasureErrorNo`, or the stage that failed), `build_seconds`,
    `run_seconds` and `all_cost` (both together), `time` (seconds since 1970), `best_so_far`
    (seconds, of the task up to here) and `elapsed` (seconds since the first ended).
    What is not known is None. A knob of several numbers has a column for each, `tile_y[0]` the
    outermost; one that has the name of another column, `time` say, is `time (knob)`.
    """

    def __init__(self, rows: Sequence[Row], knobs: Sequence[str]) -> None:
        self.rows = list(rows)
        self.knobs = tuple(knobs)

    @staticmethod
    def of(measurements: Sequence[Measurement]) -> LogTable:
        """Return the table of measurements."""
        named = dict.fromkeys(name for one in measurements for name in one.knobs)
        columns = {name: f"{name} (knob)" if name in _PLAIN else name for name in named}
        best: dict[tuple[str, str], float] = {}
        start = min((one.time for one in measurements), default=0.0)
        rows: list[Row] = []
        for one in measurements:
            task = (one.task, one.target)
            if one.cost is not None:
                best[task] = min(best.get(task, math.inf), one.cost)
            rows.append(
                {
                    **{name: getattr(one, name) for name in _FIRST},
                    **{column: one.knobs.get(name) for name, column in columns.items()},
                    **(asdict(one.resources) if one.resources else _UNKNOWN),
                    **{name: getattr(one, name) for name in _COSTS},
                    "best_so_far": best.get(task),
                    "elapsed": one.time - start,
                }
            )
        return LogTable(rows, list(columns.values()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.rows[0]) if self.rows else ()

    @property
    def resources(self) -> tuple[str, ...]:
        """The columns of what programs take that are known."""
        return tuple(name for name in RESOURCES if any(row[name] is not None for row in self.rows))

    @cached_property
    def _rows_of_tasks(self) -> dict[str, list[Row]]:
        """The rows of each task with its target, in the order in which they come."""
        rows: dict[str, list[Row]] = {}
        for row in self.rows:
            rows.setdefault(f"{row['task']}\n{row['target']}", []).append(row)
        return rows

    @cached_property
    def tasks(self) -> list[str]:
        """The labels of the tasks: their names, with the target where they have several."""
        labels = list(self._rows_of_tasks)
        names = [label.partition("\n")[0] for label in labels]
        several = len(set(names)) < len(names)
        return [label.replace("\n", " on ") for label in labels] if several else names

    def of_task(self, task: str | int) -> LogTable:
        """Return the rows of a task, by its place or its name in `tasks`.

        TuningError for one that is not there.
        """
        tasks = self.tasks
        if isinstance(task, int) and not -len(tasks) <= task < len(tasks):
            raise TuningError(f"there is no task {task}; the log has {len(tasks)}")
        if isinstance(task, str) and task not in tasks:
            raise TuningError(f"there is no task {task!r}; the log has {tasks}")
        place = tasks.index(task) if isinstance(task, str) else task
        rows = list(self._rows_of_tasks.values())[place]
        knobs = [name for name in self.knobs if any(row[name] is not None for row in rows)]
        return LogTable(rows, knobs)

    def best(self) -> Row | None:
        """Return the row with the lowest cost, None if nothing was measured."""
        measured = [row for row in self.rows if row["cost"] is not None]
        return min(measured, key=lambda row: row["cost"], default=None)

    def setting(self, row: Row) -> str:
        """Return the knobs of a row with their values, as text."""
        return ", ".join(f"{name}={row[name]}" for name in self.knobs if row[name] is not None)

    def errors(self) -> dict[str, int]:
        """Return how many measurements ended in which way, the most frequent first."""
        kinds = [row["error"] for row in self.rows]
        counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def column(self, name: str) -> NDArray[Any]:
        """Return a column: float64 with NaN for None where all are numbers, else objects.

        TuningError for one that is not there.
        """
        if self.rows and name not in self.rows[0]:
            raise TuningError(f"there is no column {name!r}; known are {list(self.columns)}")
        values = [row[name] for row in self.rows]
        if all(value is None or type(value) in (int, float) for value in values):
            return np.array([math.nan if v is None else v for v in values], np.float64)
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
        groups: dict[Any, list[float]] = {}
        for row in self.rows:
            if row["cost"] is not None and row[column] is not None:
                groups.setdefault(row[column], []).append(row["cost"])
        values = sorted(groups, key=_order)
        return CostCurve(
            column,
            tuple(values),
            tuple(min(groups[value]) for value in values),
            tuple(statistics.median(groups[value]) for value in values),
            tuple(len(groups[value]) for value in values),
            _explained([np.log(groups[value]) for value in values]),
        )

    def turning_point(self, column: str, rise: bool = False) -> TurningPoint | None:
        """Return the place where the curve of the best cost against a column drops (rises) most."""
        return self.group_by(column).turning_point(rise)

    def frame(self) -> Any:
        """Return the table as a pandas data frame. ImportError without pandas."""
        try:
            import pandas  # noqa: PLC0415 - optional
        except ImportError as error:
            raise ImportError("LogTable.frame needs pandas; .column needs nothing") from error
        return pandas.DataFrame(self.rows, columns=list(self.columns))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        """Return one row, or the table of a slice."""
        chosen = self.rows[index]
        return LogTable(chosen, self.knobs) if isinstance(index, slice) else chosen

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def _cells(self) -> list[tuple[str, ...]]:
        """Return a heading and rows of texts, without columns in which nothing is known."""
        names = [n for n in self.columns if any(row[n] is not None for row in self.rows)]
        return [tuple(names), *(tuple(cell(row[n]) for n in names) for row in self.rows)]

    def __str__(self) -> str:
        rows = self._cells()
        shown = rows[: _MOST_SHOWN + 1]
        rest = len(rows) - len(shown)
        return aligned(shown) + (f"\n... and {rest} more" if rest else "")

    def __repr__(self) -> str:
        return f"<LogTable of {len(self)} measurements>\n{self}"

    def _repr_html_(self) -> str:
        return html_table(self._cells()[: _MOST_SHOWN + 1])


def cell(value: Any) -> str:
    """Return a value of a table as a short text."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _order(value: Any) -> tuple[Any, ...]:
    """Order numbers by size, before texts."""
    if isinstance(value, (int, float)):
        return (0, value, "")
    return (1, 0, value if isinstance(value, str) else json.dumps(value))


def _explained(groups: Sequence[NDArray[np.float64]]) -> float | None:
    """Return omega squared of groups of numbers, at least 0."""
    everything = np.concatenate(groups) if groups else np.array([])
    free = len(everything) - len(groups)
    if free < 1 or len(groups) < 2:
        return None
    mean = everything.mean()
    inside = float(sum(((group - group.mean()) ** 2).sum() for group in groups)) / free
    between = float(sum(len(group) * (group.mean() - mean) ** 2 for group in groups))
    total = between + inside * free
    return max(0.0, (between - (len(groups) - 1) * inside) / (total + inside)) if total else None
