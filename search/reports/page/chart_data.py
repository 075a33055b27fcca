"""The data for the charts of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from search.reports.page.sections import Findings
from search.reports.run_directory import knobs_of

MOST_TRIALS: Final = 20_000
"""The maximum number of trials in the charts; trials that were the best so far come on top."""
_MOST_NAMES: Final = 1000
_STAGES: Final = ("done", "stopped", "build", "run", "check")


def chart_data(findings: Findings) -> dict[str, Any]:
    """Return the tasks and the trials of a search as plain data.

    The page offers tasks with a `rank`: the most expensive tasks, and tasks with a winner. Their
    `columns` are the decided numbers in one design space. The rows have the trials by column:
    `stage` is an index of `stages`; `time` is in microseconds per call, a lower bound for a stopped
    trial; `best` is the minimum of its task so far; `at` is in seconds since the start.
    """
    tasks = findings.search.tasks
    known: list[dict[str, Any]] = []
    values: dict[int, list[Any]] = {}
    for shown, label in zip(findings.tasks, tasks.labels, strict=True):
        report, columns = shown.task.report, findings.columns(label)
        entry = {"label": label, "weight": report.weight, "space": shown.space, "columns": columns}
        pairs = shown.task.pairs_in_order
        entry["pairs"] = None if math.isnan(pairs) else round(100 * pairs)
        if report.rounds:
            entry |= {"settled": _micros(report.best), "winner": report.winner}
        known.append(entry)
        for trial, named in zip(shown.task.trials, shown.trials, strict=True):
            is_named = trial.space == shown.space
            decided = [named.knobs.get(name) for name in columns]
            values[id(trial)] = decided if is_named else list(knobs_of((), trial).values())
    largest = [task.number for task in tasks.largest(_MOST_NAMES) if task.trials]
    winners = [shown.task.number for shown in findings.tasks if shown.winner is not None]
    for rank, number in enumerate(dict.fromkeys([*largest, *winners])):
        known[number]["rank"] = rank
    drawn = _worth_drawing(findings)
    trials = [tasks.trials[k] for k in drawn]
    rows = {
        "task": [tasks.places[k] for k in drawn],
        "number": [trial.number for trial in trials],
        "batch": [trial.batch for trial in trials],
        "stage": [_STAGES.index(trial.stage) for trial in trials],
        "time": [_micros(trial.seconds or trial.slower_than) for trial in trials],
        "best": [_micros(tasks.best_so_far[k]) for k in drawn],
        "score": [_rounded(trial.predicted, 4) for trial in trials],
        "at": [round(trial.time - tasks.start, 2) for trial in trials],
        "building": [_rounded(trial.build_secs, 3) for trial in trials],
        "measuring": [_rounded(trial.measure_secs, 3) for trial in trials],
        "space": [trial.space for trial in trials],
        "decisions": [values[id(trial)] for trial in trials],
        "machine": [trial.machine for trial in trials],
    }
    return {"stages": _STAGES, "tasks": known, "rows": rows}


def _worth_drawing(findings: Findings) -> Sequence[int]:
    """Return the trials in the charts: an even choice, and each that was the best of its task."""
    tasks = findings.search.tasks
    few = range(0, len(tasks.trials), max(1, -(-len(tasks.trials) // MOST_TRIALS)))
    courses = zip(tasks.trials, tasks.best_so_far, strict=True)
    best = (k for k, (one, least) in enumerate(courses) if least and one.seconds == least)
    return sorted({*few, *best})


def _micros(seconds: float | None) -> float | None:
    return _rounded(1e6 * seconds, 6) if seconds else None


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else float(f"{number:.{digits}g}")
