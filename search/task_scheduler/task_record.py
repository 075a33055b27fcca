"""What a task scheduler knows of a task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from search.flops import estimate_tir_flops
from search.runner.program_facts import ProgramFacts

if TYPE_CHECKING:
    from search.builder import BuilderResult
    from search.context import TuneContext
    from search.measure_candidate import MeasureCandidate
    from search.runner import RunnerFuture

FAILED_MS: Final = 1e9
"""The latency in milliseconds of a trial that failed."""


@dataclass(eq=False)
class TaskRecord:
    """A task, its weight in the sum that is minimised, and what became of its trials."""

    ctx: TuneContext
    task_weight: float = 1.0
    flop: float = 1.0
    is_terminated: bool = False
    batches: int = 0
    """How many batches were sent to be measured."""
    build_error_count: int = 0
    run_error_count: int = 0
    latency_ms: list[float] = field(default_factory=list)
    """The latency of each trial; 1e9 for one that failed."""
    best_history_ms: list[float] = field(default_factory=list)
    """The best latency after each batch."""
    measure_candidates: list[MeasureCandidate] | None = None
    """The batch that is being measured, None between batches."""
    builder_results: list[BuilderResult] = field(default_factory=list)
    runner_futures: list[RunnerFuture] = field(default_factory=list)
    reference_path: str | None = None
    """The artifact of the unscheduled program."""
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    """What a runner has to know of that program."""

    @staticmethod
    def of(ctx: TuneContext, task_weight: float = 1.0) -> TaskRecord:
        """Return the record of a task that was not searched yet."""
        flop = 1.0 if ctx.mod is None else max(1.0, estimate_tir_flops(ctx.mod))
        facts = ProgramFacts() if ctx.mod is None else ProgramFacts.of(ctx.mod)
        return TaskRecord(ctx, task_weight, flop, facts=facts)

    @property
    def best_ms(self) -> float | None:
        """The best latency in milliseconds, None while no trial succeeded."""
        best = min(self.latency_ms, default=FAILED_MS)
        return None if best >= FAILED_MS else best

    @property
    def best_gflops(self) -> float | None:
        """The speed in GFLOPS at the best latency, None while no trial succeeded."""
        return None if self.best_ms is None else self.flop / self.best_ms / 1e6
