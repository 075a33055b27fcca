"""Builds with the best schedules of logs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from search.auto_scheduler.log_database import BestOfLogs, Records, name_of, placed_records
from search.errors import TuningError
from search.find_schedule import FoundSchedule, find_schedule
from search.record_lines import PathLike

if TYPE_CHECKING:
    from search.auto_scheduler.search_task import SearchTask


def best_of_log(
    task: SearchTask, log_file: PathLike, include_compatible: bool = False
) -> FoundSchedule:
    """Return the best schedule that a log has of a task; TuningError if it has none.

    Records of other workload functions are not looked at.
    """
    database = BestOfLogs()
    own = ((p, r) for p, r in placed_records(log_file) if r.input.task.name == task.name)
    database.load(own, name_of(log_file))
    found = find_schedule(database, task.mod, task.target)
    if found is None:
        raise TuningError(
            f"no record of {task} in {name_of(log_file)} is valid and applies; tune the task, or "
            "look at the log with search.auto_scheduler.load_records"
        )
    return found


class ApplyHistoryBest:
    """Inside of `with ApplyHistoryBest(log):` builds take the best schedules of logs.

    `records` is a log by name, its records, or several of those; `n_lines` bounds how many of each
    are read. With `include_compatible` a function without a record of its own gets the schedule of
    one that differs in its extents only. The rest is built as it is.
    """

    def __init__(
        self, records: Any, n_lines: int | None = None, include_compatible: bool = False
    ) -> None:
        self.database = BestOfLogs()
        self.load(records, n_lines)

    def load(self, records: Any, n_lines: int | None = None) -> None:
        """Add logs."""
        for one in logs_of(records):
            self.database.load(placed_records(one, n_lines), name_of(one))

    def __enter__(self) -> Self:
        self.database.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.database.__exit__(*error)


class ApplyHistoryBestOrSample(ApplyHistoryBest):
    """Samples programs where logs have nothing, and takes the one that promises most."""

    def __init__(
        self,
        records: Any,
        sample_simple_workloads: bool = False,
        cost_model_file: str | None = None,
        num_measure: int = -1,
    ) -> None:
        super().__init__(() if records is None else records)


def logs_of(records: Any) -> Sequence[Records]:
    """Return logs one by one: of one alone, or of several in a list."""
    if isinstance(records, (str, os.PathLike)):
        return [records]
    if not isinstance(records, Iterable):
        raise TuningError(f"a log is a path or records, got {type(records).__name__}")
    found = list(records)
    logs = [one for one in found if isinstance(one, (str, os.PathLike))]
    pairs = [one for one in found if not isinstance(one, (str, os.PathLike))]
    return [*logs, pairs] if pairs else logs
