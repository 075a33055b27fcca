"""Records of a product of matrices, for tests of databases."""

from __future__ import annotations

from dataclasses import replace

from codegen import Target
from schedule import Schedule
from search.arg_info import ArgInfo
from search.database import Database, TuningRecord, Workload
from tensorir.function import IRModule
from tests.search import programs
from tests.search.programs import Matmul

TARGET = Target("llvm -num-cores=1")
AVX512 = Target("llvm -mcpu=skylake-avx512 -num-cores=1")
OTHER = IRModule({"main": programs.adds_one})


def scheduled(decision: tuple[int, int]) -> Schedule:
    sch = Schedule(Matmul)
    block = sch.get_block("C", "main")
    i, j, _ = sch.get_loops(block)
    sch.split(j, sch.sample_perfect_tile(j, n=2, decision=list(decision)))
    sch.enter_postproc()
    sch.parallel(i)
    return sch


def commit(database: Database, decision: tuple[int, int], seconds: float) -> TuningRecord:
    workload = database.commit_workload(Matmul)
    sch = scheduled(decision)
    info = ArgInfo.from_entry_func(sch.mod)
    record = TuningRecord(sch.trace, workload, [seconds], TARGET, info)
    database.commit_tuning_record(record)
    return record


def seconds(database: Database) -> list[float]:
    """Return the times of all records."""
    return times(database.get_all_tuning_records())


def times(records: list[TuningRecord]) -> list[float]:
    return [record.mean_seconds for record in records]


class Lists(Database):
    """What a user of TVM's `PyDatabase` writes."""

    def __init__(self) -> None:
        super().__init__()
        self.workloads: list[Workload] = []
        self.kept: list[TuningRecord] = []

    def has_workload(self, mod: IRModule) -> bool:
        return any(self.module_equality.equal(mod, known.mod) for known in self.workloads)

    def commit_workload(self, mod: IRModule) -> Workload:
        if not self.has_workload(mod):
            self.workloads.append(Workload(mod))
        return next(w for w in self.workloads if self.module_equality.equal(mod, w.mod))

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self.kept.append(replace(record))

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        same = self.module_equality.equal
        own = [r for r in self.kept if r.is_valid and same(r.workload.mod, workload.mod)]
        return sorted(own, key=lambda record: record.mean_seconds)[:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return list(self.kept)

    def __len__(self) -> int:
        return len(self.kept)
