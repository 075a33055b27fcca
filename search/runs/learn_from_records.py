"""Teaching a cost model the records of a database."""

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
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate, described

MOST_OF_TASK: Final = 256
_MOST_OF_OTHERS: Final = 64
"""Enough to rank the first batch; replaying a record takes ten milliseconds and more."""
_LATEST: Final = 4096
"""Other workloads are looked for among so many records, and not in all of a large database."""


def learn_from_records(model: CostModel, database: Database, context: TuneContext) -> int:
    """Show `model` the records that it does not know; return how many there were.

    They are among the latest of the task and, fewer, of each other workload. Those that failed
    teach too. Left out are records of another target, and traces that cannot be replayed any more.
    """
    if context.mod is None:
        return 0
    workload = database.commit_workload(context.mod)
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
    """Show `model` those records of one task that it does not know; return how many there were.

    Traces that cannot be replayed any more are left out, and records with too few times for the
    objective of the task.
    """
    candidates: list[MeasureCandidate] = []
    results: list[RunnerResult] = []
    told = [r for r in records if not r.is_valid or context.objective.of_record(r) < math.inf]
    new = (r for r, trace in with_traces(told) if not model.knows(context, trace))
    for record, candidate in usable(new, TuningRecord.as_measure_candidate):
        candidates.append(candidate)
        results.append(context.objective.judged(_result(record)))
    if candidates:
        with blamed_on(model, lambda: described(candidates)):
            model.update(context, candidates, results)
    return len(candidates)


def _result(record: TuningRecord) -> RunnerResult:
    seconds = tuple(s for s in record.run_secs or () if s < FAILED)
    if not seconds:
        return RunnerResult(error_msg="it failed")
    return RunnerResult(run_secs=seconds, stopped=record.bound_seconds is not None)
