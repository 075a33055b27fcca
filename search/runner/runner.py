"""Runners: the base class with its input and result, and the one with a process of its own."""

from __future__ import annotations

import logging
import math
import signal
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from numpy.typing import NDArray

from codegen import Target, why_not_here
from search.builder.artifact_directory import ArtifactDirectory
from search.builder.core_split import CoreSplit, core_split
from search.builder.future import Future
from search.builder.worker import Ending, Outcome
from search.builder.worker_pool import Job, WorkerPool
from search.errors import TuningError
from search.kinds import Registry
from search.runner.arguments import write_given
from search.runner.check_results import REFERENCE_SUFFIX
from search.runner.energy import EnergyMeter
from search.runner.measure import evaluate_reference, measure, measure_with
from search.runner.program_facts import ProgramFacts
from search.runner.time_call import EvaluatorConfig, first_call_limit

if TYPE_CHECKING:
    from search.arg_info import ArgInfo
    from search.builder import Builder

logger = logging.getLogger("tensorir.search")

_REPEAT_MS: Final = 20
"""The milliseconds that a candidate is timed by default; rivals in noise longer, winners again.

Times of 5, 10, 20 and 50 ms of the same call differ from one another by as much (1 to 2 %, the
drift of the machine from one candidate to the next), and choose as good a best one of twelve.
"""
_REFERENCE_PATIENCE: Final = 10
"""The factor to the timeout of candidates for which the unscheduled program may run."""


@dataclass(frozen=True)
class RunnerInput:
    """The input of a run: an artifact of a builder, the device, and the arguments.

    `reference_path` is the artifact of the unscheduled program, whose results the candidate's are
    compared with, or a file that `Reference.save` wrote; None leaves that out. `best_seconds` is
    the best time so far, from which a runner may see early that a candidate is no rival; without
    `ends_hopeless` no candidate is ended early, whatever a runner knows itself. `facts`
    are those of the unscheduled program. `input_data` are the arguments that are not to be made
    up, by their positions, in the layouts that the unscheduled program takes; the same mapping for
    all candidates of a task.
    """

    artifact_path: str
    device_type: str
    args_info: Sequence[ArgInfo]
    reference_path: str | None = None
    best_seconds: float | None = None
    facts: ProgramFacts | None = None
    input_data: Mapping[int, NDArray[Any]] = field(default_factory=dict, compare=False)
    ends_hopeless: bool = True


@dataclass(frozen=True)
class RunnerResult:
    """Times in seconds per call, or the error; exactly one of the two is set."""

    run_secs: tuple[float, ...] | None = None
    error_msg: str | None = None
    seconds: float = 0.0
    """The wall time that measuring took."""
    stopped: bool = False
    """Ended as soon as it was certain that this is not the best; `run_secs` is a lower bound."""
    joules: float | None = None
    """The energy of a call, of a runner that was asked to count it."""
    stage: Literal["build", "run", "check"] = "run"
    """The step that found a failure: running the candidate or checking its results.

    Or building it, for a runner whose machines build what they measure."""
    ending: Ending = "value"
    """The end of the job that the measurement was, where it was one."""
    build_seconds: float = 0.0
    """The wall time that building took, for a runner whose machines build what they measure."""
    machine: str | None = None
    """The machine that measured, where it was another one."""

    @property
    def median_secs(self) -> float | None:
        """The median of the times; None for a failure, and for times that no program has."""
        if not self.run_secs or not all(0 < s < math.inf for s in self.run_secs):
            return None
        return statistics.median(self.run_secs)

    def checked(self) -> RunnerResult:
        """Return this result, or a failure where it has times that no program has."""
        if self.error_msg is not None or self.median_secs is not None:
            return self
        return replace(
            self,
            run_secs=None,
            error_msg=f"the runner reported {self.run_secs} seconds; times are finite and above 0",
            stopped=False,
        )


class RunnerFuture(Future[RunnerResult]):
    """A measurement that may still be on its way."""


class Runner(ABC):
    """Measures the artifacts of a builder."""

    kinds: ClassVar[Registry[Runner]] = Registry(
        "runner", {"dask://": "search.runner.distributed.dask_runner"}
    )

    takes_batches: bool = False
    """True if it measures many candidates at the same time: it is given a batch at once."""

    @staticmethod
    def create(kind: str | type[Runner] | Runner = "local", *args: Any, **kwargs: Any) -> Runner:
        """Return a runner: `"local"`, or `"dask://host:8786"` for the machines of a scheduler."""
        return Runner.kinds.part(kind, *args, **kwargs)

    @abstractmethod
    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Start measuring; one that fails costs nothing but its own result."""

    def as_they_end(
        self, futures: Sequence[RunnerFuture], is_over: Callable[[], bool]
    ) -> Iterator[int]:
        """Yield the places of measurements in the order in which their results are to be taken.

        It is that of the candidates, for a runner that does not say more. It ends early when
        `is_over`.
        """
        for place in range(len(futures)):
            if is_over():
                return
            yield place

    def in_one_place(self) -> Runner:
        """Return a runner whose times may be compared closely: all are of one machine."""
        return self

    def own_builder(self) -> Builder | None:
        """Return the builder whose artifacts it measures, None if `"local"` ones will do."""
        return None

    def why_not(self, target: Target) -> str | None:
        """Return why candidates for `target` cannot be measured, a sentence; None if they can.

        A search asks before it begins. A runner that does not say more measures anything.
        """
        return None

    def measures_here(self, target: Target) -> bool:
        """Say whether candidates for `target` run on this machine.

        A search then goes by what this machine was measured to do. A runner that does not say more
        may measure anywhere.
        """
        return False

    def may_overlap(self, target: Target) -> bool:
        """Say whether measuring a candidate for `target` is not disturbed by builds that go on.

        A runner that does not say more claims all cores of this machine.
        """
        return False

    def warm_up(self) -> None:
        """Start worker processes and the like, without waiting for them."""

    def close(self) -> None:
        """Free the resources of the runner; it can be used again."""


PyRunner = Runner
"""The base class under the name that it has for user classes in TVM."""
PyRunnerFuture = RunnerFuture


@Runner.kinds.register("local")
class LocalRunner(Runner):
    """Measures candidates one after another in one long-lived process.

    A candidate that takes longer than `timeout_sec` altogether is killed, one that brings the
    process down costs a new process, which waits ready; both are results with an error. One whose
    first call takes 10 times as long as the best known time (and 50 ms) is ended then: its result
    is `stopped`. Without `evaluator_config` each is timed for 20 ms, and for a call beside the
    first. `alloc_repeat` sets of arguments are made and timed. Where the input names a reference,
    results are checked.

    A candidate for a target of one core runs on a core that nothing else of the search runs on,
    where this machine has several and the system can bind processes. `split` says which one, for
    several runners at the same time.

    `f_alloc_argument(device, args_info, alloc_repeat)` returns lists of arrays,
    `f_run_evaluator(module, device, evaluator_config, arguments)` seconds per call, and
    `f_cleanup()` runs after each candidate; the process calls `initializer` at its start. They may
    be functions of a notebook or a script. With any of the first two, results are not checked.

    A candidate starts `cooldown_sec` seconds after the one before has ended; builds go on
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
            EnergyMeter()
        self.cooldown_sec = cooldown_sec
        self.alloc_repeat = alloc_repeat
        self.f_alloc_argument = f_alloc_argument
        self.f_run_evaluator = f_run_evaluator
        self.f_cleanup = f_cleanup
        self._split = split or core_split()
        starting = None if self._split is None else self._split.building
        self._pool = WorkerPool(1, initializer, spares=1, cores=starting, loads=measure)
        self._directory: ArtifactDirectory | None = None
        self._rested_at = 0.0
        """The end of the pause after the last candidate, on the monotonic clock."""
        self._references: dict[str, str | RunnerResult] = {}
        """The file with the results of each unscheduled program, or the reason for having none."""
        self._given: dict[int, tuple[Mapping[int, NDArray[Any]], str]] = {}
        """Arrays of the user, and the files that they were written to, by their identity."""
        logger.info("Candidates are measured on this machine, one after another")

    @staticmethod
    def default_evaluator() -> EvaluatorConfig:
        """Return how long a candidate is timed where nobody says more."""
        return EvaluatorConfig(number=1, min_repeat_ms=_REPEAT_MS)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Return futures that measure when their result is asked for.

        So what has been measured can be stored before the next candidate starts. What one finds
        out about the best time counts for those asked later.
        """
        best: dict[str | None, float] = {}

        def measured(entry: RunnerInput) -> RunnerResult:
            known = [best.get(entry.reference_path, math.inf), entry.best_seconds or math.inf]
            least = min(known)
            result = self.measure(replace(entry, best_seconds=least if least < math.inf else None))
            best[entry.reference_path] = min(known[0], result.median_secs or math.inf)
            return result

        return [RunnerFuture.on_demand(partial(measured, entry)) for entry in runner_inputs]

    @property
    def known_references(self) -> int:
        """The number of unscheduled programs whose results are kept until `close`."""
        return len(self._references)

    def measure(self, entry: RunnerInput) -> RunnerResult:
        """Measure one candidate now, or when the pause after the last one is over."""
        pause = self._rested_at - monotonic()
        if pause > 0:
            sleep(pause)
        try:
            return self._measured(entry)
        finally:
            self._rested_at = monotonic() + self.cooldown_sec

    def _measured(self, entry: RunnerInput) -> RunnerResult:
        own = (self.f_alloc_argument, self.f_run_evaluator, self.f_cleanup)
        args = [info.as_json() for info in entry.args_info]
        config = self.evaluator_config
        common = (entry.artifact_path, args, config, self.alloc_repeat, self._split)
        facts, given = entry.facts or ProgramFacts(), self._written(entry.input_data)
        fill = facts.fill(given=given)
        if any(function is not None for function in own):
            return self._result(entry, (measure_with, (*common, fill, *own)))
        expected = None
        if entry.reference_path is not None:
            expected = self._expected(entry.reference_path, facts, given)
            if isinstance(expected, RunnerResult):
                return expected
        return self._result(entry, (measure, (*common, expected, entry.best_seconds, fill)))

    def _written(self, arrays: Mapping[int, NDArray[Any]]) -> str | None:
        """Return the file with arrays of the user, written once; None if there are none."""
        if not arrays:
            return None
        if id(arrays) not in self._given:
            path = self._path(f"given_{len(self._given)}")
            write_given(path, arrays)
            self._given[id(arrays)] = (arrays, path)
        return self._given[id(arrays)][1]

    def _path(self, name: str) -> str:
        self._directory = self._directory or ArtifactDirectory()
        return str(self._directory.path / f"{name}{REFERENCE_SUFFIX}")

    def _expected(
        self, reference_path: str, facts: ProgramFacts, given: str | None
    ) -> str | RunnerResult:
        """Return the path of what to expect, or why there is none; run a program for it once.

        Raises TuningError for a program that calls functions which the process does not have, and
        for one that reads or writes outside of an array because of what is in another.
        """
        if Path(reference_path).suffix == REFERENCE_SUFFIX:
            return reference_path
        known = self._references.get(reference_path)
        if known is None:
            path = self._path(str(len(self._references)))
            job = (evaluate_reference, (reference_path, path, facts, self._split, given))
            (outcome,) = self._pool.run([job], _REFERENCE_PATIENCE * self.timeout_sec)
            good = outcome.status == "value"
            if good and outcome.value is not None:
                raise TuningError(f"the program cannot be measured: {outcome.value}")
            known = path if good else _failure("the unscheduled program", outcome)
            self._references[reference_path] = known
        return known

    def _result(self, entry: RunnerInput, job: Job) -> RunnerResult:
        (outcome,) = self._pool.run([job], self.timeout_sec)
        limit = first_call_limit(entry.best_seconds)
        if outcome.ended_by == signal.SIGPROF and limit is not None:
            return RunnerResult(run_secs=(limit,), seconds=outcome.seconds, stopped=True)
        if outcome.status != "value":
            return _failure("the candidate", outcome)
        if outcome.value.wrong is not None:
            text = f"LocalRunner: Wrong result, {outcome.value.wrong}"
            return RunnerResult(error_msg=text, seconds=outcome.seconds, stage="check")
        return RunnerResult(
            run_secs=outcome.value.seconds, seconds=outcome.seconds, joules=outcome.value.joules
        )

    def why_not(self, target: Target) -> str | None:
        """Return why candidates cannot run here; with `f_run_evaluator` they may run elsewhere."""
        return None if self.f_run_evaluator is not None else why_not_here(target)

    def measures_here(self, target: Target) -> bool:
        """Say whether candidates run here: they do but for those of an `f_run_evaluator`."""
        return self.f_run_evaluator is None

    def may_overlap(self, target: Target) -> bool:
        """Say whether candidates have a core of their own, and no energy is counted."""
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
    kinds = {"error": f"An exception occurred in {what}\n"}
    kind = kinds.get(outcome.status, f"{outcome.status.capitalize()} of {what}, ")
    return RunnerResult(
        error_msg=f"LocalRunner: {kind}{outcome.value}",
        seconds=outcome.seconds,
        ending=outcome.status,
    )
