"""Candidates on their way: built in the background, measured one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from codegen import host
from search.builder import BuilderInput
from search.errors import TuningError
from search.reports.profiler import Profiler
from search.runner import RunnerFuture, RunnerInput, RunnerResult
from search.runner.reference_program import reference_program

if TYPE_CHECKING:
    from search.builder import Builder, BuilderFuture
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import Runner
    from search.task_scheduler.task_record import TaskRecord


class Batch:
    """The candidates of a task that are being measured.

    All builds start at once. Candidate k is measured when its result is asked for, as soon as it is
    built. Later ones are built meanwhile, where the runner says that this does not disturb it and
    building on all cores first would not be faster. So the order of measurements, and what is known
    at each, does not depend on how long builds take.
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

    def _measure(self, k: int) -> RunnerResult:
        with Profiler.timeit("WaitForBuilder"):
            for build in () if self._overlaps else self.builds:
                build.result()
            reference = self._reference()
            result = self.builds[k].result()
        if result.artifact_path is None:
            return RunnerResult(error_msg=result.error_msg)
        best = self._task.best_ms
        entry = RunnerInput(
            result.artifact_path,
            self._target.kind,
            self.candidates[k].args_info,
            reference,
            None if best is None else best * 1e-3,
            self._task.facts,
            self._task.ctx.input_data,
        )
        with Profiler.timeit("Measure"):
            (future,) = self._runner.run([entry])
            return future.result().checked()

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
