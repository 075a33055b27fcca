"""Building and measuring: the batches of a search, and a few programs outside of batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from codegen import Target
from codegen.target import host
from search.builder import Builder, BuilderFuture, BuilderInput
from search.context import TuneContext
from search.errors import TuningError
from search.reports.profiler import Profiler
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.runner.arguments import ProgramFacts
from search.runner.measure_candidate import MeasureCandidate
from search.runner.reference_program import reference_program, reference_target
from search.task_scheduler.task_state import TaskState
from tensorir.function import IRModule

logger = logging.getLogger("tensorir.search")


class Batch:
    """The candidates of a task that are being measured.

    All builds start at once. Candidate k is measured when its result is requested, as soon as it is
    built. Later candidates are built meanwhile if the runner allows that and if building on all
    cores first would not be faster. So the order of measurements, and the information that the
    search has at each of them, do not depend on the time of builds.

    A runner that measures many candidates at the same time (`Runner.takes_batches`) gets all of
    them at once, and returns them in the order in which they end.
    """

    def __init__(
        self,
        task: TaskState,
        candidates: Sequence[MeasureCandidate],
        builder: Builder,
        runner: Runner,
    ) -> None:
        self.candidates = list(candidates)
        self.runner_futures = [
            RunnerFuture.on_demand(partial(self._measure, k)) for k in range(len(self.candidates))
        ]
        self._task = task
        self._runner = runner
        target = task.ctx.known_target
        self._overlaps = _builds_beside(task, runner)
        builder.beside_measuring = self._overlaps
        programs = [BuilderInput(candidate.sch.mod, target) for candidate in self.candidates]
        if task.reference is None:
            reference = reference_program(task.ctx.program)
            programs.insert(0, BuilderInput(reference, reference_target(target)))
        with Profiler.timeit("SendToBuilder"):
            builds = builder.start(programs)
        if task.reference is None:
            task.reference, *builds = builds
        self.builds: list[BuilderFuture] = builds
        if runner.takes_batches:
            self.runner_futures = self._send_all(runner)

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

    def _send_all(self, runner: Runner) -> list[RunnerFuture]:
        """Send all successfully built candidates to a runner that measures many at once."""
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
        task = self._task
        entry = runner_input(task.ctx, self.candidates[k], task.facts, reference, task.best_ms)
        if not task.ctx.objective.bounded_by_time:
            entry = replace(entry, best_seconds=None, ends_hopeless=False)
        return replace(entry, artifact_path=artifact_path)

    def _reference(self) -> str:
        """Return the artifact of the unscheduled program, once it is built."""
        assert self._task.reference is not None
        result = self._task.reference.result()
        if result.artifact_path is None:
            raise TuningError(
                f'the program of task "{self._task.ctx.task_name}" cannot be built even '
                f"unscheduled:\n{result.error_msg}"
            )
        return result.artifact_path


def disturbs_measuring(task: TaskState, runner: Runner) -> bool:
    """Return True if nothing may be measured while the candidates of a task are built."""
    return not runner.takes_batches and not _builds_beside(task, runner)


def _builds_beside(task: TaskState, runner: Runner) -> bool:
    """Return True if candidates are built on some cores while others are measured."""
    cores = host.physical_cores()
    may = cores > 1 and runner.may_overlap(task.ctx.known_target)
    return may and task.is_faster_side_by_side(cores)


def runner_input(
    context: TuneContext,
    candidate: MeasureCandidate,
    facts: ProgramFacts | None,
    reference: str | None = None,
    best_ms: float | None = None,
) -> RunnerInput:
    """Return the input of a runner for a candidate that is not built yet.

    Its results are compared with those of the artifact `reference`, if that is given. The runner
    may stop when it is certainly slower than `best_ms` milliseconds. Raises TuningError for a
    context without a target.
    """
    return RunnerInput(
        "",
        context.known_target.kind,
        candidate.args_info,
        reference,
        None if best_ms is None else best_ms * 1e-3,
        facts,
        context.input_data,
        cores=context.known_target.num_cores,
    )


@contextmanager
def built_inputs(
    builder: Builder, target: Target, programs: Sequence[tuple[IRModule, RunnerInput]]
) -> Iterator[dict[int, RunnerInput]]:
    """Build programs, and yield their runner inputs with artifacts, by position.

    Programs that do not build are left out. The artifacts are removed after the `with` statement.
    """
    built = builder.build([BuilderInput(mod, target) for mod, _ in programs])
    entries: dict[int, RunnerInput] = {}
    for place, ((_, entry), result) in enumerate(zip(programs, built, strict=True)):
        if result.artifact_path is not None:
            entries[place] = replace(entry, artifact_path=result.artifact_path)
        else:
            logger.info("A program is not measured, it does not build: %s", result.error_msg)
    try:
        yield entries
    finally:
        for entry in entries.values():
            builder.remove_artifact(entry.artifact_path)


def interleaved_rounds(
    runner: Runner, entries: dict[int, RunnerInput]
) -> Iterator[dict[int, list[RunnerResult]]]:
    """Measure all entries once in each round, and yield the results of all rounds so far.

    An entry that fails in a round is left out from then on.
    """
    rounds: dict[int, list[RunnerResult]] = {place: [] for place in entries}
    while rounds:
        for place in list(rounds):
            (future,) = runner.run([entries[place]])
            result = future.result()
            if result.median_secs is not None:
                rounds[place].append(result)
            else:
                del rounds[place]
                logger.info("A program failed and is not measured again: %s", result.error_msg)
        yield rounds
