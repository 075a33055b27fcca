"""What to try next, of the tasks of a page: the advice of `search.explain` with its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from search.report_page.searched_tasks import SearchedTask
from search.report_page.winners import ShownWinner
from search.trials.advice import Advice, advice
from search.trials.table import LogTable
from search.trials.trial import Trial


def next_steps(tasks: Sequence[SearchedTask], winners: Mapping[str, ShownWinner]) -> list[Advice]:
    """Return what to try next for some tasks, in their order.

    `winners` are by the labels of tasks; the decisions of a task without one have no names, and
    nothing is said of them.
    """
    return [
        step._replace(task=task.label)
        for task in tasks
        if task.trials
        for step in advice(_table(task, winners.get(task.label)), task.report)
    ]


def _table(task: SearchedTask, shown: ShownWinner | None) -> LogTable:
    if shown is None:
        return LogTable(task.trials)

    def named(trial: Trial) -> Trial:
        if trial.space != shown.space:
            return trial
        return replace(
            trial, knobs={one.name: one.meaning(trial.decisions) for one in shown.columns}
        )

    return LogTable(list(map(named, task.trials)))
