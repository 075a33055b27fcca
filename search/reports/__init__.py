"""Progress, tables of trials, explanations, plots and the page of a search."""

from typing import TYPE_CHECKING

from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from search.reports.log_format import Field, Log, LogFormat
    from search.reports.report import RunReport, TaskReport
    from search.reports.table import LogTable, RunTable, Trials
    from search.reports.trial import Stage, Trial

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

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
