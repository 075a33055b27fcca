"""A task that is searched: its record, its row in the table, and its batch on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from codegen.target import host
from search.builder import Builder, BuilderFuture, BuilderInput, BuilderResult
from search.context import TuneContext
from search.database.best_records import best_records, those_that_count, with_schedules
from search.database.records import TuningRecord
from search.errors import TuningError
from search.measuring.flops import estimate_tir_flops
from search.measuring.measure_candidate import MeasureCandidate
from search.measuring.time_text import time_text
from search.reports.profiler import Profiler
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.runner.arguments import refuse_what_cannot_be_made_up
from search.runner.program_facts import ProgramFacts
from search.runner.reference_program import reference_program
from tensorir.text_table import aligned

if TYPE_CHECKING:
    from search.runs.name_winner import Confirmation
    from search.trials.report import TaskReport

FAILED_MS: Final = 1e9
"""The latency in milliseconds of a trial that failed."""

DONE: Final = "done"

_HEADER: Final = (
    "ID",
    "Name",
    "FLOP",
    "Weight",
    "Speed (GFLOPS)",
    "Latency (us)",
    "Weighted Latency (us)",
    "Gain (us)",
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
    ended: str = ""
    """What ended its search: `"done"`, `"time over"` or `"not begun"`; empty before the end."""
    is_exhausted: bool = False
    """True if the strategy found no candidate that was not measured."""
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
    first_ms: float = FAILED_MS
    """The latency that the search of the task began with, in whatever run; 1e9 where none did.

    It is that of the default schedule where the strategy measures that first."""
    build_seconds: float = 0.0
    """The seconds that the builds of all trials took, one after the other."""
    measure_seconds: float = 0.0
    """The seconds that their measurements took."""
    seconds: float = 0.0
    """The seconds of wall time that the task took, and its share of what the run began with."""
    best_history_ms: list[float] = field(default_factory=list)
    """The best latency after each batch."""
    winner: Confirmation | None = None
    """The best, measured again at the end of the run."""
    unscheduled: RunnerResult | None = None
    """The measurement of the unscheduled program, once the search is over."""
    first_again: float | None = None
    """The seconds of the first schedule where it was measured again beside the winner."""
    baselines: list[TuningRecord] = field(default_factory=list)
    """The records of what the winner is measured beside: the unscheduled program, serial forms."""
    initial: list[MeasureCandidate] = field(default_factory=list)
    """The schedules of the user that are still to be measured, before those of the strategy."""
    report: TaskReport | None = None
    """The findings, when the run is over."""
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
        ranked = with_schedules(best_records(known, len(known)))
        for best in islice((old for old, sch in ranked if ctx.allows(sch)), 1):
            record.known_ms = best.mean_seconds * 1e3
        for first in islice((old for old in known if old.is_valid), 1):
            record.first_ms = first.mean_seconds * 1e3
        record.batches = int(len(those_that_count(known)) / batch_size + 0.5)
        record.best_history_ms = [record.known_ms] if record.batches else []
        return record

    def __repr__(self) -> str:
        best = "nothing measured" if self.best_ms is None else time_text(self.best_ms / 1e3)
        return f'<TaskRecord "{self.ctx.task_name}": {self.trials} trials, {best}>'

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
    def gain_us(self) -> float | None:
        """The microseconds that a call of the whole takes less than it did; None if not known."""
        began = [ms for ms in (self.first_ms, *self.latency_ms) if ms < FAILED_MS]
        if self.best_ms is None or not began:
            return None
        return max(0.0, began[0] - self.best_ms) * 1e3 * self.task_weight

    @property
    def best_gflops(self) -> float | None:
        """The speed in GFLOPS at the best latency, None while no trial succeeded."""
        return None if self.best_ms is None else self.flop / self.best_ms / 1e6


def statistics_table(tasks: Sequence[TaskRecord]) -> str:
    """Return one row for each task, then the number of trials and the sum of latencies."""
    rows = [_HEADER, *(_row(k, task) for k, task in enumerate(tasks))]
    heading, *lines = aligned(rows, _HEADER, " | ").split("\n")
    width = len(heading)
    rule = "-" * (width + 2)
    measured = [task for task in tasks if task.best_ms is not None]
    trials = sum(task.trials for task in measured)
    latency = sum((task.best_ms or 0.0) * 1e3 * task.task_weight for task in measured)
    gain = sum(task.gain_us or 0.0 for task in measured)
    return "\n".join(
        [
            f" {heading} ",
            rule,
            *(f" {line:<{width}} " for line in lines),
            rule,
            f"Total trials: {trials}",
            f"Total latency (us): {latency:.6g}"
            + (f", at first {latency + gain:.6g}" if gain else ""),
        ]
    )


def _row(index: int, task: TaskRecord) -> tuple[str, ...]:
    best, speed = task.best_ms, task.best_gflops
    if best is None or speed is None:
        figures: tuple[str, ...] = ("N/A", "N/A", "N/A", "N/A")
    else:
        latency = best * 1e3
        gain = task.gain_us or 0.0
        figures = (
            f"{speed:.4f}",
            f"{latency:.4f}",
            f"{latency * task.task_weight:.4f}",
            f"{gain:.4f}",
        )
    return (
        str(index),
        task.ctx.task_name,
        str(int(task.flop)),
        str(int(task.task_weight)),
        *figures,
        str(task.trials),
        "Y" if task.ended == DONE else task.ended,
    )


class Batch:
    """The candidates of a task that are being measured.

    All builds start at once. Candidate k is measured when its result is asked for, as soon as it is
    built. Later ones are built meanwhile, where the runner says that this does not disturb it and
    building on all cores first would not be faster. So the order of measurements, and what is known
    at each, does not depend on how long builds take.

    A runner that measures many at the same time (`Runner.takes_batches`) is given all at once, and
    says in which order they end.
    """

    def __init__(
        self,
        task: TaskRecord,
        candidates: Sequence[MeasureCandidate],
        builder: Builder,
        runner: Runner,
    ) -> None:
        assert task.ctx.target is not None
        self.candidates = list(candidates)
        self.runner_futures = [
            RunnerFuture.on_demand(partial(self._measure, k)) for k in range(len(self.candidates))
        ]
        self._task = task
        self._runner = runner
        self._target = task.ctx.target
        cores = host.physical_cores()
        self._overlaps = (
            cores > 1 and runner.may_overlap(task.ctx.target) and task.is_faster_side_by_side(cores)
        )
        builder.beside_measuring = self._overlaps
        programs = [candidate.sch.mod for candidate in self.candidates]
        if task.reference is None:
            assert task.ctx.mod is not None
            programs.insert(0, reference_program(task.ctx.mod))
        with Profiler.timeit("SendToBuilder"):
            builds = builder.start([BuilderInput(mod, self._target) for mod in programs])
        if task.reference is None:
            task.reference, *builds = builds
        self.builds: list[BuilderFuture] = builds
        if runner.takes_batches:
            self.runner_futures = self._sent(runner)

    def _measure(self, k: int) -> RunnerResult:
        with Profiler.timeit("WaitForBuilder"):
            for build in () if self._overlaps else self.builds:
                build.result()
            reference = self._reference()
            result = self.builds[k].result()
        if result.artifact_path is None:
            return RunnerResult(error_msg=result.error_msg)
        with Profiler.timeit("Measure"):
            (future,) = self._runner.run([self._input(k, result.artifact_path, reference)])
            return future.result().checked()

    def _sent(self, runner: Runner) -> list[RunnerFuture]:
        """Give all candidates that can be built to a runner that measures many at the same time."""
        reference = self._reference()
        built = [build.result() for build in self.builds]
        paths = {k: one.artifact_path for k, one in enumerate(built) if one.artifact_path}
        sent = runner.run([self._input(k, path, reference) for k, path in paths.items()])
        futures = dict(zip(paths, sent, strict=True))
        return [
            futures.get(k) or RunnerFuture.ready(RunnerResult(error_msg=one.error_msg))
            for k, one in enumerate(built)
        ]

    def _input(self, k: int, artifact_path: str, reference: str) -> RunnerInput:
        best = self._task.best_ms
        return RunnerInput(
            artifact_path,
            self._target.kind,
            self.candidates[k].args_info,
            reference,
            best * 1e-3 if best is not None and self._may_be_ended_early else None,
            self._task.facts,
            self._task.ctx.input_data,
        )

    @property
    def _may_be_ended_early(self) -> bool:
        return self._task.ctx.objective.bounded_by_time

    def _reference(self) -> str:
        """Return the artifact of the unscheduled program, waiting for it if need be."""
        assert self._task.reference is not None
        result = self._task.reference.result()
        if result.artifact_path is None:
            raise TuningError(
                f'the program of task "{self._task.ctx.task_name}" cannot be built even '
                f"unscheduled:\n{result.error_msg}"
            )
        return result.artifact_path
