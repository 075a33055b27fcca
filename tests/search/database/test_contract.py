"""The contract of all databases: records belong to a program and a target by value."""

from __future__ import annotations

import math
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import search as ms
from codegen import Target
from schedule import Schedule
from search import DatabaseError
from search.database import (
    JSONDatabase,
    KeyedDatabase,
    MemoryDatabase,
    ModuleEquality,
    SQLDatabase,
    TuningRecord,
    target_key,
)
from tensorir import I, T, assert_structural_equal, parse
from tensorir.errors import IRValueError
from tensorir.function import IRModule
from tests.search.database.made_records import (
    AVX512,
    OTHER,
    TARGET,
    commit,
    scheduled,
    seconds,
    times,
)
from tests.search.programs import Matmul

RENAMED = parse(Matmul.script().replace('T.block("C")', 'T.block("product")'))


def best(database: KeyedDatabase) -> float:
    record = database.query_tuning_record(Matmul, TARGET)
    assert record is not None
    return record.mean_seconds


# ------------------------------------------------------------------------------- commits and queries


def test_the_best_valid_record_is_found(database: KeyedDatabase) -> None:
    assert not database.has_workload(Matmul)
    for decision, time in (((8, 4), 3e-6), ((4, 8), 1e-6), ((2, 16), 1e10), ((16, 2), 2e-6)):
        commit(database, decision, time)
    workload = database.commit_workload(Matmul)
    assert times(database.get_top_k(workload, 2)) == [1e-6, 2e-6]
    assert database.get_top_k(workload, 0) == []
    assert len(database.get_top_k(workload, 9)) == 3, "the failed one is not valid"
    with pytest.raises(IRValueError, match="at least 0"):
        database.get_top_k(workload, -1)
    found = database.query(Matmul, TARGET)
    assert isinstance(found, Schedule)
    assert_structural_equal(found.mod, scheduled((4, 8)).mod)
    assert database.query(OTHER, TARGET) is None


def test_an_empty_trace_is_the_record_of_the_unscheduled_program(database: KeyedDatabase) -> None:
    commit(database, (4, 8), 2e-6)
    workload = database.commit_workload(Matmul)
    plain = TuningRecord(Schedule(Matmul).trace, workload, [1e-6], TARGET)
    database.commit_tuning_record(plain)
    first, second = database.get_top_k(workload, 2)
    assert (first.schedules, second.schedules) == (False, True)
    found = ms.find_schedule(database, Matmul, TARGET)
    assert found is not None
    assert_structural_equal(found.schedule.mod, Matmul)


def test_what_is_committed_is_read_by_others(
    opened: Callable[[], KeyedDatabase], database: KeyedDatabase
) -> None:
    commit(database, (8, 4), 1.0 / 3.0)
    pid = os.fork()
    if not pid:
        try:
            commit(database, (4, 8), 0.125)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    if isinstance(database, MemoryDatabase):
        commit(database, (4, 8), 0.125)
    commit(database, (2, 16), 0.5)
    for each in (database, opened()):
        assert seconds(each) == [1.0 / 3.0, 0.125, 0.5]
        first, second, _ = each.get_all_tuning_records()
        assert second.target == TARGET
        infos = [str(info) for info in second.args_info or ()]
        assert infos == ['TensorInfo("float32", [32, 32])'] * 3
        assert_structural_equal(second.schedule().mod, scheduled((4, 8)).mod)
        assert_structural_equal(first.workload.mod, Matmul)


@pytest.mark.parametrize("wrong", [-1e-6, math.nan, math.inf, np.float32("nan")])
def test_a_record_that_cannot_be_read_is_not_written(
    opened: Callable[[], KeyedDatabase], database: KeyedDatabase, wrong: float
) -> None:
    commit(database, (8, 4), 1e-6)
    workload = database.commit_workload(Matmul)
    good = TuningRecord(scheduled((4, 8)).trace, workload, [2e-6], TARGET)
    bad = replace(good, run_secs=[1e-6, wrong])
    with pytest.raises(DatabaseError, match=r"field 1 \(run_secs\) is a list of seconds"):
        database.commit_tuning_record(bad)
    with pytest.raises(DatabaseError, match=r"field 1 \(run_secs\)"):
        database.commit_records([good, bad])
    assert seconds(database) == seconds(opened()) == [1e-6]


def test_four_threads_commit_and_query(database: KeyedDatabase) -> None:
    copy = database
    if not isinstance(database, MemoryDatabase):
        copy = pickle.loads(pickle.dumps(database))
    trace = scheduled((8, 4)).trace
    start = threading.Barrier(4)

    def commits(first: int) -> None:
        own = (database, copy)[first // 20 % 2]
        start.wait()
        for number in range(first, first + 20):
            workload = own.commit_workload(Matmul)
            own.commit_tuning_record(TuningRecord(trace, workload, [float(number)], TARGET))
            assert own.query_tuning_record(Matmul, TARGET) is not None

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(commits, range(0, 80, 20)))
    for each in (database, copy):
        if isinstance(each, JSONDatabase):
            each.refresh()
        assert sorted(seconds(each)) == list(map(float, range(80)))
        assert len(each.workloads()) == 1, "the same program is one workload"


# ------------------------------------------------------------------------------------------ targets


def test_records_of_another_target_need_a_query_for_it(database: KeyedDatabase) -> None:
    slow = commit(database, (8, 4), 2e-6)
    fast = commit(database, (4, 8), 3e-6)
    database.commit_tuning_record(replace(slow, target=AVX512))
    database.commit_tuning_record(replace(fast, target=AVX512, run_secs=[1e-6]))
    workload = database.commit_workload(Matmul)
    assert times(database.get_top_k(workload, 9, TARGET)) == [2e-6, 3e-6]
    assert times(database.get_top_k(workload, 9, AVX512)) == [1e-6, 2e-6]
    assert times(database.get_top_k(workload, 2)) == [1e-6, 2e-6], "any target"
    assert times(database.top_records(workload, 1, TARGET)) == [2e-6]
    assert database.count(workload, TARGET) == 2
    assert database.count(workload) == len(database) == 4
    assert database.query_schedule(Matmul, "llvm -mcpu=haswell -num-cores=1") is None
    for target, decision in ((TARGET, (8, 4)), (AVX512, (4, 8)), (None, (4, 8))):
        mod = database.query_ir_module(Matmul, target)
        assert mod is not None
        assert_structural_equal(mod, scheduled(decision).mod)


def test_a_record_without_target_is_found_for_any_target_only(database: KeyedDatabase) -> None:
    record = commit(MemoryDatabase(), (8, 4), 1e-6)
    database.commit_workload(Matmul)
    database.commit_tuning_record(replace(record, target=None))
    assert database.query_tuning_record(Matmul, TARGET) is None
    assert database.query_tuning_record(Matmul, None) is not None


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("llvm -num-cores=4", "llvm -keys=cpu,x -num-cores=4 -tag=mine -model=m", True),
        ("llvm", "llvm -opt-level=2", True),
        ("llvm -mattr=+avx2,-fma", "llvm -mattr=-fma,+avx2", True),
        ("llvm -mattr=+fma,-fma", "llvm -mattr=-fma", True),
        ("llvm -mattr=+fma", "llvm -mattr=-fma", False),
        ("llvm -num-cores=4", "llvm -num-cores=8", False),
        ("llvm", "llvm -opt-level=3", False),
        ("llvm -mcpu=skylake", "llvm -mcpu=skylake-avx512", False),
        ("llvm", "llvm -vector-width=256", False),
    ],
)
def test_targets_are_the_same_if_the_same_code_is_made(a: str, b: str, same: bool) -> None:
    assert (target_key(Target(a)) == target_key(Target(b))) is same


# -------------------------------------------------------------------------------------- same traces


def test_the_trace_that_was_remeasured_last_comes_before_lucky_ones(
    database: KeyedDatabase,
) -> None:
    """A search ends with the times of the candidates that it compared, the winner last."""
    commit(database, (8, 4), 10e-6)
    commit(database, (4, 8), 9e-6)
    commit(database, (2, 16), 11e-6)
    commit(database, (4, 8), 12.1e-6)
    commit(database, (8, 4), 12e-6)
    assert best(database) == 12e-6
    workload = database.commit_workload(Matmul)
    assert times(database.get_top_k(workload, 9)) == [11e-6, 12e-6, 12.1e-6], "by their times"
    pruned = MemoryDatabase()
    database.dump_pruned(pruned)
    assert seconds(pruned) == [12e-6]
    for record in database.get_all_tuning_records():
        database.commit_tuning_record(record)
    assert best(database) == 12e-6, "copies are not measurements"
    commit(database, (16, 2), 9e-6)
    assert best(database) == 12e-6, "that took 10 us once"
    commit(database, (1, 32), 8e-6)
    assert best(database) == 8e-6, "luck does not explain that"


# ------------------------------------------------------------------------------------ workload keys


def test_each_trace_is_replayed_on_the_program_with_its_names(database: KeyedDatabase) -> None:
    assert isinstance(RENAMED, IRModule)
    commit(database, (8, 4), 2e-6)
    sch = Schedule(RENAMED)
    sch.parallel(sch.get_loops(sch.get_block("product", "main"))[0])
    workload = database.commit_workload(RENAMED)
    database.commit_tuning_record(TuningRecord(sch.trace, workload, [1e-6], TARGET))
    found = database.query_schedule(Matmul, TARGET)
    assert found is not None
    assert 'T.block("product")' in found.mod.script()
    assert [len(record.schedule().trace.insts) for record in database.records()] == [6, 3]
    assert database.count(workload) == 2


class OneHash(ModuleEquality):
    """Gives all programs the same hash."""

    def hash(self, mod: IRModule) -> int:
        return 7

    def equal(self, a: IRModule, b: IRModule) -> bool:
        return ModuleEquality.create("structural").equal(a, b)


@pytest.mark.parametrize("kind", [JSONDatabase, SQLDatabase])
def test_programs_with_the_same_hash_have_different_keys(
    kind: Callable[..., KeyedDatabase], tmp_path: Path
) -> None:
    written = kind(work_dir=tmp_path, module_equality=OneHash())
    written.commit_workload(OTHER)
    commit(written, (8, 4), 1e-6)
    read = kind(work_dir=tmp_path, module_equality=OneHash())
    for database in (written, read):
        assert [database.workload_key(mod) for mod in (OTHER, Matmul)] == ["7", "7.1"]
        assert database.query_tuning_record(OTHER, TARGET) is None
        assert database.query_tuning_record(Matmul, TARGET) is not None


def test_the_module_equality_identifies_workloads() -> None:
    @I.ir_module
    class WithRelu:
        @T.prim_func
        def main(
            A: T.Buffer((32, 32), "float32"),
            B: T.Buffer((32, 32), "float32"),
            D: T.Buffer((32, 32), "float32"),
        ):
            C = T.alloc_buffer((32, 32))
            for i, j, k in T.grid(32, 32, 32):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
            for i, j in T.grid(32, 32):
                with T.block("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    for equality, found in (("anchor-block", True), ("structural", False)):
        database = MemoryDatabase(module_equality=equality)
        commit(database, (8, 4), 1e-6)
        assert database.has_workload(WithRelu) is found


# ----------------------------------------------------------------------------- copying and pruning


def test_copies_are_equal_in_every_field(database: KeyedDatabase) -> None:
    first = MemoryDatabase()
    first.commit_workload(OTHER)
    commit(first, (8, 4), 1.0 / 3.0)
    record = commit(first, (4, 8), 1e10)
    first.commit_tuning_record(replace(record, target=AVX512, args_info=None))
    first.commit_tuning_record(replace(record, target=None, run_secs=None))
    first.copy_to(database)
    back = MemoryDatabase()
    database.copy_to(back)
    for copy in (database, back):
        assert [r.as_json() for r in copy.records()] == [r.as_json() for r in first.records()]
        assert [w.as_json() for w in copy.workloads()] == [w.as_json() for w in first.workloads()]
    (record, *_) = database.records()
    assert pickle.loads(pickle.dumps(record)).as_json() == record.as_json()


def test_pruning_keeps_the_best_of_each_workload_and_target(database: KeyedDatabase) -> None:
    for decision, time in (((8, 4), 3e-6), ((4, 8), 1e-6), ((2, 16), 2e-6), ((16, 2), 1e10)):
        record = commit(database, decision, time)
    database.commit_tuning_record(replace(record, target=AVX512, run_secs=[9e-6]))
    pruned = MemoryDatabase()
    database.dump_pruned(pruned)
    assert seconds(pruned) == [1e-6, 9e-6]
    database.prune(keep=2)
    assert seconds(database) == [1e-6, 2e-6, 9e-6]
    commit(database, (8, 4), 4e-6)
    assert len(database) == 4
    found = database.query_schedule(Matmul, TARGET)
    assert found is not None
    assert_structural_equal(found.mod, scheduled((4, 8)).mod)
