"""A log in Ansor's format as a database."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from schedule import Trace
from search.arg_info import ArgInfo, entry_name
from search.auto_scheduler.log.file import best_first, logger, placed_records, save_records
from search.auto_scheduler.log.record import MeasureInput, MeasureRecord, MeasureResult
from search.auto_scheduler.search_task import SearchTask
from search.auto_scheduler.workload_registry import register_program
from search.database import Database, MemoryDatabase, TuningRecord, Workload
from search.database.best_records import with_traces
from search.database.records import FAILED
from search.database.target_key import for_other_cores
from search.records.appended_file import PathLike
from search.records.measure_error_no import MeasureErrorNo
from search.records.record_files import Records
from search.records.record_lines import warn_of_left_out
from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from codegen import Target


def to_database(
    records: Records, database: str | Database = "memory", n_lines: int | None = None
) -> Database:
    """Add the records of a log, the first `n_lines` or all, to a database, and return that.

    `database` is one, or the kind of a new one. Records that failed are added as such. Those whose
    workload is not registered or whose steps do not apply are left out, and one warning counts them
    and names line and reason. All steps of Ansor are applied for it, a few milliseconds a record.
    """
    made = Database.create(database)
    programs = _Programs()
    for name, placed in placed_records(records, n_lines):
        found, refused = [], []
        for place, record in placed:
            try:
                found.append(programs.tuning_record(record))
            except TensorIRError as error:
                refused.append(f"{place}: {error}")
        made.commit_records(found)
        warn_of_left_out(name, refused, logger)
    return made


def from_database(database: Database, filename: PathLike) -> int:
    """Append the records of a database to a log, as steps that are traces; return how many.

    A program is registered as a workload under the hash of it (`register_program`): whoever reads
    the log registers it likewise. Records without a target or times are left out, as a log has
    them of every line; of a failed one it has that it failed. Records whose traces cannot be
    read are left out, with a warning.
    """
    inputs, results = [], []
    tasks: dict[tuple[Workload, str], SearchTask] = {}
    for record, _ in with_traces(database.get_all_tuning_records()):
        if record.target is None or not record.run_secs:
            continue
        place = (record.workload, str(record.target))
        if place not in tasks:
            func = record.workload.mod.prim_func(entry_name(record.workload.mod))
            tasks[place] = SearchTask(workload_key=register_program(func), target=record.target)
        inputs.append(MeasureInput(tasks[place], record.trace))
        results.append(_result_of(record))
    save_records(filename, inputs, results)
    return len(inputs)


def _result_of(record: TuningRecord) -> MeasureResult:
    seconds = tuple(record.run_secs or ())
    now = time.time()
    if FAILED not in seconds:
        return MeasureResult(seconds, MeasureErrorNo.NO_ERROR, "", 0.0, now)
    if record.bound_seconds is not None:
        late, bound = MeasureErrorNo.RUN_TIMEOUT, record.bound_seconds
        return MeasureResult((FAILED,), late, "", 0.0, now, slower_than=bound)
    return MeasureResult((FAILED,), MeasureErrorNo.UNKNOWN_ERROR, "", 0.0, now)


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

    def load(self, records: Iterable[tuple[str, MeasureRecord]], name: object = "the log") -> None:
        """Add what applies; where the best does not, the next one counts.

        One warning names what does not, and workloads that are not registered.
        """
        programs = _Programs()
        places: dict[int, str] = {}
        found = []
        for place, record in records:
            places[id(record)] = place
            found.append(record)
        refused = []
        for group in best_first(found):
            for record in group:
                try:
                    made = programs.tuning_record(record, BestRecord)
                except TensorIRError as error:
                    refused.append(f"{places[id(record)]}: {error}")
                    if programs.is_unknown(record.input.task):
                        break
                else:
                    self.commit_records([made])
                    break
        warn_of_left_out(name, refused, logger)

    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records for a target; those for other CPUs, if there are none."""
        own = super().records(key, target)
        if own or target is None:
            return own
        others = super().records(key)
        return for_other_cores(others, target) or others


class _Programs:
    """Makes the records of a database; records of a workload share their program."""

    def __init__(self) -> None:
        self._workloads: dict[str, tuple[Workload, Sequence[ArgInfo]] | TensorIRError] = {}

    def tuning_record(
        self, record: MeasureRecord, kind: type[TuningRecord] = TuningRecord
    ) -> TuningRecord:
        """Return a record of a database; only for a `BestRecord` a trace is checked to apply."""
        inp = record.input
        workload, args_info = self._workload(inp.task)
        trace_json = None if kind is BestRecord else inp.trace_json
        trace = inp.schedule().trace if trace_json is None else Trace.from_json(trace_json)
        message = None if record.is_valid else record.result.error_msg
        return kind(trace, workload, record.run_secs, record.target, args_info, message)

    def is_unknown(self, task: SearchTask) -> bool:
        return isinstance(self._workloads.get(task.workload_key), TensorIRError)

    def _workload(self, task: SearchTask) -> tuple[Workload, Sequence[ArgInfo]]:
        key = task.workload_key
        if key not in self._workloads:
            try:
                self._workloads[key] = (Workload(task.mod), ArgInfo.from_entry_func(task.mod))
            except TensorIRError as error:
                self._workloads[key] = error
        known = self._workloads[key]
        if isinstance(known, TensorIRError):
            raise known
        return known
