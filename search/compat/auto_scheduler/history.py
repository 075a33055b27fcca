"""Logs as databases, and builds with the best schedules of logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    load_records,
    logger,
    save_records,
)
from search.compat.auto_scheduler.task import WorkloadTask
from search.compat.auto_scheduler.workloads import compatible_factor, register_program
from search.database import Database, MemoryDatabase, TuningRecord, Workload
from search.database.best_records import with_traces
from search.database.measure_error_no import MeasureErrorNo
from search.database.module_equality import anchor_block
from search.database.record_files import Records
from search.database.records import FAILED
from search.database.target_key import for_other_cores
from search.errors import TuningError
from search.history.find_schedule import FoundSchedule
from search.history.history import History
from search.history.sample_on_miss import SampleOnMiss, Sampler
from search.lines import PathLike, warn_of_left_out
from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from codegen import Target
    from tensorir.function import IRModule

_Placed: TypeAlias = "Iterable[tuple[str, MeasureRecord]]"
"""Records with their places in a log."""


def to_database(
    records: Records, database: str | Database = "memory", n_lines: int | None = None
) -> Database:
    """Add the records of a log, the first `n_lines` or all, to a database, and return that.

    `database` is one, or the kind of a new one. Records that failed are added as such. Those whose
    workload is not registered or whose steps do not apply are left out, and one warning counts them
    and names line and reason. All steps of Ansor are applied for it, a few milliseconds a record.
    """
    made = Database.create(database)
    for name, placed in _sources(records, n_lines):
        _enter(made, name, placed, lambda found: ([record] for record in found))
    return made


def from_database(database: Database, filename: PathLike) -> int:
    """Append the records of a database to a log, as steps that are traces; return how many.

    A program is registered as a workload under the hash of it (`register_program`): whoever reads
    the log registers it likewise. Records without a target or times are left out, as a log has
    them of every line; of a failed one it has that it failed. Records whose traces cannot be
    read are left out, with a warning.
    """
    inputs, results = [], []
    tasks: dict[tuple[Workload, str], WorkloadTask] = {}
    for record, _ in with_traces(database.get_all_tuning_records()):
        if record.target is None or not record.run_secs:
            continue
        place = (record.workload, str(record.target))
        if place not in tasks:
            func = record.workload.mod.prim_func(entry_name(record.workload.mod))
            tasks[place] = WorkloadTask(register_program(func), record.target)
        inputs.append(MeasureInput(tasks[place], record.trace))
        bound = record.bound_seconds
        error_no = MeasureErrorNo.NO_ERROR
        if FAILED in record.run_secs:
            late = bound is not None
            error_no = MeasureErrorNo.RUN_TIMEOUT if late else MeasureErrorNo.UNKNOWN_ERROR
        results.append(MeasureResult.now(record.run_secs, error_no, slower_than=bound))
    save_records(filename, inputs, results)
    return len(inputs)


def _sources(records: Records, n_lines: int | None = None) -> Iterator[tuple[str, _Placed]]:
    """Yield each log by name with its records, the first `n_lines` (None: all), and their places.

    TuningError for what is neither a log nor records.
    """
    if n_lines is not None and n_lines < 0:
        raise TuningError(f"n_lines is at least 0, or None for all records, got {n_lines}")
    for name, placed in LOGS.sources(records):
        yield name, ((place, MeasureRecord(*one)) for place, one in islice(placed, n_lines))


def _enter(
    database: Database,
    name: object,
    placed: _Placed,
    groups: Callable[[list[MeasureRecord]], Iterable[list[MeasureRecord]]],
    kind: type[TuningRecord] = TuningRecord,
) -> None:
    """Add the first record of each group that applies; one warning names what does not."""
    places: dict[int, str] = {}
    found: list[MeasureRecord] = []
    for place, record in placed:
        places[id(record)] = place
        found.append(record)
    programs: dict[str, tuple[Workload, Sequence[ArgInfo]] | TensorIRError] = {}
    made, refused = [], []
    for group in groups(found):
        for record in group:
            try:
                made.append(_tuning_record(record, kind, programs))
                break
            except TensorIRError as error:
                refused.append(f"{places[id(record)]}: {error}")
                if isinstance(programs[record.input.task.workload_key], TensorIRError):
                    break  # None of the group has a program.
    database.commit_records(made)
    warn_of_left_out(name, refused, logger)


def _tuning_record(
    record: MeasureRecord,
    kind: type[TuningRecord],
    programs: dict[str, tuple[Workload, Sequence[ArgInfo]] | TensorIRError],
) -> TuningRecord:
    """Return a record of a database; only for a `BestRecord` a trace is checked to apply.

    Records of a workload share their program.
    """
    inp, key = record.input, record.input.task.workload_key
    if key not in programs:
        try:
            programs[key] = (Workload(inp.task.mod), ArgInfo.from_entry_func(inp.task.mod))
        except TensorIRError as error:
            programs[key] = error
    known = programs[key]
    if isinstance(known, TensorIRError):
        raise known
    workload, args_info = known
    trace_json = None if kind is BestRecord else inp.trace_json
    trace = inp.schedule().trace if trace_json is None else Trace.from_json(trace_json)
    message = None if record.is_valid else record.result.error_msg
    return kind(trace, workload, record.run_secs, record.target, args_info, message)


class BestRecord(TuningRecord):
    """A record that counts, even if it leaves the program as it is: so that is the best."""

    @property
    def schedules(self) -> bool:
        """True: in other databases such a record would be none."""
        return True


class BestOfLogs(MemoryDatabase):
    """The best record of each workload and target of logs, as they are looked up for a build.

    Where there is none for a target, those for another number of cores answer, and where there are
    none either, those for other CPUs: their steps are applied to the program anew.
    """

    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records for a target; those for other CPUs, if there are none."""
        own = super().records(key, target)
        if own or target is None:
            return own
        others = super().records(key)
        return for_other_cores(others, target) or others


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

    def load(
        self, records: Records, n_lines: int | None = None, *, workload_key: str | None = None
    ) -> None:
        """Add logs to those that are looked up, of one workload if its key is given.

        Where the best record of a workload does not apply, the next one counts. One warning names
        what does not, and workloads that are not registered.
        """
        for name, placed in _sources(records, n_lines):
            wanted = (
                (place, record)
                for place, record in placed
                if workload_key in (None, record.input.task.workload_key)
            )
            _enter(self._best, name, wanted, best_first, BestRecord)


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
    task: WorkloadTask, log_file: PathLike, include_compatible: bool = False
) -> FoundSchedule:
    """Return the best schedule that a log has of a task; TuningError if it has none.

    Records of other workloads are looked at for compatible ones only.
    """
    history = ApplyHistoryBest((), include_compatible=include_compatible)
    history.load(log_file, workload_key=None if include_compatible else task.workload_key)
    found = history.find(task.mod, task.target, task.name)
    if found is None:
        raise TuningError(_nothing_found(task, log_file, include_compatible))
    return found


def _nothing_found(task: WorkloadTask, log_file: PathLike, include_compatible: bool) -> str:
    keys = [record.input.task.workload_key for record in load_records(log_file)]
    own = keys.count(task.workload_key)
    near = [key for key in keys if compatible_factor(task.workload_key, key) is not None]
    if own:
        there = f"none of its {own} record(s) is valid and applies; tune it for longer"
    elif near and not include_compatible:
        there = f"the log has {near[0]}, whose schedule include_compatible=True adapts"
    elif keys:
        there = f"the log has {', '.join(sorted(set(keys))[:5])}; tune the task first"
    else:
        there = "the log has no records; tune the task first"
    return f"there is no schedule of {task.workload_key} in {os.fspath(log_file)}: {there}"
