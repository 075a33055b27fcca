"""The next candidates of a task, and the records from which the cost model learns before.

The model learns from the records in the database when a task starts, and later from records that
other runs commit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.database.best_records import usable, with_traces
from search.database.records import FAILED, TuningRecord
from search.database.target_key import same_target
from search.errors import blamed_on
from search.reports.profiler import Profiler
from search.run import Run
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate, describe_candidates
from search.task_scheduler.task_state import TaskState

_EMPTY_BATCHES: Final = 3
"""The number of empty batches in a row after which a strategy counts as exhausted."""


def next_batch(run: Run, task: TaskState, most: int) -> list[MeasureCandidate]:
    """Return the next candidates of a task, up to `most`.

    First come the initial schedules of the user and the default schedule, then candidates that
    killed runs have not measured, then those of the strategy. Candidates that other runs on the
    database measure are left out. At the end of a task the batch is empty, and the log has the
    reason.
    """
    with Profiler.timeit("TakeNewsOfOthers"):
        _learn_news(run, task)
    candidates = _initial_schedules(run, task, most) or _from_strategy(run, task, most)
    if not candidates:
        _log_exhausted(run, task)
    return candidates


def _learn_news(run: Run, task: TaskState) -> None:
    """Give the strategy and the model the new records of other runs on the database."""
    records = run.leases.news(task.ctx)
    if not records:
        return
    assert task.ctx.search_strategy is not None
    task.ctx.search_strategy.notify_records(records)
    if run.cost_model is not None:
        learn(run.cost_model, task.ctx, records[-MOST_OF_TASK:])
    task.ctx.logger.info("Records of other runs: %d", len(records))


def _initial_schedules(run: Run, task: TaskState, most: int) -> list[MeasureCandidate]:
    """Return the next batch of initial and default schedules."""
    left = min(most, run.config.num_trials_per_iter, run.config.trials_of_a_task - task.trials)
    batch, task.initial = task.initial[:left], task.initial[left:]
    return run.leases.acquire(task.ctx, batch) if batch else []


def _from_strategy(run: Run, task: TaskState, most: int) -> list[MeasureCandidate]:
    """Return candidates of expired leases, else the next batch of the strategy.

    If a batch is empty, or other runs measure all of it, the strategy gets a few more tries before
    it counts as exhausted.
    """
    candidates = run.leases.expired(task.ctx, most)
    if candidates:
        return candidates
    empty = 0
    while empty < _EMPTY_BATCHES and not run.leases.is_exhausted(task.ctx):
        generated = task.ctx.generate_measure_candidates()
        if generated is None:
            return []
        candidates = run.leases.acquire(task.ctx, generated[:most])
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


def _log_exhausted(run: Run, task: TaskState) -> None:
    strategy = task.ctx.search_strategy
    reason = None if strategy is None or task.batches else strategy.failure_summary()
    if reason is not None:
        run.log.warning("%s cannot be tuned: %s", task.title, reason)
        return
    task.is_exhausted = True
    spaces = task.ctx.points_of(task.spaces)
    is_known = all(site.domain is not None for space in spaces for site in space.knobs)
    has_one_schedule = is_known and sum(space.num_points for space in spaces) == 1
    run.log.info(
        "%s ends after %s: %s",
        task.title,
        "1 trial" if task.trials == 1 else f"{task.trials} trials",
        "its design space has 1 schedule"
        if has_one_schedule
        else "its strategy finds no candidate that was not measured",
    )


MOST_OF_TASK: Final = 256
_MOST_OF_OTHERS: Final = 64
"""The maximum number of records of other workloads: enough to rank the first batch, as the replay
of a record takes at least ten milliseconds.
"""
_LATEST: Final = 4096
"""The number of latest records that are searched for other workloads."""


def learn_from_records(model: CostModel, database: Database, context: TuneContext) -> int:
    """Update `model` with the records that are new to it; return their number.

    These are the latest records of the task and, fewer, of other workloads for the same target,
    failed ones included. Traces that no longer replay are left out.
    """
    workload = database.commit_workload(context.program)
    own = database.tuning_records_of(workload, context.target)
    count = learn(model, context, own[-MOST_OF_TASK:])
    others: dict[int, list[TuningRecord]] = {}
    for record in database.get_all_tuning_records()[-_LATEST:]:
        shash = record.workload.shash
        if shash != workload.shash and same_target(record.target, context.target):
            others.setdefault(shash, []).append(record)
    for records in others.values():
        other = TuneContext(records[0].workload.mod, target=context.target)
        count += learn(model, other, records[-max(1, _MOST_OF_OTHERS // len(others)) :])
    return count


def learn(model: CostModel, context: TuneContext, records: Sequence[TuningRecord]) -> int:
    """Update `model` with the records of one task that are new to it; return their number.

    Traces that no longer replay are left out, and records with too few times for the objective of
    the task.
    """
    candidates: list[MeasureCandidate] = []
    results: list[RunnerResult] = []
    known = [r for r in records if not r.is_valid or context.objective.of_record(r) < math.inf]
    new = (r for r, trace in with_traces(known) if not model.knows(context, trace))
    for record, candidate in usable(new, TuningRecord.as_measure_candidate):
        candidates.append(candidate)
        results.append(context.objective.judged(result_of(record)))
    if candidates:
        with blamed_on(model, lambda: describe_candidates(candidates)):
            model.update(context, candidates, results)
    return len(candidates)


def result_of(record: TuningRecord) -> RunnerResult:
    """Return the runner result from which a record was made."""
    seconds = tuple(s for s in record.run_secs or () if s < FAILED)
    if not seconds:
        return RunnerResult(error_msg="it failed when it was measured")
    return RunnerResult(run_secs=seconds, stopped=record.bound_seconds is not None)
