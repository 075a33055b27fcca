"""What is said when a database is asked for a schedule that it does not have for this target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import codegen
import search as ms
from codegen import Target
from search.database import (
    JSONDatabase,
    KeyedDatabase,
    MemoryDatabase,
    OrderedUnionDatabase,
    SQLDatabase,
    TuningRecord,
    UnionDatabase,
)
from tensorir.function import IRModule
from tests.search.anchored_programs import assert_same_results
from tests.search.compatible_programs import product, tiled_product

ONE = Target("llvm -num-cores=1")
TWO = Target("llvm -num-cores=2")
AVX512 = Target("llvm -mcpu=skylake-avx512 -num-cores=1")
SMALL, LARGE = product(16, 16, 16), product(32, 64, 16)

KINDS = [MemoryDatabase, JSONDatabase, SQLDatabase]


def commit(database: KeyedDatabase, mod: IRModule, target: Target, seconds: float = 1e-6) -> None:
    workload = database.commit_workload(mod)
    trace = tiled_product(mod).trace
    database.commit_tuning_record(TuningRecord(trace, workload, [seconds], target))


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> KeyedDatabase:
    kind: Callable[..., KeyedDatabase] = request.param
    return kind() if kind is MemoryDatabase else kind(work_dir=tmp_path)


# --------------------------------------------------------------------------- other numbers of cores


def test_a_record_for_another_number_of_cores_answers_and_that_is_said(
    database: KeyedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    commit(database, SMALL, ONE)
    for _ in range(2):
        with database, TWO:
            built = codegen.build(SMALL, TWO)
    assert caplog.messages == [
        f'Function "main": its schedule was found for {ONE}, as there is no record for {TWO}; it '
        "computes the same there, and may be slower than one that is tuned for that"
    ]
    with MemoryDatabase():
        assert codegen.build(SMALL, TWO).get_source() != built.get_source()
    found = ms.find_schedule(database, SMALL, TWO)
    assert found is not None
    assert found.is_for_other_cores
    assert found.expected_seconds is None
    assert_same_results(found.schedule.mod, SMALL)


def test_a_union_prefers_the_member_that_has_the_target() -> None:
    one, two = MemoryDatabase(), MemoryDatabase()
    commit(one, SMALL, ONE, 1e-9)
    commit(two, SMALL, TWO, 1e-6)
    found = ms.find_schedule(UnionDatabase(one, two), SMALL, TWO)
    assert found is not None
    assert found.record.target == TWO


# ----------------------------------------------------------------------------------------- nothing


def test_a_mistyped_directory_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for kind, file in (
        (JSONDatabase, "database_tuning_record.json"),
        (SQLDatabase, "database.sqlite"),
    ):
        caplog.clear()
        with kind(work_dir=tmp_path / "tune_matmull"):
            codegen.build(SMALL, ONE)
            codegen.build(SMALL, ONE)
        assert caplog.messages == [
            f'Function "main": no schedule for {ONE}: {tmp_path / "tune_matmull" / file} (there is '
            "no such file) has no records; check that this is the database of the search"
        ]
        assert not (tmp_path / "tune_matmull").exists()


def test_failed_records_are_told_from_none(
    database: KeyedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    commit(database, SMALL, ONE, 1e10)
    ms.apply_database(SMALL, database, ONE)
    assert f"{database.place} has records of it, but none that succeeded" in caplog.text


def test_each_program_and_target_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    database = MemoryDatabase()
    for _ in range(2):
        for mod in (SMALL, LARGE):
            for target in (ONE, AVX512):
                ms.compile_tir(database, mod, target)
    assert len(caplog.messages) == 4
    assert {record.name for record in caplog.records} == {"tensorir.search"}
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_members_of_a_union_say_what_they_have(caplog: pytest.LogCaptureFixture) -> None:
    of_other = MemoryDatabase()
    commit(of_other, SMALL, AVX512)
    ms.compile_tir(OrderedUnionDatabase(MemoryDatabase(), of_other), SMALL, ONE)
    (message,) = caplog.messages
    assert "has no records; check that" in message
    assert f"has records of it for {AVX512}; code" in message


def test_kernels_that_lack_the_same_are_said_in_one_line(
    database: KeyedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    commit(database, SMALL, ONE)
    kernels = [product(32, 48, k) for k in (20, 24, 28, 36)]
    functions = {f"dense{k}": mod.prim_func("main") for k, mod in enumerate(kernels)}
    for _ in range(2):
        assert ms.History(database).schedules_of(functions, ONE) == {}
    assert caplog.messages == [
        f'4 functions ("dense0", "dense1", "dense2", ...), each: no schedule for {ONE}: '
        f"{database.place} has 1 record(s), all of other programs; tune it"
    ]
