"""Task schedulers, which distribute trials among tasks."""

from search.task_scheduler.task_scheduler import (
    GradientBased,
    PyTaskScheduler,
    RoundRobin,
    TaskScheduler,
)
from search.task_scheduler.task_state import TaskState

__all__ = ["GradientBased", "PyTaskScheduler", "RoundRobin", "TaskScheduler", "TaskState"]
