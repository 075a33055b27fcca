"""The best schedule that a search found, with what the search reports of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule import Schedule
from search.reports.report import TaskReport

if TYPE_CHECKING:
    from search.history.find_schedule import FoundSchedule


class TunedSchedule(Schedule):
    """The best schedule that a search found: a `Schedule`, with what the search reports of it.

    `print(best.report)` says what the program took before and takes now. A copy is a plain
    schedule, since what is done to it is not what was measured.
    """

    report: TaskReport

    @staticmethod
    def of(schedule: Schedule, report: TaskReport) -> TunedSchedule:
        """Return a schedule with a report; it takes the place of the one that was given."""
        tuned = TunedSchedule.__new__(TunedSchedule)
        vars(tuned).update(vars(schedule), report=report)
        return tuned

    @staticmethod
    def of_record(found: FoundSchedule, task_name: str) -> TunedSchedule:
        """Return a schedule that was found without a search: the report has the time of its
        record."""
        best = found.record.median_seconds
        report = TaskReport(task_name, str(found.record.target), best=best)
        return TunedSchedule.of(found.schedule, report)
