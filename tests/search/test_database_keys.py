"""Records belong to a program and a target by value, in every kind of database."""

import pickle
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import search as ms
from codegen import Target
from schedule import Schedule
from search import DatabaseError
from search.arg_info import ArgInfo
from search.database import (
    RECORDS,
    WORKLOADS,
    Database,
    JSONDatabase,
    KeyedDatabase,
    Kind,
    MemoryDatabase,
    ModuleEquality,
    SQLDatabase,
    Store,
    TuningRecord,
    Workload,
    target_key,
)
from search.database.store import Entry
from search.runner import EvaluatorConfig, LocalRunner
from tensorir import I, T, assert_structural_equal, parse
from tensorir.function import IRModule
from tests.search import programs
from tests.search.programs import Matmul
from tests.search.test_database import OTHER, TARGET, commit, scheduled

AVX512 = Target("llvm -mcpu=skylake-avx512 -num-cores=1")
RENAMED = parse(Matmul.script().replace('T.block("C")', 'T.block("product")'))

KINDS: dict[str, Callable[[Path], KeyedDatabase]] = {
    "json": lambda folder: JSONDatabase(work_dir=folder),
    "sql": lambda folder: SQLDatabase(work_dir=folder),
    "memory": lambda folder: MemoryDatabase(),
}


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> KeyedDatabase:
    return KINDS[request.param](tmp_path / "database")


def seconds(records: list[TuningRecord]) -> list[float]:
    return [record.mean_seconds for record in records]


def best(database: Database) -> float:
    record = database.query_tuning_record(Matmul, TARGET)
    assert record is not None
    return record.mean_seconds


def of(record: TuningRecord, target: Target | None) -> TuningRecord:
    return replace(record, target=target)


# ------------------------------------------------------------------------------------------ targets


def test_records_of_another_target_answer_only_if_asked(database: KeyedDatabase) -> None:
    slow = commit(database, (8, 4), 2e-6)
    fast = commit(database, (4, 8), 3e-6)
    database.commit_tuning_record(of(slow, AVX512))
    database.commit_tuning_record(replace(fast, target=AVX512, run_secs=[1e-6]))
    workload = database.commit_workload(Matmul)
    assert seconds(database.get_top_k(workload, 9, TARGET)) == [2e-6, 3e-6]
    assert seconds(database.get_top_k(workload, 9, AVX512)) == [1e-6, 2e-6]
    assert seconds(database.get_top_k(workload, 2)) == [1e-6, 2e-6], "any target"
    assert seconds(database.top_records(workload, 1, TARGET)) == [2e-6]
    assert database.count(workload, TARGET) == 2
    assert database.count(workload) == len(database) == 4
    assert database.query_schedule(Matmul, "llvm -mcpu=haswell -num-cores=1") is None
    for target, best in ((TARGET, (8, 4)), (AVX512, (4, 8)), (None, (4, 8))):
        mod = database.query_ir_module(Matmul, target)
        assert mod is not None
        assert_structural_equal(mod, scheduled(best).mod)


def test_a_record_without_target_answers_who_asks_for_any(database: KeyedDatabase) -> None:
    record = commit(MemoryDatabase(), (8, 4), 1e-6)
    database.commit_workload(Matmul)
    database.commit_tuning_record(of(record, None))
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


def test_the_last_record_of_a_trace_counts(database: KeyedDatabase) -> None:
    commit(database, (8, 4), 1e-6)
    commit(database, (4, 8), 2e-6)
    commit(database, (8, 4), 3e-6)
    workload = database.commit_workload(Matmul)
    assert seconds(database.get_top_k(workload, 9)) == [2e-6, 3e-6], "1e-6 was luck"
    commit(database, (4, 8), 1e10)
    assert seconds(database.get_top_k(workload, 9)) == [3e-6], "it fails now"
    assert len(database) == 4


def test_what_was_measured_again_last_comes_before_lucky_ones(database: KeyedDatabase) -> None:
    """A search ends with the times of those that it compared, the winner last."""
    commit(database, (8, 4), 10e-6)
    commit(database, (4, 8), 9e-6)
    commit(database, (2, 16), 11e-6)
    commit(database, (4, 8), 12.1e-6)
    commit(database, (8, 4), 12e-6)
    assert best(database) == 12e-6
    workload = database.commit_workload(Matmul)
    assert seconds(database.get_top_k(workload, 9)) == [11e-6, 12e-6, 12.1e-6], "by their times"
    pruned = MemoryDatabase()
    database.dump_pruned(pruned)
    assert seconds(pruned.records()) == [12e-6]
    for record in database.get_all_tuning_records():
        database.commit_tuning_record(record)
    assert best(database) == 12e-6, "copies are no measurements"
    commit(database, (16, 2), 9e-6)
    assert best(database) == 12e-6, "that took 10 us once"
    commit(database, (1, 32), 8e-6)
    assert best(database) == 8e-6, "luck does not explain that"


def test_a_record_that_was_read_and_measured_again_has_the_same_trace(
    database: KeyedDatabase,
) -> None:
    commit(database, (8, 4), 1e-6)
    (record,) = database.get_all_tuning_records()
    database.commit_tuning_record(replace(record, run_secs=[5e-6]))
    database.commit_tuning_record(
        TuningRecord(record.schedule().trace, record.workload, [6e-6], record.target)
    )
    assert seconds(database.get_top_k(record.workload, 9)) == [6e-6]


# ------------------------------------------------------------------------------------ workload keys


def called(name: str) -> IRModule:
    return IRModule({name: Matmul["main"].with_attr("global_symbol", name)})


def test_a_workload_is_found_whatever_its_function_is_called(database: KeyedDatabase) -> None:
    commit(database, (8, 4), 1e-6)
    for mod in (called("dense"), called("main"), RENAMED):
        assert isinstance(mod, IRModule)
        assert database.has_workload(mod)
        assert database.workload_key(mod) == database.workload_key(Matmul)
        assert seconds(database.get_top_k(Workload(mod), 9)) == [1e-6]
        assert database.query_schedule(mod, TARGET) is not None
    assert not database.has_workload(OTHER)
    assert len(database.workloads()) == 1, "asking adds nothing"


def test_each_trace_is_replayed_on_a_program_with_the_names_it_calls(
    database: KeyedDatabase,
) -> None:
    assert isinstance(RENAMED, IRModule)
    commit(database, (8, 4), 2e-6)
    sch = Schedule(RENAMED)
    sch.parallel(sch.get_loops(sch.get_block("product", "main"))[0])
    workload = database.commit_workload(RENAMED)
    database.commit_tuning_record(TuningRecord(sch.trace, workload, [1e-6], TARGET))
    best = database.query_schedule(Matmul, TARGET)
    assert best is not None
    assert 'T.block("product")' in best.mod.script()
    assert [len(record.schedule().trace.insts) for record in database.records()] == [6, 3]
    assert database.count(workload) == 2


class AllAlike(ModuleEquality):
    """Gives all programs one hash."""

    def hash(self, mod: IRModule) -> int:
        return 7

    def equal(self, a: IRModule, b: IRModule) -> bool:
        return ModuleEquality.create("structural").equal(a, b)


@pytest.mark.parametrize("kind", [JSONDatabase, SQLDatabase])
def test_programs_with_one_hash_are_told_apart(
    kind: Callable[..., KeyedDatabase], tmp_path: Path
) -> None:
    written = kind(work_dir=tmp_path, module_equality=AllAlike())
    written.commit_workload(OTHER)
    commit(written, (8, 4), 1e-6)
    read = kind(work_dir=tmp_path, module_equality=AllAlike())
    for database in (written, read):
        assert [database.workload_key(mod) for mod in (OTHER, Matmul)] == ["7", "7.1"]
        assert database.query_tuning_record(OTHER, TARGET) is None
        assert database.query_tuning_record(Matmul, TARGET) is not None


def test_anchor_blocks_decide_where_they_are_asked_to(tmp_path: Path) -> None:
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
        database = JSONDatabase(work_dir=tmp_path / equality, module_equality=equality)
        commit(database, (8, 4), 1e-6)
        assert database.has_workload(WithRelu) is found


# ----------------------------------------------------------------------------- copying and pruning


@pytest.mark.parametrize("kinds", [("json", "sql"), ("sql", "json"), ("memory", "sql")])
def test_copies_are_the_same_in_every_field(kinds: tuple[str, str], tmp_path: Path) -> None:
    first, second = (KINDS[kind](tmp_path / kind) for kind in kinds)
    first.commit_workload(OTHER)
    commit(first, (8, 4), 1.0 / 3.0)
    record = commit(first, (4, 8), 1e10)
    first.commit_tuning_record(replace(record, target=AVX512, args_info=None))
    first.commit_tuning_record(replace(record, target=None, run_secs=None))
    first.copy_to(second)
    assert [r.as_json() for r in second.records()] == [r.as_json() for r in first.records()]
    assert [w.as_json() for w in second.workloads()] == [w.as_json() for w in first.workloads()]


def test_pruning_keeps_the_best_of_each_workload_and_target(database: KeyedDatabase) -> None:
    for decision, time in (((8, 4), 3e-6), ((4, 8), 1e-6), ((2, 16), 2e-6), ((16, 2), 1e10)):
        record = commit(database, decision, time)
    database.commit_tuning_record(replace(record, target=AVX512, run_secs=[9e-6]))
    pruned = MemoryDatabase()
    database.dump_pruned(pruned)
    assert seconds(pruned.records()) == [1e-6, 9e-6]
    database.prune(keep=2)
    assert seconds(database.records()) == [1e-6, 2e-6, 9e-6]
    commit(database, (8, 4), 4e-6)
    assert len(database) == 4
    best = database.query_schedule(Matmul, TARGET)
    assert best is not None
    assert_structural_equal(best.mod, scheduled((4, 8)).mod)


def test_who_has_a_pruned_file_open_is_told(tmp_path: Path) -> None:
    database, other = JSONDatabase(work_dir=tmp_path), JSONDatabase(work_dir=tmp_path)
    commit(database, (8, 4), 2e-6)
    commit(database, (4, 8), 1e-6)
    other.refresh()
    (first, _) = other.get_all_tuning_records()
    database.prune()
    with pytest.raises(DatabaseError, match="the file was replaced by a shorter one"):
        commit(other, (2, 16), 1e-6)
    with pytest.raises(DatabaseError, match="the file was replaced"):
        first.schedule()
    assert len(JSONDatabase(work_dir=tmp_path)) == 1


def test_databases_and_records_go_to_other_processes(database: KeyedDatabase) -> None:
    commit(database, (8, 4), 1e-6)
    (record,) = database.get_all_tuning_records()
    twin = pickle.loads(pickle.dumps(record))
    assert twin.as_json() == record.as_json()
    if not isinstance(database, MemoryDatabase):
        assert len(pickle.loads(pickle.dumps(database))) == 1


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
    findings = database.validate(runner=runner, factor=1e6)
    runner.close()
    assert [(finding.number, finding.kind) for finding in findings] == [(1, "run"), (2, "time")]
    assert "is wrong in 4 of 4 elements" in findings[0].text
    assert "1.000e-15 s recorded" in findings[1].text
    assert findings.measured == 3


# --------------------------------------------------------------------------------- databases of users


class Lists(Database):
    """What a user of TVM's `PyDatabase` writes."""

    def __init__(self) -> None:
        super().__init__()
        self.mods: list[IRModule] = []
        self.kept: list[TuningRecord] = []

    def has_workload(self, mod: IRModule) -> bool:
        return any(self.module_equality.equal(mod, known) for known in self.mods)

    def commit_workload(self, mod: IRModule) -> Workload:
        self.mods.append(mod)
        return Workload(mod)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self.kept.append(record)

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        return sorted(self.kept, key=lambda record: record.mean_seconds)[:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return list(self.kept)

    def __len__(self) -> int:
        return len(self.kept)


def test_a_database_with_the_methods_of_tvm_answers_all_questions() -> None:
    database = Lists()
    commit(database, (8, 4), 2e-6)
    database.commit_tuning_record(of(commit(database, (4, 8), 1e-6), AVX512))
    database.kept.pop(1)
    best = database.query_tuning_record(Matmul, TARGET)
    assert best is not None
    assert best.mean_seconds == 2e-6
    assert database.count(Workload(called("dense")), AVX512) == 1
    assert seconds(database.top_records(Workload(Matmul), 9, TARGET)) == [2e-6]
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


def test_a_database_of_keys_and_values_needs_a_store(tmp_path: Path) -> None:
    database = KeyedDatabase(Dicts())
    best = ms.tune_tir(
        Matmul,
        TARGET,
        ms.TuneConfig(max_trials_global=3, num_trials_per_iter=3),
        tmp_path,
        space=programs.split_j,
        cost_model="random",
        database=database,
        runner=LocalRunner(evaluator_config=EvaluatorConfig(1, 1, 1)),
    )
    assert best is not None
    assert database.count(Workload(Matmul), TARGET) >= 3
    database.prune()
    assert len(database) == 1


def test_both_files_have_names_for_create(tmp_path: Path) -> None:
    assert isinstance(Database.create("sql", work_dir=tmp_path), SQLDatabase)
    with pytest.raises(DatabaseError, match=re.escape("needs work_dir or the path of its file")):
        Database.create("sql")
