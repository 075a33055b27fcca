"""The numbers that the script of the page draws, as plain data and as JSON inside of HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from search.report_page.searched_tasks import SearchedTask
from search.report_page.winners import ShownWinner
from search.trials.trial import Trial

STAGES: Final = ("done", "stopped", "build", "run", "check")
"""The stages of trials, of which the rows have the number."""
COLUMNS: Final = (
    "task",
    "number",
    "batch",
    "stage",
    "time",
    "score",
    "at",
    "building",
    "measuring",
    "space",
    "decisions",
    "machine",
)
"""The columns of the rows: `time` is in microseconds per call, a lower bound for a trial that was
stopped; `at` in seconds since the start of the search; `building` and `measuring` in seconds."""


def rows_of(trials: Sequence[Trial], tasks: Sequence[int], start: float) -> dict[str, list[Any]]:
    """Return trials as columns; `tasks` has the number of the task of each."""
    rows = [
        (
            task,
            trial.number,
            trial.batch,
            STAGES.index(trial.stage),
            _rounded(1e6 * (trial.seconds or trial.slower_than or 0.0), 6) or None,
            _rounded(trial.predicted, 4),
            round(trial.time - start, 2),
            _rounded(trial.build_secs, 3),
            _rounded(trial.measure_secs, 3),
            trial.space,
            trial.decisions,
            trial.machine,
        )
        for task, trial in zip(tasks, trials, strict=True)
    ]
    columns = list(map(list, zip(*rows, strict=True))) or [[] for _ in COLUMNS]
    return dict(zip(COLUMNS, columns, strict=True))


def tasks_of(
    tasks: Sequence[SearchedTask], winners: Mapping[int, ShownWinner], names: Sequence[int]
) -> list[dict[str, Any]]:
    """Return what the script knows of each task.

    `names` are the numbers of those to choose from, in the order of the choice. The columns are
    those of the design space of the winner; without one none are known.
    """
    known = []
    for number, task in enumerate(tasks):
        entry: dict[str, Any] = {"label": task.label, "weight": task.weight}
        if task.report is not None and task.report.rounds and task.settled == task.report.best:
            entry["settled"] = _rounded(1e6 * (task.settled or 0.0), 6)
            entry["winner"] = task.report.winner
        shown = winners.get(number)
        if shown is not None and shown.columns:
            entry["space"] = shown.space
            entry["columns"] = [[one.name, one.site, one.part, one.labels] for one in shown.columns]
        known.append(entry)
    for rank, number in enumerate(names):
        known[number]["rank"] = rank
    return known


def json_in_html(data: Any) -> str:
    """Return JSON that may stand in a script element: nothing in it ends or begins a tag."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else float(f"{number:.{digits}g}")
