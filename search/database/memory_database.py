"""A database that lives as long as the process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from search.database.database import Database
from search.database.keyed_database import Choose, KeyedDatabase
from search.database.module_equality import ModuleEquality
from search.database.target_key import same_target
from search.database.workload_table import WorkloadTable

if TYPE_CHECKING:
    from codegen import Target
    from search.database.records import TuningRecord, Workload


_adding: Final = threading.Lock()
"""Held while a workload is added: of threads that commit the same one, one adds it."""


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
