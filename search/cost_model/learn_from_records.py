"""Teaching a cost model what a database knows of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from search.errors import blamed_on
from search.measure_candidate import described
from search.runner import RunnerResult
from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.database.database import Database
    from search.measure_candidate import MeasureCandidate

_MOST: Final = 256
"""The latest so many records are enough to start with; replaying one takes milliseconds."""


def learn_from_records(model: CostModel, database: Database, context: TuneContext) -> int:
    """Show `model` the records of a task unless it knows the program; return how many there were.

    Records of another target are left out, and those that failed: they do not say whether it was in
    building, of which a model is not told. So are traces that cannot be replayed any more.
    """
    if context.mod is None or model.knows(context):
        return 0
    candidates: list[MeasureCandidate] = []
    results: list[RunnerResult] = []
    for record in database.tuning_records_of(database.commit_workload(context.mod))[-_MOST:]:
        if not record.is_valid or record.target != context.target:
            continue
        try:
            candidate = record.as_measure_candidate()
        except TensorIRError as error:
            context.logger.info("A record cannot be replayed: %s", error)
            continue
        candidates.append(candidate)
        results.append(RunnerResult(run_secs=tuple(record.run_secs or ())))
    if candidates:
        with blamed_on(model, lambda: described(candidates)):
            model.update(context, candidates, results)
    return len(candidates)
