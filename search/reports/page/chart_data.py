"""The data for the charts of the page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from search.reports.page.watched_search import Winners
from search.reports.tasks import Tasks

_MOST_NAMES: Final = 1000
STAGES: Final = ("done", "stopped", "build", "run", "check")
"""The stages of trials; the rows have their indices."""
COLUMNS: Final = (
    "task",
    "number",
    "batch",
    "stage",
    "time",
    "best",
    "score",
    "at",
    "building",
    "measuring",
    "space",
    "decisions",
    "machine",
)
"""The columns of the rows: `time` in microseconds per call, a lower bound for a stopped trial;
`best` the minimum of its task so far; `at` in seconds since the start of the search."""


def rows_of(tasks: Tasks, chosen: Iterable[int]) -> dict[str, list[Any]]:
    """Return the chosen trials as columns."""
    rows = [
        (
            tasks.places[k],
            trial.number,
            trial.batch,
            STAGES.index(trial.stage),
            _micros(trial.seconds or trial.slower_than),
            _micros(tasks.best_so_far[k]),
            _rounded(trial.predicted, 4),
            round(trial.time - tasks.start, 2),
            _rounded(trial.build_secs, 3),
            _rounded(trial.measure_secs, 3),
            trial.space,
            trial.decisions,
            trial.machine,
        )
        for k in chosen
        for trial in [tasks.trials[k]]
    ]
    columns = list(map(list, zip(*rows, strict=True))) or [[] for _ in COLUMNS]
    return dict(zip(COLUMNS, columns, strict=True))


def tasks_of(tasks: Tasks, winners: Winners) -> list[dict[str, Any]]:
    """Return the tasks as plain data.

    The page offers tasks with a `rank`: the most expensive tasks, and tasks with a winner. Their
    `columns` are the decided numbers in the design space of the winner.
    """
    known = []
    for task, label in zip(tasks, tasks.labels, strict=True):
        report = task.report
        entry: dict[str, Any] = {"label": label, "weight": report.weight}
        if report.rounds:
            entry["settled"] = _micros(report.best)
            entry["winner"] = report.winner
        shown = winners.get(task.number)
        if shown is not None and shown.columns:
            entry["space"] = shown.space
            entry["columns"] = shown.columns
        known.append(entry)
    largest = [task.number for task in tasks.largest(_MOST_NAMES) if task.trials]
    for rank, number in enumerate(dict.fromkeys([*largest, *winners])):
        known[number]["rank"] = rank
    return known


def _micros(seconds: float | None) -> float | None:
    return _rounded(1e6 * seconds, 6) if seconds else None


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else float(f"{number:.{digits}g}")
