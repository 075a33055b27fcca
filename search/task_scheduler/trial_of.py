"""The line that a trial leaves in the log of trials."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from search.trials.trial import Stage, Trial

if TYPE_CHECKING:
    from search.builder import BuilderResult
    from search.database import Database
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult
    from search.task_scheduler.task_record import TaskRecord


def trial_of(
    task: TaskRecord,
    database: Database,
    candidate: MeasureCandidate,
    build: BuilderResult,
    result: RunnerResult,
) -> Trial:
    """Return the trial of a candidate that has just been measured, or failed on the way."""
    assert task.ctx.mod is not None
    return Trial(
        task=task.ctx.task_name,
        workload=database.workload_key(task.ctx.mod),
        target=str(task.ctx.target),
        batch=task.batches - 1,
        number=task.trials,
        stage=_stage(build, result),
        error=build.error_msg or result.error_msg,
        build_secs=build.seconds,
        measure_secs=result.seconds,
        run_secs=result.run_secs or (),
        predicted=candidate.predicted,
        time=time.time(),
        space=candidate.space_index,
        decisions=None if candidate.decisions is None else list(candidate.decisions),
    )


def _stage(build: BuilderResult, result: RunnerResult) -> Stage:
    if build.error_msg is not None:
        return "build"
    if result.error_msg is not None:
        return result.stage
    return "stopped" if result.stopped else "done"
