"""Builds with the best schedules of logs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from search.auto_scheduler.log.database import BestOfLogs
from search.auto_scheduler.log.file import load_records, placed_records
from search.auto_scheduler.workload_registry import compatible_factor
from search.database.module_equality import anchor_block
from search.dispatch.find_schedule import FoundSchedule, find_schedule, say_if_missing
from search.dispatch.history import History
from search.dispatch.sample_on_miss import SampleOnMiss, Sampler
from search.errors import TuningError
from search.records.appended_file import PathLike
from search.records.record_files import Records

if TYPE_CHECKING:
    from codegen import Target
    from search.auto_scheduler.search_task import SearchTask
    from search.database import TuningRecord
    from tensorir.function import IRModule


class ApplyHistoryBest(History):
    """The best schedules of logs, which builds take inside of `with ApplyHistoryBest(log):`.

    `records` is a log by name or opened, its records, or several of those; `n_lines` bounds how
    many records of each are read. Where there is none for a target, those for other CPUs answer,
    which a warning says.
    With `include_compatible` a function without a record of its own gets the schedule of one with
    shorter loops. The rest is built as it is.

    OSError for a log that cannot be opened, TuningError for what is none.
    """

    def __init__(
        self,
        records: Records,
        n_lines: int | None = None,
        include_compatible: bool = False,
        *,
        sample_on_miss: Sampler | None = None,
    ) -> None:
        self._best = BestOfLogs()
        super().__init__(
            self._best, include_compatible=include_compatible, sample_on_miss=sample_on_miss
        )
        self.load(records, n_lines)

    def load(self, records: Records, n_lines: int | None = None) -> None:
        """Add logs to those that are looked up."""
        for name, placed in placed_records(records, n_lines):
            self._best.load(placed, name)


class ApplyHistoryBestOrSample(ApplyHistoryBest):
    """The best schedules of logs; where they have none, programs are sampled.

    Taken is the program that a cost model expects most of: that in `cost_model_file` (an
    `XGBModel`), else an estimate. With `num_measure` above 0 so many are measured, and the fastest
    is taken. Functions without a reduction are sampled only with
    `sample_simple_workloads`. `records` None is no log.
    """

    def __init__(
        self,
        records: Records | None,
        sample_simple_workloads: bool = False,
        cost_model_file: PathLike | None = None,
        num_measure: int = -1,
    ) -> None:
        sampler = SampleOnMiss(cost_model_file, num_measure)
        super().__init__(
            () if records is None else records,
            sample_on_miss=sampler if sample_simple_workloads else _OfReductions(sampler),
        )


class _OfReductions(Sampler):
    """Samples programs with a reduction only."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return the best sample of a program with a reduction, None for other programs."""
        if anchor_block(mod) is None:
            return None
        return self._sampler.sample(mod, target, task_name)


def best_of_log(
    task: SearchTask, log_file: PathLike, include_compatible: bool = False
) -> FoundSchedule:
    """Return the best schedule that a log has of a task; TuningError if it has none.

    Records of other workloads are looked at for compatible ones only.
    """
    database = BestOfLogs()
    for name, placed in placed_records(log_file):
        wanted = (
            (place, record)
            for place, record in placed
            if include_compatible or record.input.task.workload_key == task.workload_key
        )
        database.load(wanted, name)
    found = find_schedule(
        database, task.mod, task.target, task.name, include_compatible=include_compatible
    )
    if found is None:
        raise TuningError(_nothing_found(task, log_file, include_compatible))
    say_if_missing(database, task.mod, task.target, task.name, found)
    return found


def _nothing_found(task: SearchTask, log_file: PathLike, include_compatible: bool) -> str:
    keys = [record.input.task.workload_key for record in load_records(log_file)]
    own = keys.count(task.workload_key)
    if own:
        there = f"none of its {own} record(s) is valid and applies; tune it for longer"
    elif not include_compatible and (near := _compatible_keys(task, keys)):
        there = f"the log has {near[0]}, whose schedule include_compatible=True adapts"
    elif keys:
        there = f"the log has {', '.join(sorted(set(keys))[:5])}; tune the task first"
    else:
        there = "the log has no records; tune the task first"
    return f"there is no schedule of {task.workload_key} in {os.fspath(log_file)}: {there}"


def _compatible_keys(task: SearchTask, keys: Iterable[str]) -> list[str]:
    return [k for k in dict.fromkeys(keys) if compatible_factor(task.workload_key, k) is not None]
