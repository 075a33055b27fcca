"""Several tasks that share trials, such as the kernels of a network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

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


class TaskScheduler:
    """Shares the trials of a search among tasks to minimise an objective.

    The objective is `objective_func` of the latencies in seconds, one for each task, or their sum
    by `task_weights` (None: all 1). With the `strategy` `"gradient"` the task with the largest
    expected gain gets the next batch, with `"round-robin"` the next task. For `alpha`, `beta` and
    `backward_window_size` see `search.task_scheduler.GradientBased`.

    `load_log_file` is a log to resume: its records are not measured again, count as batches of
    their tasks, and teach the cost model; `tune` adds trials. `load_model_file` is a saved cost
    model. `callbacks` are invoked after each trial and batch, for example `PrintTableInfo()` and
    `LogEstimatedLatency(path)`; unless `verbose` is 0, the table of all tasks is shown anyway.
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
        self.tasks: list[SearchTask] = instances(SearchTask, "tasks", tasks)
        self.task_weights = [1.0] * len(self.tasks) if task_weights is None else list(task_weights)
        if not self.tasks or len(self.task_weights) != len(self.tasks):
            raise TuningError(
                f"a TaskScheduler needs tasks and a weight for each, got {len(self.tasks)} tasks "
                f"and {len(self.task_weights)} weights"
            )
        self.load_model_file = load_model_file
        self.callbacks = instances(MeasureCallback, "callbacks", callbacks or [])
        self.database = MemoryDatabase()
        """The measurements of this search and those of the log."""
        if load_log_file is not None:
            to_database(load_log_file, self.database)
        self._scheduler: task_scheduler.TaskScheduler
        if strategy == "gradient":
            self._scheduler = GradientBased(
                alpha=alpha,
                beta=beta,
                window_size=backward_window_size,
                objective_func=objective_func,
            )
        elif strategy == "round-robin":
            self._scheduler = RoundRobin(objective_func=objective_func)
        else:
            raise TuningError(f"strategy is 'gradient' or 'round-robin', got {strategy!r}")

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: str | Sequence[SketchPolicy] = "default",
        search_policy_params: Mapping[str, Any] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Search all tasks with `tune_option.num_measure_trials` trials together.

        `search_policy` is `"default"` (`"sketch.xgb"`), `"sketch.random"`, or a policy for each
        task; all share one cost model. `search_policy_params` and `adaptive_training` are for
        policies that are given by name. A task ends after `per_task_early_stopping` trials without
        an improvement. Raises TuningError for less than one trial for each task.
        """
        trials = tune_option.num_measure_trials
        if trials < len(self.tasks):
            raise TuningError(
                f"num_measure_trials is at least {len(self.tasks)}, one for each task, got {trials}"
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
        options = replace(
            tune_option,
            num_measures_per_round=min(
                tune_option.num_measures_per_round, trials // len(self.tasks)
            ),
            measure_callbacks=[*tune_option.callbacks(), *self.callbacks],
        )
        measured_search(
            policies,
            self.task_weights,
            options,
            task_scheduler=self._scheduler,
            database=self.database,
            early_stopping_per_task=per_task_early_stopping,
        )

    @property
    def best_costs(self) -> list[float]:
        """The best latency of each task in seconds, 1e10 without one."""
        known = [task.best_ms for task in self._scheduler.tasks] or [None] * len(self.tasks)
        return [FAILED if ms is None else ms / 1e3 for ms in known]

    @property
    def task_cts(self) -> list[int]:
        """The number of batches of each task, including those of the log."""
        return [task.batches for task in self._scheduler.tasks] or [0] * len(self.tasks)
