"""Runners, which measure candidates, here or on other machines, and what they measure."""

from typing import TYPE_CHECKING

from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
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

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
