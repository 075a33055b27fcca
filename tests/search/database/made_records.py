"""Records of a product of matrices, for tests of databases."""

from __future__ import annotations

from codegen import Target
from schedule import Schedule
from search.arg_info import ArgInfo
from search.database import Database, TuningRecord
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
