"""Databases that keep values under keys, and the one that lives as long as the process."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from codegen import Target
from search.database.best_records import best_of_each, best_records, winner_first
from search.database.database import Database
from search.database.module_equality import ModuleEquality, ModuleIndex, same_structure, unnamed
from search.database.records import Workload
from search.database.target_key import for_other_cores, same_target
from search.errors import DatabaseError
from tensorir.errors import IRValueError

if TYPE_CHECKING:
    from search.database.records import TuningRecord
    from tensorir.function import IRModule

Choose = Callable[[list["TuningRecord"]], list["TuningRecord"]]

_adding: Final = threading.Lock()
"""Held while a workload is added: of threads that commit the same one, one adds it."""


class KeyedDatabase(Database):
    """Workloads by key, and records by key and target; nothing depends on whose objects they are.

    The key of a workload is the hash of its program as text, with a number behind it where another
    program took that already. Programs that are the same workload share a key and are kept each
    under its own names, because a trace calls blocks and functions by name.

    A subclass stores: it implements `workloads`, `put_workload`, `records`, `put_records` and
    `retain`.
    """

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        super().__init__(module_equality)
        self._indices: dict[str | ModuleEquality, tuple[ModuleIndex[Workload], int]] = {}
        """The workloads by what they are like, and of how many that is known."""
        self._keys: dict[Workload, str] = {}

    @abstractmethod
    def workloads(self, key: str | None = None) -> Sequence[Workload]:
        """Return the programs under a key in the order of their commit; all without a key."""

    @abstractmethod
    def put_workload(self, key: str, workload: Workload) -> Workload:
        """Return the workload with the same script under a key; it is added if there is none."""

    @abstractmethod
    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records under a key, or all, in the order of their commit."""

    @abstractmethod
    def put_records(self, records: Sequence[tuple[str, TuningRecord]]) -> None:
        """Add records with the keys of their workloads, which were put before."""

    @abstractmethod
    def retain(self, choose: Choose) -> None:
        """Drop all records but those that `choose` returns of all; nobody writes meanwhile."""

    def count_records(self, key: str | None = None, target: Target | None = None) -> int:
        """Return the number of records under a key, or of all."""
        return len(self.records(key, target))

    # ------------------------------------------------------------------------- what the search asks

    def workload_key(self, mod: IRModule) -> str:
        """Return the key of a program, whether it was committed or not."""
        return self._find(mod)[0]

    def has_workload(self, mod: IRModule) -> bool:
        """Say whether a program is a workload of this database."""
        return self._find(mod)[1]

    def commit_workload(self, mod: IRModule) -> Workload:
        """Return the workload of a program, added if it is new."""
        return self.put_workload(self.workload_key(mod), Workload(mod))

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record; IRValueError if its workload was not committed before.

        DatabaseError for one that no database takes: see `TuningRecord.check`.
        """
        record.check()
        key, known = self._find(record.workload.mod)
        if not known:
            raise IRValueError("commit the workload of a record before the record")
        self.put_workload(key, record.workload)
        self.put_records([(key, record)])

    def commit_records(self, records: Sequence[TuningRecord]) -> None:
        """Commit records and their workloads, all at once; nothing if one is not taken."""
        for record in records:
            record.check()
        keys: dict[Workload, str] = {}
        for workload in dict.fromkeys(record.workload for record in records):
            keys[workload] = self.workload_key(workload.mod)
            self.put_workload(keys[workload], workload)
        self.put_records([(keys[record.workload], record) for record in records])

    def copy_to(self, destination: Database) -> None:
        """Add all workloads and records to another database, of whatever kind."""
        for workload in self.workloads():
            destination.commit_workload(workload.mod)
        super().copy_to(destination)

    def get_top_k(
        self, workload: Workload, top_k: int, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return the `top_k` best valid records of a workload, best first; IRValueError below 0."""
        if top_k < 0:
            raise IRValueError(f"top_k is at least 0, got {top_k}")
        return best_records(self.tuning_records_of(workload, target), top_k) if top_k else []

    def top_records(
        self, workload: Workload, count: int, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return the best valid records of a workload made for a target, best first."""
        return self.get_top_k(workload, count, target)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Return all records, valid or not, in the order in which they were committed."""
        return self.records()

    def tuning_records_of(
        self, workload: Workload, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return all records of a workload, valid or not, in the order of their commit."""
        return self.records(self.workload_key(workload.mod), target)

    def count(self, workload: Workload, target: Target | None = None) -> int:
        """Return how many records a workload has; a trace measured twice counts twice."""
        return self.count_records(self.workload_key(workload.mod), target)

    def query_tuning_record(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> TuningRecord | None:
        """Return the best valid record of a program, None without one; nothing is committed."""
        return next(iter(self.query_tuning_records(mod, target, workload_name)), None)

    def query_tuning_records(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Sequence[TuningRecord]:
        """Return all valid records of a program, those of its own structure first, best first.

        Before the fastest is the winner that a search named; see `winner_first`.
        """
        wanted = None if target is None else Target(target)
        found = self._answers(self.workload_key(mod), wanted)
        same = {of: same_structure(of.mod, mod) for of in {record.workload for record in found}}
        own = winner_first(record for record in found if same[record.workload])
        return [*own, *winner_first(record for record in found if not same[record.workload])]

    def workloads_like(
        self,
        mod: IRModule,
        equality: str | ModuleEquality,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[tuple[str, Workload]]:
        """Return the workloads that are the same as `mod` and satisfy `where`, with their keys.

        They are compared by `equality`. Each is hashed once, when it is first looked for.
        """
        index, known = self._indices.get(equality) or (
            ModuleIndex(ModuleEquality.create(equality)),
            0,
        )
        workloads = self.workloads()
        for workload in workloads[known:]:
            index.add(unnamed(workload.mod), workload)
        self._indices[equality] = index, len(workloads)
        like = index.like(unnamed(mod), where)
        for workload in like:
            if workload not in self._keys:
                self._keys[workload] = self.workload_key(workload.mod)
        return [(self._keys[workload], workload) for workload in like]

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
        like = self.workloads_like(mod, equality, where)
        programs = {workload for _, workload in like}
        return [
            record
            for key in dict.fromkeys(key for key, _ in like)
            for record in winner_first(
                record for record in self._answers(key, target) if record.workload in programs
            )[:count]
        ]

    def _answers(self, key: str, target: Target | None) -> list[TuningRecord]:
        """Return the records under a key for a target, or for another number of cores."""
        found = self.records(key, target)
        if target is None or any(record.is_valid for record in found):
            return found
        return for_other_cores(self.records(key), target)

    def prune(self, keep: int = 1) -> None:
        """Keep the `keep` best valid records of each workload and target, and no others."""
        self.retain(lambda records: best_of_each(records, keep, lambda w: self.workload_key(w.mod)))

    def __len__(self) -> int:
        return self.count_records()

    def _find(self, mod: IRModule) -> tuple[str, bool]:
        """Return the key of a program and whether it is taken."""
        first = super().workload_key(mod)
        for number in count():
            key = f"{first}.{number}" if number else first
            known = self.workloads(key)
            if not known:
                return key, False
            if self.same_workload(known[0].mod, mod):
                return key, True
        raise AssertionError  # count() does not end


class WorkloadTable:
    """Workloads by their place, in the order of their commit, and those under one key.

    A place may be empty: that of a line that holds no workload, which other places count on.
    """

    def __init__(self) -> None:
        self._rows: list[Workload | None] = []
        self._keys: list[str] = []
        self._places: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> Workload:
        workload = self._rows[place]
        if workload is None:
            raise DatabaseError(f"its workload, number {place}, could not be read")
        return workload

    def key(self, place: int) -> str:
        """Return the key of the workload at a place."""
        return self._keys[place]

    def under(self, key: str | None) -> Sequence[Workload]:
        """Return the workloads under a key in the order of their commit; all without a key."""
        if key is None:
            return [workload for workload in self._rows if workload is not None]
        return [self[place] for place in self._places.get(key, ())]

    def find(self, key: str, workload: Workload) -> int | None:
        """Return the place of the workload with the same script under a key, None without one."""
        for place in self._places.get(key, ()):
            known = self[place]
            if known is workload or known.script == workload.script:
                return place
        return None

    def add(self, key: str, workload: Workload) -> int:
        """Add a workload under a key and return its place."""
        self._places.setdefault(key, []).append(len(self._rows))
        self._rows.append(workload)
        self._keys.append(key)
        return len(self._rows) - 1

    def add_empty(self) -> None:
        """Add an empty place."""
        self._rows.append(None)
        self._keys.append("")


@Database.kinds.register("memory")
class MemoryDatabase(KeyedDatabase):
    """Workloads and records in lists, those of each key in one of its own."""

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        super().__init__(module_equality)
        self._workloads = WorkloadTable()
        self._records: list[TuningRecord] = []
        self._of_key: dict[str, list[TuningRecord]] = {}

    @property
    def place(self) -> str:
        """The words for messages: the records have no file."""
        return "a database in memory"

    def workloads(self, key: str | None = None) -> Sequence[Workload]:
        """Return the programs under a key in the order of their commit; all without a key."""
        return self._workloads.under(key)

    def put_workload(self, key: str, workload: Workload) -> Workload:
        """Return the workload with the same script under a key; it is added if there is none."""
        with _adding:
            place = self._workloads.find(key, workload)
            return self._workloads[self._workloads.add(key, workload) if place is None else place]

    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records under a key, or all, in the order of their commit."""
        records = self._records if key is None else self._of_key.get(key, [])
        return [record for record in records if same_target(record.target, target)]

    def put_records(self, records: Sequence[tuple[str, TuningRecord]]) -> None:
        """Add records with the keys of their workloads, which were put before."""
        for key, record in records:
            own = self.put_workload(key, record.workload)
            kept = replace(record, workload=own)
            self._records.append(kept)
            self._of_key.setdefault(key, []).append(kept)

    def retain(self, choose: Choose) -> None:
        """Drop all records but those that `choose` returns of all."""
        kept = set(map(id, choose(self.records())))
        self._records = [record for record in self._records if id(record) in kept]
        self._of_key = {
            key: [record for record in records if id(record) in kept]
            for key, records in self._of_key.items()
        }
