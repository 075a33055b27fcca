"""The base class of databases, their queries, and the current database."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from codegen import Target
from codegen.history import KnownSchedules, innermost
from search.database.best_records import best_records, winner_first, with_schedules
from search.database.module_equality import (
    ModuleEquality,
    ModuleIndex,
    same_structure,
    unnamed,
)
from search.database.programs import programs_in
from search.database.records import TuningRecord, Workload
from search.database.store import Claimed
from search.database.target_key import for_other_cores, same_target
from search.database.validate import Findings, validate
from search.errors import DatabaseError
from search.kinds import Registry
from search.runner.time_call import time_text
from tensorir.errors import IRValueError
from tensorir.text_table import html_table

if TYPE_CHECKING:
    from schedule import Schedule
    from search.builder import Builder
    from search.reports.report import RunReport
    from search.runner import Runner
    from tensorir.function import IRModule, PrimFunc


class DatabaseScope(KnownSchedules):
    """A database, or an object around one, that is current inside its `with` block."""

    @abstractmethod
    def as_database(self) -> Database:
        """Return the database that is current inside the block."""


_SQL: Final = "search.database.sql_database"
_LISTED_PROGRAMS: Final = 20
_TOO_MANY: Final = 50_000
"""A database with more records is displayed without its programs."""


class Database(DatabaseScope):
    """Workloads and tuning records.

    A subclass implements the abstract methods, which are those of TVM's `PyDatabase`; the rest
    builds on them. A database of keys and values is easier to derive from `KeyedDatabase`.

    `module_equality` decides which programs are the same workload; the name of their function and
    `tir.noalias` are ignored. Where a method has a target, only records for that target count
    (`target_key`); None accepts any. Queries, whose names begin with `query`, and `records_like`
    fall back to records for another number of cores. If a workload has several records with the
    same trace and target, the last one counts. `with database:` makes it the current one.
    """

    kinds: ClassVar[Registry[Database]] = Registry(
        "database",
        dict.fromkeys(("sql", "server", "sqlite://", "postgresql://", "postgres://"), _SQL)
        | dict.fromkeys(("mysql://", "mariadb://"), _SQL),
    )
    report: RunReport | None = None
    """The report of the search that wrote to the database last, in this process."""

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        self.module_equality = ModuleEquality.create(module_equality)
        self._warned: set[tuple[str, ...]] = set()
        self._indices: dict[str | ModuleEquality, tuple[ModuleIndex[Workload], int]] = {}
        """By equality: the workloads, and their number when they were indexed."""

    @staticmethod
    def create(
        kind: str | Database | Callable[[Schedule], bool] = "json", *args: Any, **kwargs: Any
    ) -> Database:
        """Return a database: `"json"`, `"sql"`, `"memory"`, `"union"`, ..., a URL or a function.

        `"sqlite:///path"` is a file, `"postgresql+psycopg://user@host/db"` a database on a server.
        A function `f(sch) -> bool` schedules a program itself, and returns False if it cannot.
        """
        if callable(kind) and not isinstance(kind, type):
            return Database.kinds.make("schedule-fn", kind, *args, **kwargs)
        return Database.kinds.part(kind, *args, **kwargs)

    # ------------------------------------------------------------------------------------ storage

    @abstractmethod
    def has_workload(self, mod: IRModule) -> bool:
        """True if a program is a workload of this database."""

    @abstractmethod
    def commit_workload(self, mod: IRModule) -> Workload:
        """Return the workload of a program, added if it is new."""

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record; IRValueError if its workload was not committed before."""

    @abstractmethod
    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """Return the `top_k` best valid records of a workload, best first; IRValueError below 0."""

    @abstractmethod
    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Return all records, valid or not, in the order in which they were committed."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records."""

    def commit_records(self, records: Sequence[TuningRecord]) -> None:
        """Commit records and their workloads."""
        for record in records:
            self.commit_workload(record.workload.mod)
            self.commit_tuning_record(record)

    def unreadable(self) -> list[str]:
        """Return the place and the reason for each entry that could not be read."""
        return []

    def settle(self) -> None:
        """Commit the records that a server did not accept before, if the database keeps them."""

    # --------------------------------------------------------------------------- by program, target

    def _workloads(self) -> Sequence[Workload]:
        """Return the programs in the order of their commit; subclasses may have `workloads`."""
        return list(dict.fromkeys(record.workload for record in self.get_all_tuning_records()))

    def workload_key(self, mod: IRModule) -> str:
        """Return a text that programs share if they are the same workload."""
        return str(self.module_equality.hash(unnamed(mod)))

    def same_workload(self, a: IRModule, b: IRModule) -> bool:
        """True if two programs are the same workload."""
        return a is b or self.module_equality.equal(unnamed(a), unnamed(b))

    def tuning_records_of(
        self, workload: Workload, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return all records of a workload, valid or not, in the order of their commit."""
        is_same = {w: self.same_workload(w.mod, workload.mod) for w in self._workloads()}
        return [
            record
            for record in self.get_all_tuning_records()
            if is_same[record.workload] and same_target(record.target, target)
        ]

    def count(self, workload: Workload, target: Target | None = None) -> int:
        """Return the number of records of a workload; a trace measured twice counts twice."""
        return len(self.tuning_records_of(workload, target))

    def top_records(
        self, workload: Workload, count: int, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return the best valid records of a workload for a target, best first."""
        return best_records(self.tuning_records_of(workload, target), count)

    def workloads_like(
        self,
        mod: IRModule,
        equality: str | ModuleEquality,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[Workload]:
        """Return the workloads that satisfy `where` and equal `mod` under `equality`."""
        unknown = (ModuleIndex[Workload](ModuleEquality.create(equality)), 0)
        index, known = self._indices.get(equality, unknown)
        workloads = self._workloads()
        for workload in workloads[known:]:
            index.add(unnamed(workload.mod), workload)
        self._indices[equality] = index, len(workloads)
        return index.like(unnamed(mod), where)

    def records_like(
        self,
        mod: IRModule,
        target: Target | None,
        equality: str | ModuleEquality,
        count: int = 1,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[TuningRecord]:
        """Return the best valid records of programs that equal `mod` under `equality`.

        There are up to `count` of each workload that satisfies `where`.
        """
        like = dict.fromkeys(self.workloads_like(mod, equality, where))
        of_key = {self.workload_key(workload.mod): workload for workload in like}
        return [
            record
            for workload in of_key.values()
            for record in winner_first(
                record
                for record in self._usable_records(workload, target)
                if record.workload in like
            )[:count]
        ]

    def _usable_records(self, workload: Workload, target: Target | None) -> list[TuningRecord]:
        """Return the records of a workload for a target, or for another number of cores."""
        found = self.tuning_records_of(workload, target)
        if target is None or any(record.is_valid for record in found):
            return found
        return for_other_cores(self.tuning_records_of(workload), target)

    # ------------------------------------------------------------------------------- several tuners

    @property
    def has_claims(self) -> bool:
        """True if `claim` keeps tuners from measuring the same traces."""
        return False

    def records_behind(
        self, workload: Workload, target: Target | None, place: int
    ) -> tuple[list[TuningRecord], int]:
        """Return the records of a workload after a position, and the position after them.

        The next call with that position returns the records that were committed meanwhile; the
        first position is 0.
        """
        records = self.tuning_records_of(workload, target)
        return records[place:], max(place, len(records))

    def claim(
        self,
        workload: Workload,
        target: Target,
        trace_keys: Sequence[bytes],
        owner: str,
        seconds: int,
    ) -> Claimed:
        """Lease the traces to `owner` that have no other lease and no record.

        A database without leases, like this base class, is used by one tuner at a time, so it
        grants everything.
        """
        return Claimed(frozenset(trace_keys), frozenset())

    def renew_claims(self, owner: str, seconds: int) -> None:
        """Extend the leases of an owner to this many seconds from now; 0 ends them."""

    # ------------------------------------------------------------------------------------ queries

    def query_tuning_record(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> TuningRecord | None:
        """Return the best valid record of a program, None without one; nothing is committed.

        It may be of another program if `module_equality` does not compare all of it.
        """
        return next(iter(self._rank_records(mod, target)), None)

    def query_tuning_records(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Sequence[TuningRecord]:
        """Return the records to try for a program, most promising first.

        Records of other programs that are the same workload come last.
        """
        record = self.query_tuning_record(mod, target, workload_name)
        return () if record is None else (record,)

    def _rank_records(self, mod: IRModule, target: Target | str | None) -> list[TuningRecord]:
        """Return all valid records of a workload, those of the program itself first, best first."""
        found = self._usable_records(Workload(mod), None if target is None else Target(target))
        same = {of: same_structure(of.mod, mod) for of in {record.workload for record in found}}
        own = winner_first(record for record in found if same[record.workload])
        return [*own, *winner_first(record for record in found if not same[record.workload])]

    def query_schedule(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Schedule | None:
        """Return the best schedule of a program, under its recorded names, or None.

        Records of other programs are ignored; `search.find_schedule` adapts them where it can.
        """
        records = self.query_tuning_records(mod, target, workload_name)
        own = takewhile(lambda record: same_structure(record.workload.mod, mod), records)
        return next((sch for _, sch in with_schedules(own)), None)

    def query_ir_module(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> IRModule | None:
        """Return the best scheduled form of a program, None without one."""
        sch = self.query_schedule(mod, target, workload_name)
        return None if sch is None else sch.mod

    def query(
        self,
        mod: IRModule,
        target: Target | str | None,
        *,
        workload_name: str = "main",
        kind: Literal["schedule", "record", "ir_module"] = "schedule",
    ) -> Schedule | IRModule | TuningRecord | None:
        """Return the best schedule, record or scheduled module of a program, None without one."""
        if kind == "schedule":
            return self.query_schedule(mod, target, workload_name)
        if kind == "record":
            return self.query_tuning_record(mod, target, workload_name)
        if kind == "ir_module":
            return self.query_ir_module(mod, target, workload_name)
        raise IRValueError(f"kind must be 'schedule', 'record' or 'ir_module', got {kind!r}")

    # --------------------------------------------------------------------------------- all records

    def validate(
        self,
        *,
        runner: str | Runner | None = None,
        builder: str | Builder = "local",
        factor: float = 1.5,
    ) -> Findings:
        """Replay every record, with a runner measure it again, and return the faults.

        See `search.database.validate`.
        """
        return validate(self, runner=runner, builder=builder, factor=factor)

    def copy_to(self, destination: Database) -> None:
        """Add all records to another database, of any kind, in the order of their commit."""
        destination.commit_records(self.get_all_tuning_records())

    def dump_pruned(self, destination: Database, keep: int = 1) -> None:
        """Add the `keep` best valid records of each workload and target to another database."""
        destination.commit_records(self._best_of_each(self.get_all_tuning_records(), keep))

    def _best_of_each(self, records: Sequence[TuningRecord], keep: int) -> list[TuningRecord]:
        programs = programs_in(self, records)
        return [best for one in programs for best in winner_first(one.records)[:keep]]

    # --------------------------------------------------------------------------------- description

    @property
    def place(self) -> str:
        """The place of the records, for messages."""
        return f"a {type(self).__name__}"

    def members(self) -> Sequence[Database]:
        """Return the databases that hold records here: this one, or those of a union."""
        return (self,)

    def should_warn(self, *what: str) -> bool:
        """Return True at the first call with `what`, so that a warning is issued once."""
        new = what not in self._warned
        self._warned.add(what)
        return new

    def __repr__(self) -> str:
        try:
            count = len(self)
        except DatabaseError:
            return f"<{type(self).__name__} that does not answer: {self.place}>"
        return f"<{type(self).__name__} of {count} record{'s' * (count != 1)}: {self.place}>"

    def contents(self) -> list[tuple[str, ...]]:
        """Return a heading, and a row of texts for each program and target with its best time."""
        rows: list[tuple[str, ...]] = [("program", "target", "records", "failed", "best")]
        if len(self) > _TOO_MANY:
            return [*rows, ("", "", str(len(self)), "", "too many to look at")]
        programs = programs_in(self)
        for one in programs[:_LISTED_PROGRAMS]:
            best = next((best.median_seconds for best in winner_first(one.records)), None)
            failed = sum(not r.is_valid and r.bound_seconds is None for r in one.records)
            time = "none" if best is None else time_text(best)
            rows.append((str(one.workload), one.target, str(len(one.records)), str(failed), time))
        if len(programs) > _LISTED_PROGRAMS:
            rows.append((f"and {len(programs) - _LISTED_PROGRAMS} more", "", "", "", ""))
        return rows

    def _repr_html_(self) -> str:
        shown = f"<p>{html.escape(repr(self))}</p>"
        try:
            return f"{shown}{html_table(self.contents())}"
        except DatabaseError:
            return shown

    # --------------------------------------------------------------------------------- the current

    @staticmethod
    def current() -> Database | None:
        """Return the database of the innermost `with` block, None outside."""
        entered = innermost()
        return entered.as_database() if isinstance(entered, DatabaseScope) else None

    def as_database(self) -> Database:
        """Return the database itself."""
        return self

    def scheduled(self, name: str, func: PrimFunc, target: Target) -> PrimFunc | None:
        """Return the scheduled form of a function, None without a record of it."""
        history = import_module("search.history.history").History(self)
        found: PrimFunc | None = history.scheduled(name, func, target)
        return found

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> dict[str, PrimFunc]:
        """Return the scheduled forms of the functions with a schedule, by name.

        A function without records gets the schedule of a program with shorter loops, if there are
        records of one; a `History` has other options.
        """
        history = import_module("search.history.history").History(self, include_compatible=True)
        found: dict[str, PrimFunc] = history.schedules_of(functions, target)
        return found


PyDatabase = Database
"""The base class under its TVM name."""
