"""Task schedulers, which share trials among tasks."""

from search.task_scheduler.gradient_based import GradientBased
from search.task_scheduler.round_robin import RoundRobin
from search.task_scheduler.task_record import TaskRecord
from search.task_scheduler.task_scheduler import PyTaskScheduler, TaskScheduler

__all__ = ["GradientBased", "PyTaskScheduler", "RoundRobin", "TaskRecord", "TaskScheduler"]
