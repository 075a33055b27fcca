"""The input and the result of a measurement."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from search.records.measure_error_no import MeasureErrorNo

if TYPE_CHECKING:
    from codegen import Target
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task


class MeasureInput(NamedTuple):
    """A configuration of a task, to be measured for a target."""

    target: Target
    task: Task
    config: ConfigEntity


class BuildResult(NamedTuple):
    """A configuration that was built: the artifact, and the arguments of the program.

    `arg_info` has ("TENSOR", dtype, shape) for each argument; `error` is None, since what cannot be
    built is a `MeasureResult`; `time_cost` are the seconds that it took.
    """

    filename: str
    arg_info: Sequence[Any]
    error: None
    time_cost: float


@dataclass(frozen=True)
class SlowerThan:
    """The cost of a configuration that was ended early: a run takes longer than `seconds`."""

    seconds: float

    def __str__(self) -> str:
        return (
            f"ended in its first call, which took longer than {self.seconds:.3g} s: it is not the "
            "best; LocalRunner(end_hopeless=False) times such ones too"
        )


class MeasureResult(NamedTuple):
    """The result of a measurement.

    `costs` are seconds per run, one for each repeat; after an error, what tells of it: logs have
    [1e9] then. One that was ended early is a RUN_TIMEOUT whose cost is a `SlowerThan`. `all_cost`
    is the wall time in seconds that building and running took together, `timestamp` the end of it
    in seconds since 1970.
    """

    costs: Sequence[Any]
    error_no: int
    all_cost: float
    timestamp: float

    def __repr__(self) -> str:
        return (
            f"MeasureResult(costs={self.costs}, error_no={MeasureErrorNo(self.error_no)!s}, "
            f"all_cost={self.all_cost}, timestamp={self.timestamp})"
        )

    @staticmethod
    def failed(
        error_no: MeasureErrorNo, reason: str | SlowerThan, all_cost: float = 0.0
    ) -> MeasureResult:
        """Return the result of a measurement that ended now with an error."""
        return MeasureResult((reason,), error_no, all_cost, time.time())

    @property
    def mean_cost(self) -> float:
        """The mean of the costs in seconds, infinite after an error."""
        if self.error_no != MeasureErrorNo.NO_ERROR:
            return float("inf")
        return float(sum(self.costs) / len(self.costs))

    @property
    def slower_than(self) -> float | None:
        """The least time of a run, in seconds, if it was ended early; else None."""
        known = self.costs[0] if self.costs else None
        return known.seconds if isinstance(known, SlowerThan) else None

    @property
    def least_cost(self) -> float:
        """The mean cost, or what it is at least: `slower_than`, infinite after other errors."""
        return self.mean_cost if self.slower_than is None else self.slower_than
