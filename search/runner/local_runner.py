"""The runner that measures in a process of this machine."""

from __future__ import annotations

import logging
import math
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from numpy.typing import NDArray

from codegen import Target, why_not_here
from codegen.worker_pool import Job, Outcome, WorkerPool
from search.builder.builder import ArtifactDirectory
from search.builder.core_split import CoreSplit, core_split
from search.errors import TuningError
from search.runner.arguments import ProgramFacts, write_given
from search.runner.measure import evaluate_reference, measure
from search.runner.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.runner.time_call import EnergyMeter, EvaluatorConfig, first_call_limit

logger = logging.getLogger("tensorir.search")

_REPEAT_MS: Final = 20
"""The default time for a candidate in milliseconds; noisy rivals get more time, and the best few
are measured again.

The times of 5, 10, 20 and 50 ms of the same call vary equally (1 to 2 %, the drift of the machine
from one candidate to the next), and choose an equally good best one of twelve.
"""
_REFERENCE_PATIENCE: Final = 10
"""The time limit of the unscheduled program, as a multiple of that of a candidate."""
_MAX_REFERENCES: Final = 128
"""The number of unscheduled programs whose results are kept."""


@Runner.kinds.register("local")
class LocalRunner(Runner):
    """Measures candidates one after another in one long-lived process.

    A candidate that runs longer than `timeout_sec` is killed. A crash costs a new process, which
    waits ready. Both are results with an error. If the first call of a candidate takes 10 times the
    best known time (and 50 ms), it is ended then: its result is `stopped`. Without
    `evaluator_config` each candidate is timed for 20 ms, after a first call. `alloc_repeat` sets of
    arguments are made and timed. Results are checked if the input names a reference.

    A candidate for a target of one core runs on a core that the search uses for nothing else, where
    this machine has several and the system can bind processes. `split` names this core, for several
    runners at the same time.

    `f_alloc_argument(device, args_info, alloc_repeat)` returns lists of arrays,
    `f_run_evaluator(module, device, evaluator_config, arguments)` seconds per call, and
    `f_cleanup()` runs after each candidate; the process calls `initializer` when it starts. They
    may be functions of a notebook or a script. With any of these but `initializer`, results are
    not checked.

    A candidate starts `cooldown_sec` seconds after the last one has ended; builds continue
    meanwhile. A pause is for boards that get hot: the times of a CPU that idles vary more.
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
        *,
        split: CoreSplit | None = None,
    ) -> None:
        self.timeout_sec = timeout_sec
        self.evaluator_config = evaluator_config or self.default_evaluator()
        if self.evaluator_config.energy:
            EnergyMeter()  # raises TuningError here if the counters cannot be read
        self.cooldown_sec = cooldown_sec
        self.alloc_repeat = alloc_repeat
        self.f_alloc_argument = f_alloc_argument
        self.f_run_evaluator = f_run_evaluator
        self.f_cleanup = f_cleanup
        self._split = split or core_split()
        starting = None if self._split is None else self._split.building
        self._pool = WorkerPool(1, initializer, spare=True, cores=starting, loads=measure)
        self._directory: ArtifactDirectory | None = None
        self._files = 0
        self._rested_at = 0.0
        """The end of the pause after the last candidate, on the monotonic clock."""
        self._references: dict[str, str | RunnerResult] = {}
        """The file with the results of each unscheduled program, or the reason for having none."""
        self._given: dict[int, tuple[Mapping[int, NDArray[Any]], str]] = {}
        """Arrays of the user, and the files that they were written to, by their identity."""
        logger.info("Candidates are measured on this machine, one after another")

    @staticmethod
    def default_evaluator() -> EvaluatorConfig:
        """Return the configuration that times a candidate for 20 ms."""
        return EvaluatorConfig(number=1, min_repeat_ms=_REPEAT_MS)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Return futures that measure when their result is asked for.

        So each result can be stored before the next candidate starts. The best time of the results
        so far counts for the following ones.
        """
        best: dict[str | None, float] = {}

        def measured(entry: RunnerInput) -> RunnerResult:
            known = [best.get(entry.reference_path, math.inf), entry.best_seconds or math.inf]
            least = min(known)
            result = self.measure(replace(entry, best_seconds=least if least < math.inf else None))
            best[entry.reference_path] = min(known[0], result.median_secs or math.inf)
            return result

        return [RunnerFuture.on_demand(partial(measured, entry)) for entry in runner_inputs]

    def measure(self, entry: RunnerInput) -> RunnerResult:
        """Measure one candidate, after the pause that follows the last one."""
        pause = self._rested_at - monotonic()
        if pause > 0:
            sleep(pause)
        try:
            return self._measure(entry)
        finally:
            self._rested_at = monotonic() + self.cooldown_sec

    def _measure(self, entry: RunnerInput) -> RunnerResult:
        own = (self.f_alloc_argument, self.f_run_evaluator, self.f_cleanup)
        if any(own):
            entry = replace(entry, reference_path=None, best_seconds=None)
        given = self._write_given(entry.input_data)
        if entry.reference_path is not None:
            facts = entry.facts or ProgramFacts()
            expected = self._expected_file(entry.reference_path, facts, given)
            if isinstance(expected, RunnerResult):
                return expected
            entry = replace(entry, reference_path=expected)
        args = (
            replace(entry, input_data={}),
            self.evaluator_config,
            self.alloc_repeat,
            self._split,
            given,
            *own,
        )
        return self._result(entry, (measure, args))

    def _write_given(self, arrays: Mapping[int, NDArray[Any]]) -> str | None:
        """Return the file with arrays of the user, written once; None if there are none."""
        if not arrays:
            return None
        if id(arrays) not in self._given:
            path = self._new_path()
            write_given(path, arrays)
            self._given[id(arrays)] = (arrays, path)
        return self._given[id(arrays)][1]

    def _new_path(self) -> str:
        self._directory = self._directory or ArtifactDirectory()
        self._files += 1
        return str(self._directory.path / f"{self._files}.npz")

    def _expected_file(
        self, reference_path: str, facts: ProgramFacts, given: str | None
    ) -> str | RunnerResult:
        """Return the file with the expected results, or the failure of the unscheduled program.

        The program runs once for all its candidates. Raises TuningError if it calls functions that
        the process does not have, or if an index that it reads from an array is out of bounds.
        """
        known = self._references.get(reference_path)
        if known is None:
            path = self._new_path()
            job = (evaluate_reference, (reference_path, path, facts, self._split, given))
            (outcome,) = self._pool.run([job], _REFERENCE_PATIENCE * self.timeout_sec)
            good = outcome.status == "value"
            if good and outcome.value is not None:
                raise TuningError(f"the program cannot be measured: {outcome.value}")
            known = path if good else _failure("the unscheduled program", outcome)
            if len(self._references) >= _MAX_REFERENCES:
                oldest = self._references.pop(next(iter(self._references)))
                if isinstance(oldest, str):
                    Path(oldest).unlink(missing_ok=True)
            self._references[reference_path] = known
        return known

    def _result(self, entry: RunnerInput, job: Job) -> RunnerResult:
        (outcome,) = self._pool.run([job], self.timeout_sec, alone=entry.cores != 1)
        limit = first_call_limit(entry.best_seconds)
        if outcome.ended_by == signal.SIGPROF and limit is not None:
            return RunnerResult(run_secs=(limit,), seconds=outcome.seconds, stopped=True)
        if outcome.status != "value":
            return _failure("the candidate", outcome)
        found: RunnerResult = outcome.value
        return replace(found, seconds=outcome.seconds)

    def why_not(self, target: Target) -> str | None:
        """Return why candidates cannot be measured; None with `f_run_evaluator`."""
        return None if self.f_run_evaluator is not None else why_not_here(target)

    def measures_here(self, target: Target) -> bool:
        """Return True for a CPU, unless an `f_run_evaluator` measures, possibly elsewhere."""
        return self.f_run_evaluator is None and target.gpu is None

    def may_overlap(self, target: Target) -> bool:
        """Return True if candidates have a core of their own, and no energy is counted."""
        if self.evaluator_config.energy:
            return False
        return target.num_cores == 1 and self._split is not None

    def warm_up(self) -> None:
        """Start the process."""
        self._pool.start()

    def close(self) -> None:
        """End the process and forget the references; the next run starts anew."""
        self._pool.close()
        self._references = {}
        self._given = {}
        if self._directory is not None:
            self._directory.remove()
            self._directory = None


def _failure(what: str, outcome: Outcome) -> RunnerResult:
    """Return the result of a job that ended without a value."""
    return RunnerResult(
        error_msg=outcome.failure("LocalRunner", what),
        seconds=outcome.seconds,
        ending=outcome.status,
    )
