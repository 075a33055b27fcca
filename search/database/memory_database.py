"""A database that lives as long as the process, and the table of workloads that it has."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from search.database.database import Database
from search.database.keyed_database import Choose, KeyedDatabase
from search.database.module_equality import ModuleEquality
from search.database.target_key import same_target
from search.errors import DatabaseError

if TYPE_CHECKING:
    from codegen import Target
    from search.database.records import TuningRecord, Workload

_adding: Final = threading.Lock()
"""Held while a workload is added: of threads that commit the same one, one adds it."""


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
