"""The programs of databases with their records, and the merging of databases."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from search.arg_info import ArgInfo, entry_name
from search.database.best_records import latest_records, winner_first, with_schedules, with_traces
from search.database.records import TuningRecord, Workload
from search.database.target_key import target_key
from search.errors import TuningError

if TYPE_CHECKING:
    from search.database.database import Database


@dataclass(frozen=True, eq=False)
class ProgramRecords:
    """The records of one program for one target."""

    key: str
    """The key of the program in the database."""
    workload: Workload
    target: str
    """The target of the first record, empty if it has none."""
    records: list[TuningRecord]
    """All records in the order of their commit; a trace that was re-measured has several."""

    @cached_property
    def best(self) -> TuningRecord | None:
        """The record that a build uses (see `winner_first`), None if there is none.

        A record whose trace does not apply is skipped with a warning, as by a build.
        """
        return next((record for record, _ in with_schedules(winner_first(self.records))), None)

    @property
    def program(self) -> str:
        """The function and its arguments, as in `main(float32[128, 128], float32[128])`."""
        mod = self.workload.mod
        try:
            name = entry_name(mod)
            infos = ArgInfo.from_prim_func(mod.prim_func(name))
        except TuningError:  # of symbolic shapes, for example
            return ", ".join(sorted(mod.prim_funcs()))
        return f"{name}({', '.join(f'{info.dtype}{list(info.shape)}' for info in infos)})"

    def as_json(self) -> dict[str, Any]:
        """Return a summary as plain data; `seconds` is the median of the best."""
        latest = latest_records(self.records)
        return {
            "workload": self.key,
            "program": self.program,
            "target": self.target,
            "records": len(self.records),
            "candidates": len(latest),
            "valid": sum(record.is_valid for record in latest),
            "seconds": None if self.best is None else self.best.median_seconds,
        }


def keyed_records(
    database: Database, records: Iterable[TuningRecord] | None = None
) -> Iterator[tuple[str, TuningRecord]]:
    """Yield records, by default all of a database, with the keys of their programs."""
    keys: dict[Workload, str] = {}
    for record in database.get_all_tuning_records() if records is None else records:
        if record.workload not in keys:
            keys[record.workload] = database.workload_key(record.workload.mod)
        yield keys[record.workload], record


def programs_in(
    database: Database, records: Iterable[TuningRecord] | None = None
) -> list[ProgramRecords]:
    """Return records, by default all of a database, by program and target."""
    groups: dict[tuple[str, str | None], ProgramRecords] = {}
    for key, record in keyed_records(database, records):
        place = (key, None if record.target is None else target_key(record.target))
        if place not in groups:
            groups[place] = ProgramRecords(key, record.workload, str(record.target or ""), [])
        groups[place].records.append(record)
    return list(groups.values())


def merge_into(destination: Database, sources: Sequence[Database]) -> int:
    """Add the records of other databases to one; return how many were added.

    A record is skipped if the destination has one of the same program, target and trace with the
    same times. Measurements of one trace at different times are all kept, as they identify the
    winner of a search. The records of a source keep their order. Records with unreadable traces are
    skipped with a warning.
    """
    keys: dict[Workload, str] = {}

    def identity(record: TuningRecord) -> Hashable:
        workload = record.workload
        if workload not in keys:
            keys[workload] = destination.workload_key(workload.mod)
        target = None if record.target is None else target_key(record.target)
        return keys[workload], target, record.trace_key, tuple(record.run_secs or ())

    known = {identity(record) for record in destination.get_all_tuning_records()}
    added = 0
    for source in sources:
        new = []
        for record, _ in with_traces(source.get_all_tuning_records()):
            # the destination assigns the key of a workload when it is committed
            destination.commit_workload(record.workload.mod)
            key = identity(record)
            if key not in known:
                known.add(key)
                new.append(record)
        if new:
            destination.commit_records(new)
        added += len(new)
    return added
