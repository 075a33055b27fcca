"""The record that a task scheduler keeps of a task, its row in the table, its trials in a log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from search.database.best_records import best_records, those_that_count, with_schedules
from search.measuring.flops import estimate_tir_flops
from search.runner.arguments import refuse_what_cannot_be_made_up
from search.runner.program_facts import ProgramFacts
from search.runs.trials import Stage, Trial

if TYPE_CHECKING:
    from search.builder import BuilderFuture, BuilderResult
    from search.context import TuneContext
    from search.database import Database
    from search.database.records import TuningRecord
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import RunnerFuture, RunnerResult
    from search.runs.name_winner import Confirmation
    from search.task_scheduler.batch import Batch

FAILED_MS: Final = 1e9
"""The latency in milliseconds of a trial that failed."""

_HEADER: Final = (
    "ID",
    "Name",
    "FLOP",
    "Weight",
    "Speed (GFLOPS)",
    "Latency (us)",
    "Weighted Latency (us)",
    "Trials",
    "Done",
)


@dataclass(eq=False)
class TaskRecord:
    """A task, its weight in the sum that is minimised, and what became of its trials."""

    ctx: TuneContext
    task_weight: float = 1.0
    flop: float = 1.0
    is_terminated: bool = False
    batches: int = 0
    """The number of batches that were sent to be measured, those of earlier runs among them."""
    build_error_count: int = 0
    run_error_count: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """The number of trials that ended with each error, by its last line."""
    latency_ms: list[float] = field(default_factory=list)
    """The latency of each trial; 1e9 for one that failed or whose end nobody waited for."""
    known_ms: float = FAILED_MS
    """The best latency of earlier runs; 1e9 where none is known."""
    build_seconds: float = 0.0
    """The seconds that the builds of all trials took, one after the other."""
    measure_seconds: float = 0.0
    """The seconds that their measurements took."""
    best_history_ms: list[float] = field(default_factory=list)
    """The best latency after each batch."""
    winner: Confirmation | None = None
    """The best, measured again at the end of the run."""
    batch: Batch | None = None
    """The batch that is being measured, None between batches."""
    reference: BuilderFuture | None = None
    """The build of the unscheduled program, from the first batch on."""
    trials_before: int = 0
    """The trials that the run made before it was interrupted; `latency_ms` has only those since."""
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    """The facts about the unscheduled program that a runner has to know."""

    @staticmethod
    def of(
        ctx: TuneContext,
        task_weight: float = 1.0,
        trials_before: int = 0,
        known: Sequence[TuningRecord] = (),
        batch_size: int = 64,
    ) -> TaskRecord:
        """Return the record of a task that was not searched yet in this process.

        `known` are its records of earlier runs; they count as batches of `batch_size`, rounded.
        """
        record = TaskRecord(ctx, task_weight, trials_before=trials_before)
        if ctx.mod is not None:
            record.flop = max(1.0, estimate_tir_flops(ctx.mod))
            record.facts = ProgramFacts.of(ctx.mod)
            for func in ctx.mod.prim_funcs().values():
                refuse_what_cannot_be_made_up(func, record.facts.values, ctx.input_data)
        for best, _ in islice(with_schedules(best_records(known, len(known))), 1):
            record.known_ms = best.mean_seconds * 1e3
        record.batches = int(len(those_that_count(known)) / batch_size + 0.5)
        record.best_history_ms = [record.known_ms] if record.batches else []
        return record

    @property
    def measure_candidates(self) -> list[MeasureCandidate] | None:
        """The candidates that are being measured, None between batches."""
        return None if self.batch is None else self.batch.candidates

    @property
    def builder_results(self) -> list[BuilderResult]:
        """The builds of the batch that are done."""
        builds = [] if self.batch is None else self.batch.builds
        return [build.result() for build in builds if build.done()]

    @property
    def runner_futures(self) -> list[RunnerFuture] | None:
        """The measurements of the batch, None between batches."""
        return None if self.batch is None else self.batch.runner_futures

    @property
    def trials(self) -> int:
        """The trials that the run made of the task so far."""
        return self.trials_before + len(self.latency_ms)

    def is_faster_side_by_side(self, cores: int) -> bool:
        """Say whether to build on all cores but one and to measure meanwhile on that one.

        Else all build, and then one measures. What the trials have taken so far decides; `cores`
        is at least 2.
        """
        beside = max(self.build_seconds / (cores - 1), self.measure_seconds)
        return beside <= self.build_seconds / cores + self.measure_seconds

    @property
    def trials_in_vain(self) -> int:
        """The trials that were made since the best one; all, where none of them is the best."""
        best = min(self.latency_ms, default=FAILED_MS)
        if best >= self.known_ms:
            return len(self.latency_ms)
        return len(self.latency_ms) - 1 - self.latency_ms.index(best)

    @property
    def best_ms(self) -> float | None:
        """The best latency in milliseconds, None while no trial succeeded."""
        if self.winner is not None:
            return self.winner.median * 1e3
        best = min([self.known_ms, *self.latency_ms])
        return None if best >= FAILED_MS else best

    @property
    def best_gflops(self) -> float | None:
        """The speed in GFLOPS at the best latency, None while no trial succeeded."""
        return None if self.best_ms is None else self.flop / self.best_ms / 1e6


def statistics_table(tasks: Sequence[TaskRecord]) -> str:
    """Return one row for each task, then the number of trials and the sum of latencies."""
    rows = [_HEADER, *(_row(k, task) for k, task in enumerate(tasks))]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADER))]
    lines = [
        "|".join(f" {cell:>{width}} " for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    rule = "-" * len(lines[0])
    measured = [task for task in tasks if task.best_ms is not None]
    trials = sum(task.trials for task in measured)
    latency = sum((task.best_ms or 0.0) * 1e3 * task.task_weight for task in measured)
    return "\n".join(
        [
            lines[0],
            rule,
            *lines[1:],
            rule,
            f"Total trials: {trials}",
            f"Total latency (us): {latency:.6g}",
        ]
    )


def _row(index: int, task: TaskRecord) -> tuple[str, ...]:
    best, speed = task.best_ms, task.best_gflops
    if best is None or speed is None:
        figures: tuple[str, ...] = ("N/A", "N/A", "N/A")
    else:
        latency = best * 1e3
        figures = (f"{speed:.4f}", f"{latency:.4f}", f"{latency * task.task_weight:.4f}")
    return (
        str(index),
        task.ctx.task_name,
        str(int(task.flop)),
        str(int(task.task_weight)),
        *figures,
        str(task.trials),
        "Y" if task.is_terminated else "",
    )


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
