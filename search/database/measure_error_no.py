"""The endings of a measurement, with the numbers that the logs of AutoTVM and Ansor have."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from search.builder import BuilderResult
    from search.builder.worker_pool import Ending
    from search.runner import RunnerResult


class MeasureErrorNo(IntEnum):
    """The ending of a measurement, with the number that logs have."""

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

    @staticmethod
    def of_build(result: BuilderResult) -> MeasureErrorNo:
        """Return the number of the ending of a build."""
        if result.error_msg is None:
            return MeasureErrorNo.NO_ERROR
        return _OF_BUILD.get(result.ending, MeasureErrorNo.COMPILE_HOST)

    @staticmethod
    def of_run(result: RunnerResult) -> MeasureErrorNo:
        """Return the number of the ending of a run; one that was ended early is a RUN_TIMEOUT."""
        if result.stopped:
            return MeasureErrorNo.RUN_TIMEOUT
        if result.error_msg is None:
            return MeasureErrorNo.NO_ERROR
        if result.stage == "check":
            return MeasureErrorNo.WRONG_ANSWER
        if result.stage == "build":
            return _OF_BUILD.get(result.ending, MeasureErrorNo.COMPILE_HOST)
        return _OF_RUN.get(result.ending, MeasureErrorNo.UNKNOWN_ERROR)

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


_OF_BUILD: Final[Mapping[Ending, MeasureErrorNo]] = {
    "timeout": MeasureErrorNo.BUILD_TIMEOUT,
    "crash": MeasureErrorNo.RUNTIME_DEVICE,
    "lost": MeasureErrorNo.RUNTIME_DEVICE,
    "cancelled": MeasureErrorNo.RUNTIME_DEVICE,
}
_OF_RUN: Final[Mapping[Ending, MeasureErrorNo]] = {
    "timeout": MeasureErrorNo.RUN_TIMEOUT,
    "error": MeasureErrorNo.RUNTIME_DEVICE,
    "crash": MeasureErrorNo.RUNTIME_DEVICE,
}
