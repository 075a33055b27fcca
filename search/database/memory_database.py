"""A database that lives as long as the process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from search.database.database import Database
from search.database.module_equality import ModuleEquality
from search.database.records import TuningRecord, Workload
from tensorir.errors import IRValueError

if TYPE_CHECKING:
    from tensorir.function import IRModule


@Database.kinds.register("memory")
class MemoryDatabase(Database):
    """Workloads and records in lists."""

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        super().__init__(module_equality)
        self._workloads: list[Workload] = []
        self._by_hash: dict[int, list[int]] = {}
        self._records: list[TuningRecord] = []

    def has_workload(self, mod: IRModule) -> bool:
        """Say whether a program is a workload of this database."""
        return self._find(mod) is not None

    def commit_workload(self, mod: IRModule) -> Workload:
        """Return the workload of a program, added if it is new."""
        index = self._find(mod)
        return self._add_workload(Workload(mod)) if index is None else self._workloads[index]

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record; IRValueError if its workload was not committed before."""
        own = self._workloads[self.workload_index(record.workload)]
        self._records.append(replace(record, workload=own))

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """Return the `top_k` best valid records of a workload, best first; IRValueError below 0."""
        if top_k < 0:
            raise IRValueError(f"top_k is at least 0, got {top_k}")
        index = self._find(workload.mod)
        if index is None or top_k == 0:
            return []
        own = self._workloads[index]
        found = [r for r in self._records if r.workload is own and r.is_valid]
        found.sort(key=lambda record: record.mean_seconds)
        return found[:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Return all records, valid or not, in the order in which they were committed."""
        return list(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def workload_index(self, workload: Workload) -> int:
        """Return the place of a committed workload; IRValueError for another."""
        index = self._find(workload.mod)
        if index is None:
            raise IRValueError("commit the workload of a record before the record")
        return index

    def _find(self, mod: IRModule) -> int | None:
        same_hash = self._by_hash.get(self.module_equality.hash(mod), ())
        for index in same_hash:
            known = self._workloads[index].mod
            if known is mod or self.module_equality.equal(known, mod):
                return index
        return None

    def _add_workload(self, workload: Workload) -> Workload:
        key = self.module_equality.hash(workload.mod)
        self._by_hash.setdefault(key, []).append(len(self._workloads))
        self._workloads.append(workload)
        return workload
