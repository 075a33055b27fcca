"""The base class of runners, with its input and result."""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from numpy.typing import NDArray

from codegen import Target
from codegen.worker_pool import Ending
from search.kinds import Registry

if TYPE_CHECKING:
    from search.arg_info import ArgInfo
    from search.builder import Builder
    from search.runner.arguments import ProgramFacts


@dataclass(frozen=True)
class RunnerInput:
    """The input of a run: an artifact of a builder, the kind of device, and the arguments."""

    artifact_path: str
    device_type: str
    args_info: Sequence[ArgInfo]
    reference_path: str | None = None
    """The artifact of the unscheduled program, with whose results the results are compared."""
    best_seconds: float | None = None
    """The best time so far: a runner may stop a candidate that is certainly slower."""
    facts: ProgramFacts | None = None
    """The facts of the unscheduled program."""
    input_data: Mapping[int, NDArray[Any]] = field(default_factory=dict, compare=False)
    """Arrays of the user by positions, in the layouts of the unscheduled program.

    All candidates of a task share this mapping.
    """
    ends_hopeless: bool = True
    """False if every candidate is timed in full, regardless of the best time so far."""
    cores: int | None = None
    """The number of cores for which the artifact was built, None if it is not known."""


@dataclass(frozen=True)
class RunnerResult:
    """Times in seconds per call, or the error; exactly one of the two is set."""

    run_secs: tuple[float, ...] | None = None
    error_msg: str | None = None
    seconds: float = 0.0
    """The wall time of the measurement."""
    stopped: bool = False
    """True if it was ended because it cannot be the best; `run_secs` is then a lower bound."""
    joules: float | None = None
    """The energy of a call, if the runner was configured to count it."""
    stage: Literal["build", "run", "check"] = "run"
    """The step that failed. Only runners whose machines build what they measure set "build"."""
    ending: Ending = "value"
    """The end of the job in the worker process."""
    build_seconds: float = 0.0
    """The wall time of the build, for a runner whose machines build what they measure."""
    machine: str | None = None
    """The machine that measured; None for this one."""

    @property
    def median_secs(self) -> float | None:
        """The median of the times; None after a failure, and for times that are not positive."""
        if not self.run_secs or not all(0 < s < math.inf for s in self.run_secs):
            return None
        return statistics.median(self.run_secs)

    def checked(self) -> RunnerResult:
        """Return this result, or a failure if it has neither an error nor valid times."""
        if self.error_msg is not None or self.median_secs is not None:
            return self
        return replace(
            self,
            run_secs=None,
            error_msg=f"the runner reported {self.run_secs} seconds; times are finite and above 0",
            stopped=False,
        )


class RunnerFuture:
    """A measurement that may not have begun yet."""

    def __init__(
        self,
        f_done: Callable[[], bool],
        f_result: Callable[[], RunnerResult],
        f_give_up: Callable[[], object] = lambda: None,
    ) -> None:
        self.done = f_done
        """Return True if the result exists."""
        self.result = f_result
        """Wait for the result and return it."""
        self.give_up = f_give_up
        """Cancel the measurement if it has not begun: its result will not be used."""

    @classmethod
    def ready(cls, result: RunnerResult) -> Self:
        """Return a future of a result that exists."""
        return cls(lambda: True, lambda: result)

    @classmethod
    def on_demand(cls, measure: Callable[[], RunnerResult]) -> Self:
        """Return a future that measures when `result` is called for the first time."""
        found: list[RunnerResult] = []

        def result() -> RunnerResult:
            if not found:
                found.append(measure())
            return found[0]

        return cls(lambda: bool(found), result)


class Runner(ABC):
    """Measures the artifacts of a builder."""

    kinds: ClassVar[Registry[Runner]] = Registry(
        "runner",
        {
            "local": "search.runner.local_runner",
            "dask://": "search.runner.distributed.dask_runner",
        },
    )

    takes_batches: bool = False
    """True if it measures many candidates at the same time, so that it gets whole batches."""

    @staticmethod
    def create(kind: str | type[Runner] | Runner = "local", *args: Any, **kwargs: Any) -> Runner:
        """Return a runner: `"local"`, or `"dask://host:8786"` for the machines of a scheduler."""
        return Runner.kinds.part(kind, *args, **kwargs)

    @abstractmethod
    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Start measuring. A failed candidate has a result, and does not affect the others."""

    def as_they_end(
        self, futures: Sequence[RunnerFuture], is_over: Callable[[], bool]
    ) -> Iterator[int]:
        """Yield the indices of futures in the order in which to request their results.

        The default is their own order. Stops early once `is_over` returns True.
        """
        for place in range(len(futures)):
            if is_over():
                return
            yield place

    def in_one_place(self) -> Runner:
        """Return a runner that measures on one machine only, so that times are comparable."""
        return self

    def own_builder(self) -> Builder | None:
        """Return the builder that this runner needs; None if a `LocalBuilder` suffices."""
        return None

    def why_not(self, target: Target) -> str | None:
        """Return a sentence with the reason if candidates for `target` cannot be measured."""
        return None

    def measures_here(self, target: Target) -> bool:
        """Return True if candidates for `target` run on the CPU of this machine."""
        return False

    def may_overlap(self, target: Target) -> bool:
        """Return True if builds on this machine do not disturb measurements for `target`."""
        return False

    def warm_up(self) -> None:
        """Start worker processes and the like, without waiting for them."""

    def close(self) -> None:
        """Free the resources of the runner; it can be used again."""


PyRunner = Runner
"""The name of the base class for user classes in TVM."""
PyRunnerFuture = RunnerFuture
