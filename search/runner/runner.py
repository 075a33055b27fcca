"""The base class of runners, with their input and result."""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from numpy.typing import NDArray

from search.kinds import Kinds
from search.runner.program_facts import ProgramFacts
from search.workers.future import Future

if TYPE_CHECKING:
    from codegen import Target
    from search.arg_info import ArgInfo
    from search.workers.worker import Ending


@dataclass(frozen=True)
class RunnerInput:
    """The input of a run: an artifact of a builder, the device, and the arguments.

    `reference_path` is the artifact of the unscheduled program, whose results the candidate's are
    compared with, or a file that `Reference.save` wrote; None leaves that out. `best_seconds` is
    the best time so far, from which a runner may see early that a candidate is no rival. `facts`
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


@dataclass(frozen=True)
class RunnerResult:
    """Times in seconds per call, or the error; exactly one of the two is set."""

    run_secs: tuple[float, ...] | None = None
    error_msg: str | None = None
    seconds: float = 0.0
    """The wall time that measuring took."""
    stopped: bool = False
    """Ended as soon as it was certain that this is not the best; `run_secs` is a lower bound."""
    stage: Literal["run", "check"] = "run"
    """The step that found a failure: running the candidate or checking its results."""
    ending: Ending = "value"
    """The end of the job that the measurement was, where it was one."""

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
        return RunnerResult(
            error_msg=f"the runner reported {self.run_secs} seconds; times are finite and above 0",
            seconds=self.seconds,
        )


class RunnerFuture(Future[RunnerResult]):
    """A measurement that may still be on its way."""


class Runner(ABC):
    """Measures the artifacts of a builder."""

    kinds: ClassVar[Kinds[Runner]] = Kinds("runner")

    @staticmethod
    def create(kind: str | type[Runner] | Runner = "local", *args: Any, **kwargs: Any) -> Runner:
        """Return a runner: `"local"`."""
        return Runner.kinds.part(kind, *args, **kwargs)

    @abstractmethod
    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Start measuring; one that fails costs nothing but its own result."""

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
