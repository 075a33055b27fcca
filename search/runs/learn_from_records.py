"""Training a cost model on the records of a database."""

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
"""Enough to rank the first batch; the replay of a record takes ten milliseconds and more."""
_LATEST: Final = 4096
"""The number of latest records among which other workloads are looked for."""


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
        with blamed_on(model, lambda: described(candidates)):
            model.update(context, candidates, results)
    return len(candidates)


def result_of(record: TuningRecord) -> RunnerResult:
    """Return the result of a runner from which a record was made."""
    seconds = tuple(s for s in record.run_secs or () if s < FAILED)
    if not seconds:
        return RunnerResult(error_msg="it failed when it was measured")
    return RunnerResult(run_secs=seconds, stopped=record.bound_seconds is not None)
