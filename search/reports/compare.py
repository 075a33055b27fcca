"""`compare`: two schedules, or two logs of measurements."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeAlias, overload

from codegen import Target
from schedule import Schedule
from search.database import database_in
from search.database.programs import programs_in
from search.database.records import TuningRecord
from search.errors import ArgumentError
from search.reports.explain import explain
from search.reports.log_comparison import LogComparison
from search.reports.run_directory import records_of_trials
from search.reports.schedule_comparison import ScheduleComparison
from search.reports.table import Trials
from search.reports.trial import Trial

OneSchedule: TypeAlias = Schedule | TuningRecord | Trial
OneLog: TypeAlias = "Trials | str | os.PathLike[str]"


@overload
def compare(
    a: OneSchedule,
    b: OneSchedule,
    *,
    work_dir: str | os.PathLike[str] | None = None,
    measure: bool = False,
    target: str | Target | None = None,
) -> ScheduleComparison: ...
@overload
def compare(a: OneLog, b: OneLog) -> LogComparison: ...
def compare(
    a: OneSchedule | OneLog,
    b: OneSchedule | OneLog,
    *,
    work_dir: str | os.PathLike[str] | None = None,
    measure: bool = False,
    target: str | Target | None = None,
) -> ScheduleComparison | LogComparison:
    """Compare two schedules, or two logs of measurements.

        print(ms.compare(best, mine, measure=True))

    A schedule is a `Schedule`, a record of a database, or a trial of the run in `work_dir`. The
    differences of decisions, traces and programs are shown, and the times with the probability
    that the faster schedule is faster. Times are the recorded ones; with `measure`, both schedules
    are measured here, interleaved, for up to ten seconds on `target`, by default the target of a
    record, the current target, or one core of this machine.

    A log is a path that `explain` reads, or a table of trials. Two logs are compared by their costs
    of the configurations that both have.

    Raises ArgumentError for other arguments, a trial without a record in `work_dir`, and schedules
    of different programs to measure; TuningError for schedules that cannot be measured.
    """
    if isinstance(a, _LOG) and isinstance(b, _LOG):
        return LogComparison(_table(a), _table(b))
    found = ScheduleComparison(_schedule(a, work_dir), _schedule(b, work_dir))
    if measure:
        found.measure(target)
    return found


_LOG: Final = (Trials, str, os.PathLike)


def _table(log: OneLog) -> Trials:
    return log if isinstance(log, Trials) else explain(log).table()


def _schedule(
    one: OneSchedule | OneLog, work_dir: str | os.PathLike[str] | None
) -> Schedule | TuningRecord:
    if isinstance(one, (Schedule, TuningRecord)):
        return one
    if not isinstance(one, Trial):
        raise ArgumentError(
            "compare takes two schedules (a Schedule, a TuningRecord or a Trial) or two logs, "
            f"got {type(one).__name__}"
        )
    if work_dir is None:
        raise ArgumentError("a Trial has no trace; give the directory of its run as work_dir")
    database = database_in(Path(work_dir))
    programs = [] if database is None else programs_in(database)
    (record,) = records_of_trials([one], programs)
    if record is None:
        raise ArgumentError(
            f"trial {one.number} of {one.task} has no record in {work_dir}; failed trials have none"
        )
    return record
