"""Several tasks that share trials, as the subprograms of a network do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from search import task_scheduler
from search.compat.auto_scheduler.history import to_database
from search.compat.auto_scheduler.options import TuningOptions
from search.compat.auto_scheduler.policy import SketchPolicy, make_policies, measured_search
from search.compat.auto_scheduler.search_task import SearchTask
from search.database import MemoryDatabase
from search.database.records import FAILED
from search.errors import TuningError
from search.kinds import instances
from search.measure_callback import MeasureCallback
from search.task_scheduler import GradientBased, RoundRobin

_STRATEGIES: Final = ("gradient", "round-robin")


class TaskScheduler:
    """Shares the trials of a search among tasks so that an objective falls most.

    The objective is `objective_func` of the latencies in seconds, a number for each task in their
    order; without it their sum by `task_weights` (None: each counts once). `strategy` `"gradient"`
    works on the task that promises most, `"round-robin"` on one after another. `alpha` says how
    much the last `backward_window_size` batches count for the promise, `beta` how near to the speed
    of similar tasks one is expected to come; see `search.task_scheduler.GradientBased`, which does
    the work.

    `load_log_file` is a log to go on with: its records are not measured again, they count as
    batches of their tasks, and the cost model learns from them; the trials of `tune` are further
    ones. `load_model_file` is a file that the cost model was saved to. `callbacks` are told about
    measurements, `PrintTableInfo()` and `LogEstimatedLatency(path)` for instance; the table of all
    tasks is shown in any case where `verbose` is not 0.
    """

    def __init__(
        self,
        tasks: Iterable[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Callable[[Sequence[float]], float] | None = None,
        strategy: str = "gradient",
        load_model_file: str | os.PathLike[str] | None = None,
        load_log_file: str | os.PathLike[str] | None = None,
        *,
        alpha: float = 0.2,
        beta: float = 2,
        backward_window_size: int = 3,
        callbacks: Sequence[MeasureCallback] | None = None,
    ) -> None:
        if strategy not in _STRATEGIES:
            raise TuningError(f"strategy is 'gradient' or 'round-robin', got {strategy!r}")
        self.tasks: list[SearchTask] = instances(SearchTask, "tasks", tasks)
        if not self.tasks:
            raise TuningError("there is nothing to tune: the list of tasks is empty")
        self.task_weights = [1.0] * len(self.tasks) if task_weights is None else list(task_weights)
        if len(self.task_weights) != len(self.tasks):
            raise TuningError(
                f"{len(self.tasks)} tasks need as many weights, got {len(self.task_weights)}"
            )
        self.load_model_file = load_model_file
        self.callbacks = instances(MeasureCallback, "callbacks", callbacks or [])
        self.database = MemoryDatabase()
        """The measurements of this search and those of the log."""
        if load_log_file is not None:
            to_database(load_log_file, self.database)
        self._scheduler: task_scheduler.TaskScheduler = (
            RoundRobin(objective_func=objective_func)
            if strategy == "round-robin"
            else GradientBased(
                alpha=alpha,
                beta=beta,
                window_size=backward_window_size,
                objective_func=objective_func,
            )
        )

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: str | Sequence[SketchPolicy] = "default",
        search_policy_params: Mapping[str, Any] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Search all tasks with `tune_option.num_measure_trials` trials together.

        `search_policy` is `"default"`, which is `"sketch.xgb"`, `"sketch.random"`, or a policy for
        each task; all share one cost model. `search_policy_params` and `adaptive_training` are for
        policies that are made here. A task is left alone after `per_task_early_stopping` trials
        that did not make it better. TuningError for less than one trial for each task.
        """
        size = min(
            tune_option.num_measures_per_round,
            tune_option.num_measure_trials // len(self.tasks),
        )
        if size < 1:
            raise TuningError(
                f"num_measure_trials is at least {len(self.tasks)}, one for each task, got "
                f"{tune_option.num_measure_trials}"
            )
        policies = make_policies(
            search_policy,
            self.tasks,
            search_policy_params,
            adaptive_training,
            self.load_model_file,
            tune_option.verbose,
        )
        for policy in policies:
            policy.database.copy_to(self.database)
        measured_search(
            policies,
            self.task_weights,
            replace(
                tune_option,
                num_measures_per_round=size,
                measure_callbacks=[*tune_option.callbacks(), *self.callbacks],
            ),
            task_scheduler=self._scheduler,
            database=self.database,
            early_stopping_per_task=per_task_early_stopping,
        )

    @property
    def best_costs(self) -> list[float]:
        """The best latency of each task in seconds, 1e10 while it has none."""
        known = [task.best_ms for task in self._scheduler.tasks] or [None] * len(self.tasks)
        return [FAILED if ms is None else ms / 1e3 for ms in known]

    @property
    def task_cts(self) -> list[int]:
        """The number of batches that each task had, those of the log among them."""
        return [task.batches for task in self._scheduler.tasks] or [0] * len(self.tasks)
