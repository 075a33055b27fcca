"""Logs as databases, and builds with the best schedules of logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from schedule import Trace
from search.arg_info import ArgInfo, entry_name
from search.compat.auto_scheduler.records import (
    LOGS,
    MeasureInput,
    MeasureRecord,
    MeasureResult,
    best_first,
    logger,
    save_records,
)
from search.compat.auto_scheduler.task import WorkloadTask
from search.compat.auto_scheduler.workloads import register_program
from search.database import Database, MemoryDatabase, TuningRecord, Workload
from search.database.best_records import with_traces
from search.database.module_equality import anchor_block
from search.database.record_files import MeasureErrorNo, Records
from search.database.records import FAILED
from search.database.target_key import for_other_cores
from search.errors import TuningError
from search.history.find_schedule import FoundSchedule
from search.history.history import History
from search.history.sample_on_miss import SampleOnMiss, Sampler
from search.lines import warn_of_left_out
from tensorir.errors import TensorIRError
from tensorir.paths import PathLike

if TYPE_CHECKING:
    from codegen import Target
    from tensorir.function import IRModule

_Groups: TypeAlias = "Callable[[list[MeasureRecord]], Iterable[list[MeasureRecord]]]"


def to_database(
    records: Records, database: str | Database = "memory", n_lines: int | None = None
) -> Database:
    """Add the records of a log, the first `n_lines` or all, to a database, and return that.

    `database` is a database, or the kind of a new one. Failed records are added as failures.
    Records of unregistered workloads, and records whose steps do not apply, are skipped; one
    warning counts them and names lines and reasons. Steps of Ansor are applied, which takes a few
    milliseconds a record; traces are not.
    """
    made = Database.create(database)
    _add(made, records, n_lines, lambda found: ([record] for record in found))
    return made


def from_database(database: Database, filename: PathLike) -> int:
    """Append the records of a database to a log, with traces as steps; return their number.

    Each program is registered as a workload under its hash (`register_program`); a process that
    reads the log must register it, too. Records without a target or times are skipped, and records
    whose traces cannot be read, with a warning. The reasons of failures are lost.
    """
    inputs, results = [], []
    tasks: dict[tuple[Workload, str], WorkloadTask] = {}
    for record, _ in with_traces(database.get_all_tuning_records()):
        if record.target is None or not record.run_secs:
            continue
        key = (record.workload, str(record.target))
        if key not in tasks:
            func = record.workload.mod.prim_func(entry_name(record.workload.mod))
            tasks[key] = WorkloadTask(register_program(func), record.target)
        inputs.append(MeasureInput(tasks[key], record.trace))
        bound = record.bound_seconds
        error_no = MeasureErrorNo.NO_ERROR
        if FAILED in record.run_secs:
            late = bound is not None
            error_no = MeasureErrorNo.RUN_TIMEOUT if late else MeasureErrorNo.UNKNOWN_ERROR
        results.append(MeasureResult.now(record.run_secs, error_no, slower_than=bound))
    save_records(filename, inputs, results)
    return len(inputs)


def _add(
    database: Database,
    records: Records,
    n_lines: int | None,
    groups: _Groups,
    check_traces: bool = False,
    workload_key: str | None = None,
) -> None:
    """Add the first record of each group that applies; one warning for each log names the others.

    Replaying a trace takes milliseconds, so only `check_traces` does it. With a `workload_key` the
    records of other workloads are skipped.
    """
    if n_lines is not None and n_lines < 0:
        raise TuningError(f"n_lines is at least 0, or None for all records, got {n_lines}")
    for name, placed in LOGS.sources(records):
        places: dict[int, str] = {}
        found: list[MeasureRecord] = []
        for place, one in islice(placed, n_lines):
            record = MeasureRecord(*one)
            if workload_key in (None, record.input.task.workload_key):
                places[id(record)] = place
                found.append(record)
        workloads: dict[str, Workload] = {}
        added, refused = [], []
        for group in groups(found):
            for record in group:
                task = record.input.task
                try:
                    workload = workloads.setdefault(task.workload_key, Workload(task.mod))
                    added.append(_tuning_record(record, workload, check_traces))
                    break
                except TensorIRError as error:
                    refused.append(f"{places[id(record)]}: {error}")
        database.commit_records(added)
        warn_of_left_out(name, refused, logger)


def _tuning_record(record: MeasureRecord, workload: Workload, check_trace: bool) -> TuningRecord:
    trace_json = None if check_trace else record.input.trace_json
    trace = record.input.schedule().trace if trace_json is None else Trace.from_json(trace_json)
    args = ArgInfo.from_entry_func(workload.mod)
    message = None if record.is_valid else record.result.error_msg
    return TuningRecord(trace, workload, record.run_secs, record.target, args, message)


class BestOfLogs(MemoryDatabase):
    """The best record of each workload and target of logs.

    If a target has no record, records for another number of cores are used, else records for other
    CPUs.
    """

    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records for a target, else those for other targets."""
        own = super().records(key, target)
        if own or target is None:
            return own
        others = super().records(key)
        return for_other_cores(others, target) or others


class ApplyHistoryBest(History):
    """The best schedules of logs, which builds inside of `with ApplyHistoryBest(log):` use.

    `records` is the name of a log, an opened log, records, or several of those; `n_lines` limits
    the records of each. If a target has no record, records for other CPUs are used, with a warning.
    With `include_compatible`, a function without a record gets the schedule of one with shorter
    loops. Other functions are built unscheduled.

    Raises OSError for a log that cannot be opened, TuningError for other objects.
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

    def load(
        self, records: Records, n_lines: int | None = None, *, workload_key: str | None = None
    ) -> None:
        """Add the best records of logs that apply, of one workload if its key is given."""
        _add(self._best, records, n_lines, best_first, True, workload_key)


class ApplyHistoryBestOrSample(ApplyHistoryBest):
    """The best schedules of logs, and sampled schedules for programs without a record.

    The sample is the candidate with the best prediction of the cost model in `cost_model_file` (an
    `XGBModel`), or of an estimate. With `num_measure` above 0, that many candidates are measured
    and the fastest wins. Functions without a reduction are sampled only with
    `sample_simple_workloads`.
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
            sample_on_miss=sampler if sample_simple_workloads else _ReductionSampler(sampler),
        )


class _ReductionSampler(Sampler):
    """Samples programs with a reduction only."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return the best sample of a program with a reduction, None for other programs."""
        has_reduction = anchor_block(mod) is not None
        return self._sampler.sample(mod, target, task_name) if has_reduction else None


def best_of_log(
    task: WorkloadTask, log_file: PathLike, include_compatible: bool = False
) -> FoundSchedule:
    """Return the best schedule of a task in a log; TuningError without one."""
    history = ApplyHistoryBest((), include_compatible=include_compatible)
    history.load(log_file, workload_key=None if include_compatible else task.workload_key)
    found = history.find(task.mod, task.target, task.name)
    if found is None:
        raise TuningError(
            f"{os.fspath(log_file)} has no valid record of {task.workload_key} that applies; tune "
            "the task, or adapt the schedule of a smaller workload by include_compatible=True"
        )
    return found
