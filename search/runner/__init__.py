"""Runners, which measure candidates."""

from search.runner.evaluator_config import EvaluatorConfig
from search.runner.local_runner import LocalRunner
from search.runner.runner import (
    PyRunner,
    PyRunnerFuture,
    Runner,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)

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
