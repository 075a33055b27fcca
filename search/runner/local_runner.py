"""Measuring in a worker process on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from search.runner.evaluator_config import EvaluatorConfig
from search.runner.measure import measure, measure_with
from search.runner.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.worker import Outcome
from search.worker_pool import Job, WorkerPool

logger = logging.getLogger("tvm.meta_schedule")


@Runner.kinds.register("local")
class LocalRunner(Runner):
    """Measures candidates one after another in one long-lived process.

    A candidate that takes longer than `timeout_sec` altogether is killed, one that brings the
    process down costs a new process; both are results with an error. `alloc_repeat` sets of
    arguments are made and timed. Where the input names a reference, its results are checked.

    `f_alloc_argument(device, args_info, alloc_repeat)` returns lists of arrays,
    `f_run_evaluator(module, device, evaluator_config, arguments)` seconds per call, and
    `f_cleanup()` runs after each candidate; like `initializer`, which the process calls at its
    start, they must be functions of a module that a worker can import. With any of the first two,
    results are not checked. `cooldown_sec` is accepted and unused.
    """

    def __init__(
        self,
        timeout_sec: float = 30.0,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        alloc_repeat: int = 1,
        f_alloc_argument: Callable[..., Any] | None = None,
        f_run_evaluator: Callable[..., Any] | None = None,
        f_cleanup: Callable[[], object] | None = None,
        initializer: Callable[[], object] | None = None,
    ) -> None:
        self.timeout_sec = timeout_sec
        self.evaluator_config = evaluator_config or EvaluatorConfig()
        self.cooldown_sec = cooldown_sec
        self.alloc_repeat = alloc_repeat
        self.f_alloc_argument = f_alloc_argument
        self.f_run_evaluator = f_run_evaluator
        self.f_cleanup = f_cleanup
        self._pool = WorkerPool(1, initializer)
        logger.info("LocalRunner: max_workers = 1")

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Return futures that measure when their result is asked for.

        So what has been measured can be stored before the next candidate starts. What one finds
        out about the best time counts for those asked later.
        """
        best = _BestTimes()
        return [_Measurement(self, entry, best).future() for entry in runner_inputs]

    def measure(self, entry: RunnerInput) -> RunnerResult:
        """Measure one candidate now."""
        (outcome,) = self._pool.run([self._job(entry)], self.timeout_sec)
        return _result(outcome)

    def _job(self, entry: RunnerInput) -> Job:
        args = [info.as_json() for info in entry.args_info]
        own = (self.f_alloc_argument, self.f_run_evaluator, self.f_cleanup)
        common = (entry.artifact_path, args, self.evaluator_config, self.alloc_repeat)
        if any(function is not None for function in own):
            return measure_with, (*common, *own)
        return measure, (*common, entry.reference_path, entry.best_seconds)

    @property
    def worker_pid(self) -> int | None:
        """The process that measures, None while there is none."""
        return next(iter(self._pool.pids), None)

    def warm_up(self) -> None:
        """Start the process."""
        self._pool.start()

    def close(self) -> None:
        """End the process; the next run starts a new one."""
        self._pool.close()


class _BestTimes(dict[str | None, float]):
    """The best time of those measured so far, by the program that they were made of."""

    def merged(self, entry: RunnerInput) -> RunnerInput:
        known = [t for t in (self.get(entry.reference_path), entry.best_seconds) if t is not None]
        return replace(entry, best_seconds=min(known, default=None))

    def note(self, entry: RunnerInput, result: RunnerResult) -> None:
        seconds = result.median_secs
        if seconds is not None:
            before = self.get(entry.reference_path, seconds)
            self[entry.reference_path] = min(before, seconds)


class _Measurement:
    """A candidate that is measured on demand, once."""

    def __init__(self, runner: LocalRunner, entry: RunnerInput, best: _BestTimes) -> None:
        self._runner = runner
        self._entry = entry
        self._best = best
        self._found: RunnerResult | None = None

    def future(self) -> RunnerFuture:
        return RunnerFuture(lambda: self._found is not None, self.result)

    def result(self) -> RunnerResult:
        if self._found is None:
            self._found = self._runner.measure(self._best.merged(self._entry))
            self._best.note(self._entry, self._found)
        return self._found


def _result(outcome: Outcome) -> RunnerResult:
    if outcome.status == "value":
        return RunnerResult(run_secs=outcome.value)
    if outcome.status == "timeout":
        return RunnerResult(error_msg=f"LocalRunner: Timeout, {outcome.value}\n")
    if outcome.status == "crash":
        return RunnerResult(error_msg=f"LocalRunner: Crash, {outcome.value}\n")
    return RunnerResult(error_msg=f"LocalRunner: An exception occurred\n{outcome.value}")
