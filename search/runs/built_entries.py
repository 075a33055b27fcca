"""Candidates that are built for measuring, and removed afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from search.builder import Builder, BuilderInput
from search.context import TuneContext
from search.errors import TuningError
from search.runner import RunnerInput
from search.runner.measure_candidate import MeasureCandidate
from search.runner.program_facts import ProgramFacts


@contextmanager
def built_entries(
    builder: Builder,
    context: TuneContext,
    candidates: Sequence[MeasureCandidate],
    facts: ProgramFacts | None,
    *,
    reference: str | None = None,
    best: float | None = None,
) -> Iterator[dict[int, RunnerInput]]:
    """Build candidates, and yield the inputs of a runner by position; failed builds are left out.

    The results are checked against those of the artifact `reference`, if there is one, and a run
    may stop that is certainly slower than `best` seconds. The artifacts exist inside of the `with`
    statement. TuningError for a context without a target.
    """
    target = context.target
    if target is None:
        raise TuningError("the task has no target: pass one to TuneContext")
    built = builder.build([BuilderInput(c.mod, target) for c in candidates])
    entries = {
        place: RunnerInput(
            result.artifact_path,
            target.kind,
            candidate.args_info,
            reference,
            best_seconds=best,
            facts=facts,
            input_data=context.input_data,
        )
        for place, (candidate, result) in enumerate(zip(candidates, built, strict=True))
        if result.artifact_path is not None
    }
    try:
        yield entries
    finally:
        for entry in entries.values():
            builder.remove_artifact(entry.artifact_path)
