"""Trials, whichever tool wrote them down: one table, formats of logs, explanations, reports."""

from search.trials.log_format import Field, Log, LogFormat
from search.trials.report import RunReport, TaskReport
from search.trials.table import LogTable, RunTable, Trials
from search.trials.trial import Stage, Trial

__all__ = [
    "Field",
    "Log",
    "LogFormat",
    "LogTable",
    "RunReport",
    "RunTable",
    "Stage",
    "TaskReport",
    "Trial",
    "Trials",
]
