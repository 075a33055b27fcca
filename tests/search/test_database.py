"""Databases: what is committed is found again, also after a crash and by another process."""

import json
import logging
from pathlib import Path

import pytest

import search as ms
from codegen import Target
from schedule import Schedule
from search import DatabaseError
from search.arg_info import ArgInfo
from search.database import (
    Database,
    JSONDatabase,
    MemoryDatabase,
    OrderedUnionDatabase,
    TuningRecord,
    UnionDatabase,
)
from tensorir import assert_structural_equal
from tensorir.errors import IRValueError
from tensorir.function import IRModule
from tests.search import programs
from tests.search.programs import Matmul

TARGET = Target("llvm -num-cores=1")
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


def test_the_best_valid_record_is_found() -> None:
    database = MemoryDatabase()
    assert not database.has_workload(Matmul)
    for decision, seconds in (((8, 4), 3e-6), ((4, 8), 1e-6), ((2, 16), 1e10), ((16, 2), 2e-6)):
        commit(database, decision, seconds)
    workload = database.commit_workload(Matmul)
    assert [r.run_secs for r in database.get_top_k(workload, 2)] == [[1e-6], [2e-6]]
    assert database.get_top_k(workload, 0) == []
    assert len(database.get_top_k(workload, 9)) == 3, "the failed one is not valid"
    with pytest.raises(IRValueError, match="at least 0"):
        database.get_top_k(workload, -1)
    best = database.query(Matmul, TARGET)
    assert isinstance(best, Schedule)
    assert_structural_equal(best.mod, scheduled((4, 8)).mod)
    assert database.query(OTHER, TARGET) is None


def test_an_empty_trace_is_the_record_of_the_unscheduled_program() -> None:
    database = MemoryDatabase()
    workload = database.commit_workload(Matmul)
    commit(database, (4, 8), 2e-6)
    plain = TuningRecord(Schedule(Matmul).trace, workload, [1e-6], Target(TARGET))
    database.commit_tuning_record(plain)
    best, second = database.get_top_k(workload, 2)
    assert (best.schedules, second.schedules) == (False, True)
    found = ms.find_schedule(database, Matmul, TARGET)
    assert found is not None
    assert_structural_equal(found.schedule.mod, Matmul)


def test_a_file_is_read_back(tmp_path: Path) -> None:
    written = JSONDatabase(work_dir=tmp_path)
    commit(written, (8, 4), 1.0 / 3.0)
    commit(written, (4, 8), 0.125)
    written.commit_workload(OTHER)
    read = JSONDatabase(work_dir=tmp_path)
    assert len(read) == 2
    assert read.has_workload(OTHER)
    first, second = read.get_all_tuning_records()
    assert first.run_secs == (1.0 / 3.0,)
    assert second.target == TARGET
    assert [str(info) for info in first.args_info or ()] == ['TensorInfo("float32", [32, 32])'] * 3
    assert_structural_equal(second.schedule().mod, scheduled((4, 8)).mod)
    assert_structural_equal(first.workload.mod, Matmul)
    lines = (tmp_path / "database_tuning_record.json").read_text().splitlines()
    assert json.loads(lines[1]) == [0, second.as_json()]
    assert '", ' not in lines[0], "records are compact"


def test_a_line_cut_by_a_kill_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    commit(JSONDatabase(work_dir=tmp_path), (8, 4), 1e-6)
    path = tmp_path / "database_tuning_record.json"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    with caplog.at_level(logging.WARNING, "tensorir.search"):
        database = JSONDatabase(work_dir=tmp_path)
    assert len(database) == 1
    assert f"{path}: left out line 2, the last one: its 100 byte(s) are cut short" in caplog.text
    assert path.read_bytes() == whole + whole[:100], "reading changes nothing"
    commit(database, (4, 8), 2e-6)
    assert path.read_bytes().startswith(whole + whole[:100] + b"\n"), "the next writer ends it"
    assert [r.run_secs for r in database.records()] == [(1e-6,), (2e-6,)]
    assert [r.run_secs for r in JSONDatabase(work_dir=tmp_path).records()] == [(1e-6,), (2e-6,)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", "not a line of JSON"),
        ('["zero", []]', "a line is [index of the workload, record]"),
        ("[7,[[[],[]],null,null,null]]", "field 0 is workload 7"),
        ("[0,[[[],[]],null,null]]", "a record is [trace, run_secs, target, args_info]"),
        ('[0,[[[],[]],["fast"],null,null]]', "field 1 (run_secs)"),
        ("[0,[[[],[]],[-1],null,null]]", "field 1 (run_secs)"),
        ('[0,[[[],[]],[1],{"kind":"tpu"},null]]', "field 2 (target)"),
        ('[0,[[[],[]],[1],null,[["SCALAR"]]]]', "field 3 (args_info)"),
        ('[0,[[[],[]],[1],{"kind":"llvm","mattr":3},null]]', "field 2 (target)"),
        ('[0,[[[],[]],[1],{"kind":"llvm","num-cores":1e999},null]]', "field 2 (target)"),
        (f"[0,[[[],[]],[1{'0' * 400}],null,null]]", "field 1 (run_secs)"),
        ("[0,[{},[1],null,null]]", "field 0 (trace)"),
        ('[0,[[[["Get[0,[[[],[]],[1],{"kind":"llvm"},null]]', "not a line of JSON"),
        ('[0,[[[],[]],[1],{"kind":"llvm"},{}]]', "field 3 (args_info)"),
        ('[0,[[[],[]],[1e999],{"kind":"llvm"},null]]', "field 1 (run_secs)"),
    ],
)
def test_a_foreign_line_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, message: str
) -> None:
    commit(JSONDatabase(work_dir=tmp_path), (8, 4), 1e-6)
    path = tmp_path / "database_tuning_record.json"
    with path.open("a") as file:
        file.write(line + "\n")
    database = JSONDatabase(work_dir=tmp_path)
    (warning,) = caplog.messages
    assert warning.startswith(f"{path}: left out 1 line(s): line 2: ")
    assert message in warning
    commit(database, (4, 8), 2e-6)
    assert [r.run_secs for r in JSONDatabase(work_dir=tmp_path).records()] == [(1e-6,), (2e-6,)]


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ('[[["Explode",[],[],[]]],[]]', "field 0 (trace): "),
        ('[[["GetLoops",["b9"],[],[]]],[]]', "b9 is not defined"),
        ('[[["GetLoops",["b9],[],[]]],[]]', "not a line of JSON"),
    ],
)
def test_a_broken_trace_is_an_error_where_it_is_asked_for(
    tmp_path: Path, trace: str, message: str
) -> None:
    commit(JSONDatabase(work_dir=tmp_path), (8, 4), 1e-6)
    path = tmp_path / "database_tuning_record.json"
    with path.open("a") as file:
        file.write(f'[0,[{trace},[1.5],{{"kind":"llvm"}},null]]\n')
    good, broken = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert_structural_equal(good.schedule().mod, scheduled((8, 4)).mod)
    assert broken.run_secs == (1.5,)
    with pytest.raises(DatabaseError) as caught:
        broken.schedule()
    assert f"{path}:2: " in str(caught.value)
    assert message in str(caught.value)


def test_a_workload_that_is_no_program_is_left_out_with_its_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The line is base64 of `__import__('os').system('true')`; the next one stays workload 1."""
    path = tmp_path / "database_workload.json"
    path.write_text('["1","X19pbXBvcnRfXygnb3MnKS5zeXN0ZW0oJ3RydWUnKQ=="]\n')
    commit(JSONDatabase(work_dir=tmp_path), (8, 4), 1e-6)
    records = tmp_path / "database_tuning_record.json"
    assert records.read_text().startswith("[1,")
    with records.open("a") as file:
        file.write(records.read_text().replace("[1,", "[0,", 1))
    caplog.clear()
    database = JSONDatabase(work_dir=tmp_path)
    first, second = caplog.messages
    assert first.startswith(
        f"{path}: left out 1 line(s): line 1: field 1 (program) cannot be parsed"
    )
    assert (
        second
        == f"{records}: left out 1 line(s): line 2: its workload, number 0, could not be read"
    )
    assert len(database) == 1
    assert_structural_equal(database.workloads()[0].mod, Matmul)


def test_missing_files_are_an_error_if_wanted(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="there is no database file"):
        JSONDatabase(work_dir=tmp_path / "none", allow_missing=False)


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


def test_two_writers_attach_records_to_the_programs_they_are_of(tmp_path: Path) -> None:
    first, second = JSONDatabase(work_dir=tmp_path), JSONDatabase(work_dir=tmp_path)
    first.commit_workload(OTHER)
    commit(second, (8, 4), 2e-6)
    commit(first, (4, 8), 1e-6)
    assert len(second) == 1, "it has not written since"
    commit(second, (2, 16), 3e-6)
    for database in (first, second, JSONDatabase(work_dir=tmp_path)):
        best = database.query_tuning_record(Matmul, TARGET)
        assert best is not None
        assert best.run_secs in ([1e-6], (1e-6,))
        assert database.query_tuning_record(OTHER, TARGET) is None
    assert len(second) == 3
    assert len((tmp_path / "database_workload.json").read_text().splitlines()) == 2


def test_a_file_that_was_replaced_is_not_written_to(tmp_path: Path) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    commit(database, (8, 4), 1e-6)
    (tmp_path / "database_tuning_record.json").write_text("")
    with pytest.raises(DatabaseError, match="replaced by a shorter one"):
        commit(database, (4, 8), 1e-6)
