"""Runners, which measure candidates."""

from search.runner.runner import (
    LocalRunner,
    PyRunner,
    PyRunnerFuture,
    Runner,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)
from search.runner.time_call import EvaluatorConfig

__all__ = [
    "EvaluatorConfig",
    "LocalRunner",
    "PyRunner",
    "PyRunnerFuture",
    "Runner",
    "RunnerFuture",
    "RunnerInput",
    "RunnerResult",
]
