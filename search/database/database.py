"""The base class of databases, how one is asked for a schedule, and which is the current one."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from codegen import Target
from codegen.history import KnownSchedules, innermost
from search.database.best_records import best_of_each, winner_first, with_schedules
from search.database.module_equality import ModuleEquality, same_structure, unnamed
from search.database.store import Claimed
from search.database.target_key import for_other_cores, same_target
from search.database.validate import Findings, validate
from search.errors import DatabaseError
from search.kinds import Registry
from search.runner.time_text import time_text
from tensorir.errors import IRValueError
from tensorir.text_table import html_table

if TYPE_CHECKING:
    from schedule import Schedule
    from search.builder import Builder
    from search.database.records import TuningRecord, Workload
    from search.reports.report import RunReport
    from search.runner import Runner
    from tensorir.function import IRModule, PrimFunc


class Entered(KnownSchedules):
    """A database, or what stands for one, that is current inside of its `with`."""

    @abstractmethod
    def as_database(self) -> Database:
        """Return the database that is current inside."""


_SQL: Final = "search.database.sql_database"
_LISTED_PROGRAMS: Final = 20
_TOO_MANY: Final = 50_000
"""Records from which on a database is not read for a look at it."""


class Database(Entered):
    """Workloads and tuning records, as the search asks for them.

    A subclass implements the abstract methods, which are those of TVM's `PyDatabase`; the rest
    builds on them. One that keeps values under keys is easier to derive from `KeyedDatabase`.

    `module_equality` says which programs are the same workload; what their function is called does
    not count, nor whether it has `tir.noalias`. Where a target is asked for, records made for
    another one do not answer (`target_key` says what that is); None asks for any. Queries, those
    methods whose names begin so, and `records_like` answer with records for another number of cores
    where there are none for the target. Of several
    records of a workload with the same trace and target the last one counts. `with database:` makes
    it the current one.
    """

    kinds: ClassVar[Registry[Database]] = Registry(
        "database",
        dict.fromkeys(("sql", "server", "sqlite://", "postgresql://", "postgres://"), _SQL)
        | dict.fromkeys(("mysql://", "mariadb://"), _SQL),
    )
    report: RunReport | None = None
    """What the search reported that wrote to the database last, in this process."""

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        self.module_equality = ModuleEquality.create(module_equality)
        self._said: set[tuple[str, ...]] = set()

    @staticmethod
    def create(
        kind: str | Database | Callable[[Schedule], bool] = "json", *args: Any, **kwargs: Any
    ) -> Database:
        """Return a database: `"json"`, `"sql"`, `"memory"`, `"union"`, ..., a URL or a function.

        `"sqlite:///path"` is a file, `"postgresql+psycopg://user@host/db"` a database on a server.
        A function `f(sch) -> bool` schedules a program itself, or says by False that it cannot.
        """
        if callable(kind) and not isinstance(kind, type):
            return Database.kinds.make("schedule-fn", kind, *args, **kwargs)
        return Database.kinds.part(kind, *args, **kwargs)

    # ------------------------------------------------------------------------------------ storage

    @abstractmethod
    def has_workload(self, mod: IRModule) -> bool:
        """Say whether a program is a workload of this database."""

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

    def unreadable(self) -> list[str]:
        """Return the place and the reason for each entry that could not be read."""
        return []

    # ---------------------------------------------------------------------------- by key and target

    def workload_key(self, mod: IRModule) -> str:
        """Return a text that programs share if they are the same workload."""
        return str(self.module_equality.hash(unnamed(mod)))

    def same_workload(self, a: IRModule, b: IRModule) -> bool:
        """Say whether two programs are the same workload."""
        return a is b or self.module_equality.equal(unnamed(a), unnamed(b))

    def tuning_records_of(
        self, workload: Workload, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return all records of a workload, valid or not, in the order of their commit."""
        same: dict[Workload, bool] = {}
        found = []
        for record in self.get_all_tuning_records():
            other = record.workload
            if other not in same:
                same[other] = self.same_workload(other.mod, workload.mod)
            if same[other] and same_target(record.target, target):
                found.append(record)
        return found

    def count(self, workload: Workload, target: Target | None = None) -> int:
        """Return how many records a workload has; a trace measured twice counts twice."""
        return len(self.tuning_records_of(workload, target))

    def top_records(
        self, workload: Workload, count: int, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return the best valid records of a workload made for a target, best first."""
        best = self.get_top_k(workload, count if target is None else len(self))
        return [record for record in best if same_target(record.target, target)][:count]

    # ------------------------------------------------------------------- several tuners at one time

    @property
    def has_claims(self) -> bool:
        """True if `claim` keeps tuners from measuring the same traces."""
        return False

    def records_behind(
        self, workload: Workload, target: Target | None, place: int
    ) -> tuple[list[TuningRecord], int]:
        """Return the records of a workload behind a place, and the place behind them.

        Who asks again with that place gets what was committed meanwhile; the first place is 0.
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
        """Lease to `owner`, for so many seconds, those of traces that nobody measures or measured.

        A database without claims, as this one, is not shared by tuners at work: it grants all.
        """
        return Claimed(frozenset(trace_keys), frozenset())

    def renew_claims(self, owner: str, seconds: int) -> None:
        """Let the claims of an owner last for so many seconds from now on; 0 ends them."""

    def settle(self) -> None:
        """Commit what could not be committed before, where such records are kept."""

    # ------------------------------------------------------------------------------------ queries

    def query_tuning_record(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> TuningRecord | None:
        """Return the best valid record of a program, None without one.

        It may be of another program where `module_equality` does not compare all of it.
        """
        if not self.has_workload(mod):
            return None
        wanted = None if target is None else Target(target)
        return next(iter(self._best_for(self.commit_workload(mod), 1, wanted)), None)

    def query_tuning_records(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Sequence[TuningRecord]:
        """Return the records to try for a program, the most promising first.

        Those of a program that only counts as the same come last.
        """
        record = self.query_tuning_record(mod, target, workload_name)
        return () if record is None else (record,)

    def records_like(
        self,
        mod: IRModule,
        target: Target | None,
        equality: str | ModuleEquality,
        count: int = 1,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[TuningRecord]:
        """Return the best valid records of programs that are the same as `mod` under `equality`.

        There are up to `count` of each of the workloads that satisfy `where`.
        """
        kind = ModuleEquality.create(equality)
        asked = unnamed(mod)
        workloads = dict.fromkeys(record.workload for record in self.get_all_tuning_records())
        return [
            record
            for workload in workloads
            if kind.equal(unnamed(workload.mod), asked) and where(workload)
            for record in self._best_for(workload, count, target)
        ]

    def _best_for(
        self, workload: Workload, count: int, target: Target | None
    ) -> list[TuningRecord]:
        """Return the best valid records for a target, or for another number of cores."""
        found = self.top_records(workload, count, target)
        if found or target is None:
            return found
        return for_other_cores(self.get_top_k(workload, len(self)), target)[:count]

    def query_schedule(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Schedule | None:
        """Return the best schedule of a program, under the names it was recorded with, or None.

        What was recorded of a program that only counts as the same is no schedule of this one;
        `search.find_schedule` makes one of it where it can.
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
        """Return the best of a program as a schedule, a record or a module."""
        if kind == "schedule":
            return self.query_schedule(mod, target, workload_name)
        if kind == "record":
            return self.query_tuning_record(mod, target, workload_name)
        if kind == "ir_module":
            return self.query_ir_module(mod, target, workload_name)
        raise IRValueError(f"kind is 'schedule', 'record' or 'ir_module', got {kind!r}")

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
        records = self.get_all_tuning_records()
        return validate(
            [(self.workload_key(record.workload.mod), record) for record in records],
            self.unreadable(),
            runner=runner,
            builder=builder,
            factor=factor,
        )

    # ------------------------------------------------------------------------------- what is there

    @property
    def place(self) -> str:
        """The place of the records, for messages."""
        return f"a {type(self).__name__}"

    def members(self) -> Sequence[Database]:
        """Return the databases that hold records here: this one, or those of a union."""
        return (self,)

    def is_first_time(self, *what: str) -> bool:
        """Say whether something is to be said of this database for the first time."""
        new = what not in self._said
        self._said.add(what)
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
        groups: dict[tuple[str, str], list[TuningRecord]] = {}
        for record in self.get_all_tuning_records():
            groups.setdefault((str(record.workload), str(record.target or "")), []).append(record)
        for (program, target), records in list(groups.items())[:_LISTED_PROGRAMS]:
            best = next((one.median_seconds for one in winner_first(records)), None)
            failed = sum(not one.is_valid and one.bound_seconds is None for one in records)
            time = "none" if best is None else time_text(best)
            rows.append((program, target, str(len(records)), str(failed), time))
        if len(groups) > _LISTED_PROGRAMS:
            rows.append((f"and {len(groups) - _LISTED_PROGRAMS} more", "", "", "", ""))
        return rows

    def _repr_html_(self) -> str:
        shown = f"<p>{html.escape(repr(self))}</p>"
        try:
            return f"{shown}{html_table(self.contents())}"
        except DatabaseError:
            return shown

    # ----------------------------------------------------------------------------- to another one

    def copy_to(self, destination: Database) -> None:
        """Add all records to another database, of whatever kind, in the order of their commit."""
        destination.commit_records(self.get_all_tuning_records())

    def dump_pruned(self, destination: Database, keep: int = 1) -> None:
        """Add the `keep` best valid records of each workload and target to another database."""
        best = best_of_each(
            self.get_all_tuning_records(), keep, lambda workload: self.workload_key(workload.mod)
        )
        destination.commit_records(best)

    def commit_records(self, records: Sequence[TuningRecord]) -> None:
        """Commit records and their workloads."""
        for record in records:
            self.commit_workload(record.workload.mod)
            self.commit_tuning_record(record)

    # -------------------------------------------------------------------------------- the current

    @staticmethod
    def current() -> Database | None:
        """Return the database of the innermost `with`, None outside."""
        entered = innermost()
        return entered.as_database() if isinstance(entered, Entered) else None

    def as_database(self) -> Database:
        """Return the database itself."""
        return self

    def scheduled(self, name: str, func: PrimFunc, target: Target) -> PrimFunc | None:
        """Return the scheduled form of a function that a record is known of, else None."""
        history = import_module("search.history.history").History(self)
        found: PrimFunc | None = history.scheduled(name, func, target)
        return found

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> dict[str, PrimFunc]:
        """Return the scheduled forms of those functions that a schedule is found of, by name.

        A function without records gets the schedule of a program with shorter loops, if there are
        records of one; a `History` has other options.
        """
        history = import_module("search.history.history").History(self, include_compatible=True)
        found: dict[str, PrimFunc] = history.schedules_of(functions, target)
        return found


PyDatabase = Database
"""The base class under the name that it has for user classes in TVM."""
