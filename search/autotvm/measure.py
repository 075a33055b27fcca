"""What is measured, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from codegen import Target
    from search.autotvm.entity import ConfigEntity
    from search.autotvm.task import Task


class MeasureErrorNo(IntEnum):
    """How a measurement ended, with the numbers that logs have."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    """The template refused the configuration."""
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    """It failed while it ran, or the worker that built it died."""
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


class MeasureInput(NamedTuple):
    """A configuration of a task, to be measured for a target."""

    target: Target
    task: Task
    config: ConfigEntity


class MeasureResult(NamedTuple):
    """What a measurement gave.

    `costs` are seconds per run, one for each repeat; after an error, what tells of it: logs have
    [1e9] then. `all_cost` is the wall time in seconds that building and running took together,
    `timestamp` the end of it in seconds since 1970.
    """

    costs: Sequence[Any]
    error_no: int
    all_cost: float
    timestamp: float

    @property
    def mean_cost(self) -> float:
        """The mean of the costs in seconds, infinite after an error."""
        if self.error_no != MeasureErrorNo.NO_ERROR:
            return float("inf")
        return float(sum(self.costs) / len(self.costs))
