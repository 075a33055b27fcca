"""The candidates of a task on their way: built by many processes, measured in a certain order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from codegen.target import host
from search.builder import Builder, BuilderFuture, BuilderInput
from search.errors import TuningError
from search.reports.profiler import Profiler
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.runner.measure_candidate import MeasureCandidate
from search.runner.reference_program import reference_program
from search.task_scheduler.task_state import TaskState


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
        task: TaskState,
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
        ends_hopeless = self._task.ctx.objective.bounded_by_time
        return RunnerInput(
            artifact_path,
            self._target.kind,
            self.candidates[k].args_info,
            reference,
            best * 1e-3 if best is not None and ends_hopeless else None,
            self._task.facts,
            self._task.ctx.input_data,
            ends_hopeless,
        )

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
