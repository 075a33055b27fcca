"""Unions, functions and user-defined databases, their validation, and the current database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import search as ms
from schedule import Schedule
from search.arg_info import ArgInfo
from search.database import (
    RECORDS,
    WORKLOADS,
    Database,
    JSONDatabase,
    KeyedDatabase,
    Kind,
    MemoryDatabase,
    OrderedUnionDatabase,
    SQLDatabase,
    Store,
    TuningRecord,
    UnionDatabase,
    Workload,
    target_key,
)
from search.database.store import Entry
from search.runner import EvaluatorConfig, LocalRunner
from tensorir.function import IRModule
from tests.search import programs
from tests.search.database.made_records import AVX512, OTHER, TARGET, commit, times
from tests.search.programs import Matmul
from tests.search.test_whole_run import Lists


def test_unions_ask_their_members() -> None:
    slow, fast, empty = MemoryDatabase(), MemoryDatabase(), MemoryDatabase()
    commit(slow, (8, 4), 2e-6)
    commit(fast, (4, 8), 1e-6)
    best = UnionDatabase(empty, slow, fast).query_tuning_record(Matmul, TARGET)
    first = OrderedUnionDatabase(empty, slow, fast).query_tuning_record(Matmul, TARGET)
    assert best is not None
    assert first is not None
    assert (best.run_secs, first.run_secs) == ([1e-6], [2e-6])
    with pytest.raises(NotImplementedError):
        UnionDatabase(slow).commit_workload(Matmul)


def test_a_function_is_a_database() -> None:
    def schedule(sch: Schedule) -> bool:
        if sch.mod["main"].attrs["task_name"] != "gemm":
            return False
        sch.parallel(sch.get_loops(sch.get_block("C"))[0])
        return True

    database = Database.create(schedule)
    assert database.query_schedule(Matmul, TARGET, "conv") is None
    mod = database.query_ir_module(Matmul, TARGET, "gemm")
    assert mod is not None
    assert "T.parallel" in mod.script()


def test_the_current_database_is_that_of_the_innermost_with() -> None:
    outer, inner = MemoryDatabase(), MemoryDatabase()
    assert Database.current() is None
    with outer, inner:
        assert Database.current() is inner
    assert Database.current() is None


# --------------------------------------------------------------------------------------- validation


def test_records_are_validated_by_replay(tmp_path: Path) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    commit(database, (8, 4), 1e-6)
    database.commit_workload(OTHER)
    path = tmp_path / RECORDS.file
    line = path.read_text()
    with path.open("a") as file:
        file.write(line.replace("[0,", "[1,", 1))  # of a program without the block
        file.write(line.replace("GetLoops", "GetLoop", 1))
    findings = JSONDatabase(work_dir=tmp_path).validate()
    assert [(finding.number, finding.kind) for finding in findings] == [(1, "replay"), (2, "trace")]
    assert f"{path}:3: field 0 (trace): " in findings[1].text
    assert str(findings).startswith("3 records replayed, 0 run: 2 findings")


def test_lines_that_cannot_be_read_are_faults_of_a_database(tmp_path: Path) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    commit(database, (8, 4), 1e-6)
    path = tmp_path / RECORDS.file
    line = path.read_text()
    with path.open("a") as file:
        file.write("[0, 1]\n" + line[: len(line) // 2])
    findings = JSONDatabase(work_dir=tmp_path).validate()
    assert [(finding.number, finding.kind) for finding in findings] == [(None, "entry")] * 2
    assert findings[0].text.startswith(f"{path}:2: ")
    assert findings[1].text.startswith(f"{path}:3: its {len(line) // 2} byte(s) are cut short")
    assert str(findings).startswith("1 records replayed, 0 run: 2 findings")


def test_a_row_that_cannot_be_read_is_a_fault_of_a_database(tmp_path: Path) -> None:
    database = SQLDatabase(tmp_path / "records.sqlite")
    commit(database, (8, 4), 1e-6)
    commit(database, (4, 8), 2e-6)
    with sqlite3.connect(tmp_path / "records.sqlite") as connection:
        connection.execute("UPDATE record SET run_secs = 'half' WHERE id = 1")
    findings = SQLDatabase(tmp_path / "records.sqlite").validate()
    assert [(finding.number, finding.kind) for finding in findings] == [(None, "entry")]
    assert "record 1" in findings[0].text


def test_records_are_validated_by_measuring_them_again(tmp_path: Path) -> None:
    """The first holds, the second is of another program in truth, the third was too good."""
    database = MemoryDatabase()
    runner = LocalRunner(evaluator_config=EvaluatorConfig(1, 3, 1))
    workload = database.commit_workload(OTHER)
    for step, time in (("parallel", 1e-6), ("unroll", 1e-6), ("vectorize", 1e-15)):
        sch = Schedule(OTHER)
        (loop,) = sch.get_loops(sch.get_block("B", "main"))
        getattr(sch, step)(loop)
        info = ArgInfo.from_entry_func(sch.mod)
        record = TuningRecord(sch.trace, workload, [time], TARGET, info)
        database.commit_tuning_record(record)
    wrong = database.records()[1]
    object.__setattr__(wrong, "schedule", lambda: Schedule(IRModule({"main": programs.adds_two})))
    findings = database.validate(runner=runner, factor=1e5)
    runner.close()
    assert [(finding.number, finding.kind) for finding in findings] == [(1, "run"), (2, "time")]
    assert "is wrong in 4 of 4 elements" in findings[0].text
    assert "1.000e-15 s recorded" in findings[1].text
    assert findings.measured == 3


# --------------------------------------------------------------------------------- databases of users


def test_a_database_with_the_methods_of_tvm_answers_all_questions() -> None:
    database = Lists()
    commit(database, (8, 4), 2e-6)
    database.commit_tuning_record(replace(commit(database, (4, 8), 1e-6), target=AVX512))
    database.kept.pop(1)
    best = database.query_tuning_record(Matmul, TARGET)
    assert best is not None
    assert best.mean_seconds == 2e-6
    assert database.count(Workload(Matmul), AVX512) == 1
    assert times(database.top_records(Workload(Matmul), 9, TARGET)) == [2e-6]
    copy = MemoryDatabase()
    database.copy_to(copy)
    assert len(copy) == 2
    assert not database.validate()


class Dicts(Store):
    """What a user who has keys and values somewhere writes."""

    def __init__(self) -> None:
        self.kept: dict[Kind[Any], dict[int, tuple[str, Any]]] = {WORKLOADS: {}, RECORDS: {}}

    def append(self, kind: Kind[Any], entries: Sequence[tuple[str, Any]]) -> list[Any]:
        table = self.kept[kind]
        values = []
        for key, value in entries:
            same = [known for k, known in table.values() if kind is WORKLOADS and k == key]
            if not same:
                table[max(table, default=0) + 1] = (key, value)
            values.append(same[0] if same else value)
        return values

    def read(
        self, kind: Kind[Any], key: str | None = None, *, behind: int = 0, target: str | None = None
    ) -> list[Entry[Any]]:
        return [
            Entry(number, value)
            for number, (k, value) in self.kept[kind].items()
            if number > behind and key in (None, k)
            if target is None or (value.target and target_key(value.target) == target)
        ]

    def retain(self, choose: Callable[[list[TuningRecord]], list[TuningRecord]]) -> None:
        chosen = choose([one.value for one in self.read(RECORDS)])
        kept = {n: entry for n, entry in self.kept[RECORDS].items() if entry[1] in chosen}
        self.kept[RECORDS] = kept


def test_a_database_of_keys_and_values_needs_a_store(
    tmp_path: Path, measured: dict[str, Any]
) -> None:
    database = KeyedDatabase(Dicts())
    best = ms.tune_tir(
        Matmul,
        TARGET,
        ms.TuneConfig(max_trials_global=3, num_trials_per_iter=3),
        tmp_path,
        space=programs.split_j,
        cost_model="random",
        database=database,
        **measured,
    )
    assert best is not None
    assert database.count(Workload(Matmul), TARGET) >= 3
    database.prune()
    assert len(database) == 1
