"""The numbers that the script of the page draws, as plain data and as JSON inside of HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from search.reports.page.winners import ShownWinner
from search.reports.tasks import Tasks

_MOST_NAMES: Final = 1000
STAGES: Final = ("done", "stopped", "build", "run", "check")
"""The stages of trials, of which the rows have the number."""
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
"""The columns of the rows: `time` is in microseconds per call, a lower bound for a trial that was
stopped, and `best` the least of its task so far; `at` is in seconds since the start of the search,
`building` and `measuring` in seconds."""


def rows_of(tasks: Tasks, chosen: Iterable[int]) -> dict[str, list[Any]]:
    """Return the trials with some places in the order of all, as columns."""
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


def tasks_of(tasks: Tasks, winners: Mapping[int, ShownWinner]) -> list[dict[str, Any]]:
    """Return what the script knows of each task; the `rank` is that of those to choose from.

    The largest are offered, and those with a winner. The columns are those of the design space of
    the winner; without one none are known.
    """
    known = []
    for task in tasks:
        report = task.report
        entry: dict[str, Any] = {"label": task.label, "weight": report.weight}
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


def json_in_html(data: Any) -> str:
    """Return JSON that may stand in a script element: nothing in it ends or begins a tag."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _micros(seconds: float | None) -> float | None:
    return _rounded(1e6 * seconds, 6) if seconds else None


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else float(f"{number:.{digits}g}")
