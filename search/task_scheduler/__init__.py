"""Task schedulers, which share trials among tasks."""

from search.task_scheduler.task_choice import GradientBased, RoundRobin
from search.task_scheduler.task_record import TaskRecord
from search.task_scheduler.task_scheduler import PyTaskScheduler, TaskScheduler

__all__ = ["GradientBased", "PyTaskScheduler", "RoundRobin", "TaskRecord", "TaskScheduler"]
