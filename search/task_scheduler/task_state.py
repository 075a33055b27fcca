"""The state of a task in a run: the statistics of its trials, and its row in the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from schedule import Schedule
from search.builder import BuilderFuture
from search.context import TuneContext
from search.database.best_records import best_records, latest_records, with_schedules
from search.database.records import TuningRecord
from search.runner import RunnerResult
from search.runner.arguments import ProgramFacts, check_values_exist
from search.runner.flops import estimate_tir_flops
from search.runner.measure_candidate import MeasureCandidate
from search.runner.time_call import time_text
from tensorir.text_table import aligned

if TYPE_CHECKING:
    from search.reports.report import TaskReport
    from search.runs.confirm_best import Confirmation

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
class TaskState:
    """A task of a run, with its weight in the objective and the statistics of its trials."""

    ctx: TuneContext
    task_weight: float = 1.0
    index: int = 0
    """The number of the task in its run."""
    spaces: Sequence[Schedule] = ()
    """The design spaces of its program."""
    trials_before: int = 0
    """The trials before the run was interrupted; `latency_ms` has only later ones."""
    failure: Exception | None = None
    """The error with which the task ended while the run continues."""
    flop: float = 1.0
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    """The facts about the unscheduled program for the runner."""
    ended: str = ""
    """The end of its search: `"done"`, `"time over"` or `"not begun"`; empty before."""
    is_exhausted: bool = False
    """True if the strategy is out of candidates."""
    batches: int = 0
    """The number of batches so far, including those of earlier runs."""
    errors: Counter[str] = field(default_factory=Counter)
    """The number of trials that ended with each error, by its last line."""
    latency_ms: list[float] = field(default_factory=list)
    """The latency of each trial; 1e9 for a trial that failed or was stopped."""
    known_ms: float = FAILED_MS
    """The best latency of earlier runs, else 1e9."""
    first_ms: float = FAILED_MS
    """The first latency of the task in an earlier run, else 1e9.

    It is that of the default schedule if the strategy measures that first."""
    build_seconds: float = 0.0
    """The sum of the build times of all trials."""
    measure_seconds: float = 0.0
    """The sum of their measurement times."""
    seconds: float = 0.0
    """The seconds of wall time of the task, with its share of the start of the run."""
    best_history_ms: list[float] = field(default_factory=list)
    """The best latency after each batch."""
    initial: list[MeasureCandidate] = field(default_factory=list)
    """The pending initial and default schedules, which come before those of the strategy."""
    reference: BuilderFuture | None = None
    """The build of the unscheduled program, from the first batch on."""
    winner: Confirmation | None = None
    """The best candidate, measured again at the end of the run."""
    unscheduled: RunnerResult | None = None
    """The measurement of the unscheduled program, once the search is over."""
    first_again: float | None = None
    """The seconds of the first schedule if it was measured again with the winner."""
    baselines: list[TuningRecord] = field(default_factory=list)
    """The records of the unscheduled program and of serial forms of parallel schedules."""
    report: TaskReport | None = None
    """The report of the task, when the run is over."""

    def begin(self, known: Sequence[TuningRecord] = (), batch_size: int = 64) -> TaskState:
        """Analyse the program, and enter the records of earlier runs; return the task.

        The records count as batches of `batch_size`, rounded. Raises TuningError for a program
        without random arguments.
        """
        ctx = self.ctx
        if ctx.mod is not None:
            self.flop = max(1.0, estimate_tir_flops(ctx.mod))
            self.facts = ProgramFacts.of(ctx.mod, ctx.has_cold_arguments)
            for func in ctx.mod.prim_funcs().values():
                check_values_exist(func, self.facts.values, ctx.input_data)
        ranked = with_schedules(best_records(known, len(known)))
        for best in islice((old for old, sch in ranked if ctx.allows(sch)), 1):
            self.known_ms = best.mean_seconds * 1e3
        for first in islice((old for old in known if old.is_valid), 1):
            self.first_ms = first.mean_seconds * 1e3
        self.batches = int(len(latest_records(known)) / batch_size + 0.5)
        self.best_history_ms = [self.known_ms] if self.batches else []
        return self

    def __repr__(self) -> str:
        best = "nothing measured" if self.best_ms is None else time_text(self.best_ms / 1e3)
        return f'<TaskState "{self.ctx.task_name}": {self.trials} trials, {best}>'

    @property
    def title(self) -> str:
        """The name of the task in messages."""
        return f'Task #{self.index} "{self.ctx.task_name}"'

    @property
    def is_terminated(self) -> bool:
        """True if its search is over."""
        return bool(self.ended)

    @property
    def trials(self) -> int:
        """The number of trials of the task in the run so far."""
        return self.trials_before + len(self.latency_ms)

    def is_faster_side_by_side(self, cores: int) -> bool:
        """Return True if it is faster to measure on one core while the others build.

        The alternative is to build on all cores first. The times of the trials so far decide;
        `cores` is at least 2.
        """
        beside = max(self.build_seconds / (cores - 1), self.measure_seconds)
        return beside <= self.build_seconds / cores + self.measure_seconds

    @property
    def trials_since_best(self) -> int:
        """The number of trials since the best one, or of all if none is the best."""
        best = min(self.latency_ms, default=FAILED_MS)
        if best >= self.known_ms:
            return len(self.latency_ms)
        return len(self.latency_ms) - 1 - self.latency_ms.index(best)

    @property
    def best_ms(self) -> float | None:
        """The best latency in milliseconds, None without a working trial."""
        if self.winner is not None:
            return self.winner.median * 1e3
        best = min([self.known_ms, *self.latency_ms])
        return None if best >= FAILED_MS else best

    @property
    def gain_us(self) -> float | None:
        """The microseconds by which a call of the whole model became faster; None if unknown."""
        began = [ms for ms in (self.first_ms, *self.latency_ms) if ms < FAILED_MS]
        if self.best_ms is None or not began:
            return None
        return max(0.0, began[0] - self.best_ms) * 1e3 * self.task_weight

    @property
    def best_gflops(self) -> float | None:
        """The speed in GFLOPS at the best latency, None without a working trial."""
        return None if self.best_ms is None else self.flop / self.best_ms / 1e6


def statistics_table(tasks: Sequence[TaskState]) -> str:
    """Return one row for each task, then the number of trials and the sum of latencies."""
    rows = [_HEADER, *map(_row, tasks)]
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


def _row(task: TaskState) -> tuple[str, ...]:
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
        str(task.index),
        task.ctx.task_name,
        str(int(task.flop)),
        str(int(task.task_weight)),
        *figures,
        str(task.trials),
        "Y" if task.ended == DONE else task.ended,
    )
