"""Runners, which measure candidates."""

from search.runner.local_runner import LocalRunner
from search.runner.runner import (
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
