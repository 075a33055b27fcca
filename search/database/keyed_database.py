"""Databases of workloads and records by key, and the one that lives as long as the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codegen import Target
from search.database.best_records import best_of_each, winner_first
from search.database.database import Database
from search.database.module_equality import ModuleEquality, ModuleIndex, same_structure, unnamed
from search.database.records import TuningRecord, Workload
from search.database.store import RECORDS, WORKLOADS, Claimed, Lease, MemoryStore, Store
from search.database.target_key import for_other_cores, target_key
from tensorir.errors import IRValueError

if TYPE_CHECKING:
    from tensorir.function import IRModule

V = TypeVar("V")

_MOST_KNOWN: Final = 1024
"""Programs whose workloads are remembered."""


class KeyedDatabase(Database):
    """Workloads and records in a store, by key and target and not by object.

    The key of a workload is the hash of its program as text, with a number behind it where another
    program has that key already. Programs that are the same workload share a key, and each keeps
    its own names, because a trace calls blocks and functions by name.
    """

    def __init__(self, store: Store, module_equality: str | ModuleEquality = "structural") -> None:
        super().__init__(module_equality)
        self.store = store
        self._indices: dict[str | ModuleEquality, tuple[ModuleIndex[Workload], int]] = {}
        """The workloads by what they are like, and of how many that is known."""
        self._found: dict[IRModule, str] = {}
        """The keys of programs that were committed; a workload stays for ever."""
        self._committed: dict[IRModule, Workload] = {}

    @property
    def has_claims(self) -> bool:
        """True if the store keeps tuners from measuring the same traces."""
        return self.store.has_claims

    # ----------------------------------------------------------------------------------- the store

    def workloads(self, key: str | None = None) -> Sequence[Workload]:
        """Return the programs under a key in the order of their commit; all without a key."""
        return [one.value for one in self.store.read(WORKLOADS, key)]

    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records under a key, or all, in the order of their commit."""
        return [one.value for one in self.store.read(RECORDS, key, target=_text(target))]

    def commit_workload(self, mod: IRModule) -> Workload:
        """Return the workload of a program, added if it is new."""
        known = self._committed.get(mod)
        if known is None:
            (known,) = self.store.append(WORKLOADS, [(self.workload_key(mod), Workload(mod))])
            _remember(self._committed, mod, known)
        return known

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record; IRValueError if its workload was not committed before.

        DatabaseError for one that no database takes: see `TuningRecord.check`.
        """
        record.check()
        if not self.has_workload(record.workload.mod):
            raise IRValueError("commit the workload of a record before the record")
        self.commit_records([record])

    def commit_records(self, records: Sequence[TuningRecord]) -> None:
        """Commit records and their workloads, all at once; nothing if one is not taken."""
        for record in records:
            record.check()
        keys = {
            workload: self.workload_key(workload.mod)
            for workload in dict.fromkeys(record.workload for record in records)
        }
        for workload, key in keys.items():
            self.store.append(WORKLOADS, [(key, workload)])
        self.store.append(RECORDS, [(keys[record.workload], record) for record in records])

    def copy_to(self, destination: Database) -> None:
        """Add all workloads and records to another database, of whatever kind."""
        for workload in self.workloads():
            destination.commit_workload(workload.mod)
        super().copy_to(destination)

    def prune(self, keep: int = 1) -> None:
        """Keep the `keep` best valid records of each workload and target, and no others."""
        self.store.retain(
            lambda records: best_of_each(records, keep, lambda w: self.workload_key(w.mod))
        )

    def unreadable(self) -> list[str]:
        """Return the place and the reason for each entry that could not be read."""
        return self.store.unreadable()

    def close(self) -> None:
        """Release files and connections; the next use opens them again."""
        self.store.close()

    def __len__(self) -> int:
        return self.store.count(RECORDS)

    # ------------------------------------------------------------------------------- of a workload

    def workload_key(self, mod: IRModule) -> str:
        """Return the key of a program, whether it was committed or not."""
        return self._find(mod)[0]

    def has_workload(self, mod: IRModule) -> bool:
        """Say whether a program is a workload of this database."""
        return self._find(mod)[1]

    def get_top_k(
        self, workload: Workload, top_k: int, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return the `top_k` best valid records of a workload, best first; IRValueError below 0."""
        if top_k < 0:
            raise IRValueError(f"top_k is at least 0, got {top_k}")
        key = self.workload_key(workload.mod)
        return self.store.best(key, top_k, _text(target)) if top_k else []

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
        return self.store.count(RECORDS, self.workload_key(workload.mod), _text(target))

    # ------------------------------------------------------------------ several tuners at one time

    def records_behind(
        self, workload: Workload, target: Target | None, place: int
    ) -> tuple[list[TuningRecord], int]:
        """Return the records of a workload behind a place, and the place behind them."""
        key = self.workload_key(workload.mod)
        found = self.store.read(RECORDS, key, behind=place, target=_text(target))
        return [one.value for one in found], max((one.number for one in found), default=place)

    def claim(
        self,
        workload: Workload,
        target: Target,
        trace_keys: Sequence[bytes],
        owner: str,
        seconds: int,
    ) -> Claimed:
        """Lease to `owner` those of traces that nobody measures or has measured."""
        wanted = Lease(self.workload_key(workload.mod), target_key(target), trace_keys)
        return self.store.claim(owner, seconds, wanted)

    def renew_claims(self, owner: str, seconds: int) -> None:
        """Let the claims of an owner last for so many seconds from now on; 0 ends them."""
        self.store.claim(owner, seconds)

    # ------------------------------------------------------------------------------------- queries

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
        found = index.like(unnamed(mod), where)
        return [(self.workload_key(workload.mod), workload) for workload in found]

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

    def _find(self, mod: IRModule) -> tuple[str, bool]:
        """Return the key of a program and whether it is taken."""
        if mod in self._found:
            return self._found[mod], True
        first = super().workload_key(mod)
        for number in count():
            key = f"{first}.{number}" if number else first
            known = self.workloads(key)
            if not known:
                return key, False
            if self.same_workload(known[0].mod, mod):
                _remember(self._found, mod, key)
                return key, True
        raise AssertionError  # count() does not end


def _text(target: Target | None) -> str | None:
    return None if target is None else target_key(target)


def _remember(known: dict[Any, V], mod: IRModule, value: V) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[mod] = value


@Database.kinds.register("memory")
class MemoryDatabase(KeyedDatabase):
    """Workloads and records in lists, for as long as the process lives."""

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        super().__init__(MemoryStore(), module_equality)

    @property
    def place(self) -> str:
        """The words for messages: the records have no file."""
        return "a database in memory"
