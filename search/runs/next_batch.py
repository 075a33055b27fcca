"""The candidates of a task that are measured next, and why there are none."""

from __future__ import annotations

from typing import Final

from search.reports.profiler import Profiler
from search.run import Run
from search.runner.measure_candidate import MeasureCandidate
from search.runs.learn_from_records import MOST_OF_TASK, learn
from search.task_scheduler.task_state import TaskState

_EMPTY_BATCHES: Final = 3
"""The number of empty batches in a row after which a strategy counts as exhausted."""


def next_batch(run: Run, task: TaskState, most: int) -> list[MeasureCandidate]:
    """Return the next candidates of a task, at most so many.

    At the end of a task there are none, and the log says why. First come the schedules that the
    user wants measured, then what runs that were killed have left, then what the strategy chooses.
    What others on the database measure is left out.
    """
    with Profiler.timeit("TakeNewsOfOthers"):
        _take_news(run, task)
    candidates = _initial_of(run, task, most) or _candidates_of(run, task, most)
    if not candidates:
        _say_why_nothing(run, task)
    return candidates


def _take_news(run: Run, task: TaskState) -> None:
    """Tell the strategy and the model what other runs on the database have measured."""
    records = run.claims.news(task.ctx)
    if not records:
        return
    assert task.ctx.search_strategy is not None
    task.ctx.search_strategy.notify_records(records)
    if run.cost_model is not None:
        learn(run.cost_model, task.ctx, records[-MOST_OF_TASK:])
    task.ctx.logger.info("Records of other runs: %d", len(records))


def _initial_of(run: Run, task: TaskState, most: int) -> list[MeasureCandidate]:
    """Return the next batch of schedules that the user wants measured first."""
    left = min(most, run.config.num_trials_per_iter, run.config.trials_of_a_task - task.trials)
    batch, task.initial = task.initial[:left], task.initial[left:]
    return run.claims.take(task.ctx, batch) if batch else []


def _candidates_of(run: Run, task: TaskState, most: int) -> list[MeasureCandidate]:
    """Return the next batch of a strategy, an empty one if it has none.

    A strategy may give an empty batch, or one that others on the database are measuring, after
    which it is asked again, but not for ever.
    """
    candidates = run.claims.left_behind(task.ctx, most)
    if candidates:
        return candidates
    empty = 0
    while empty < _EMPTY_BATCHES and not run.claims.is_exhausted(task.ctx):
        generated = task.ctx.generate_measure_candidates()
        if generated is None:
            return []
        candidates = run.claims.take(task.ctx, generated[:most])
        if candidates:
            return candidates
        empty += not generated
        task.ctx.notify_runner_results([], [])
    run.log.warning(
        "%s ends: its search strategy gave %s one after another",
        task.title,
        f"{empty} empty batches" if empty else "batches that others have measured",
    )
    return []


def _say_why_nothing(run: Run, task: TaskState) -> None:
    strategy = task.ctx.search_strategy
    reason = None if strategy is None or task.batches else strategy.failure_summary()
    if reason is not None:
        run.log.warning("%s cannot be tuned: %s", task.title, reason)
        return
    task.is_exhausted = True
    run.log.info(
        "%s ends after %s: %s",
        task.title,
        "1 trial" if task.trials == 1 else f"{task.trials} trials",
        "its design space has 1 schedule"
        if _has_one_schedule(task)
        else "its strategy finds no candidate that was not measured",
    )


def _has_one_schedule(task: TaskState) -> bool:
    spaces = task.ctx.points_of(task.spaces)
    known = all(site.domain is not None for space in spaces for site in space.knobs)
    return known and sum(space.num_points for space in spaces) == 1
