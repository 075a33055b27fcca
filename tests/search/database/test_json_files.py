"""Files of JSON lines: damaged lines, several writers, read-only places."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from search import DatabaseError
from search.database import (
    RECORDS,
    WORKLOADS,
    JSONDatabase,
    KeyedDatabase,
    MemoryDatabase,
    SQLDatabase,
    TuningRecord,
)
from search.database.keyed_database import SQL_FILE
from search.database.line_store import LineStore
from search.lines import Line, append, append_lines, locked, replace_lines
from tensorir import assert_structural_equal
from tests.search.database.made_records import TARGET, commit, scheduled, seconds
from tests.search.programs import Matmul

Files = Callable[..., KeyedDatabase]
FILES = [JSONDatabase, SQLDatabase]


def test_a_line_is_compact_json(tmp_path: Path) -> None:
    commit(JSONDatabase(work_dir=tmp_path), (8, 4), 1.0 / 3.0)
    (record,) = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    line = (tmp_path / RECORDS.file).read_text()
    assert json.loads(line) == [0, record.as_json()]
    assert '", ' not in line


def test_missing_files_are_an_error_if_wanted(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="there is no database file"):
        JSONDatabase(work_dir=tmp_path / "none", allow_missing=False)


# ------------------------------------------------------------------------------------ damaged lines


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


@pytest.mark.parametrize("file", [WORKLOADS.file, RECORDS.file])
def test_a_last_line_that_lacks_its_end_is_kept(
    tmp_path: Path, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An editor, or a copy by hand, may leave the newline out: nothing is lost by opening."""
    commit(JSONDatabase(work_dir=tmp_path), (8, 4), 1e-6)
    path = tmp_path / file
    without_end = path.read_bytes().removesuffix(b"\n")
    path.write_bytes(without_end)
    database = JSONDatabase(work_dir=tmp_path)
    assert seconds(database) == [1e-6]
    assert path.read_bytes() == without_end, "reading changes nothing"
    beside = JSONDatabase(work_dir=tmp_path)
    commit(database, (4, 8), 2e-6)
    database.commit_workload(scheduled((4, 8)).mod)
    beside.refresh()
    for each in (database, beside, JSONDatabase(work_dir=tmp_path)):
        assert seconds(each) == [1e-6, 2e-6]
        assert [len(record.trace.insts) for record in each.records()] == [6, 6]
        assert len(each.workloads()) == 2
    assert path.read_bytes().startswith(without_end + b"\n")
    assert not caplog.text


def test_a_file_of_another_kind_is_neither_read_nor_written(tmp_path: Path) -> None:
    for file in (WORKLOADS.file, RECORDS.file):
        folder = tmp_path / file
        folder.mkdir()
        (folder / file).write_text("Dear diary,\ntoday I tuned a matmul")
        with pytest.raises(DatabaseError, match="is not a file of records: it starts with"):
            JSONDatabase(work_dir=folder)
        assert (folder / file).read_text() == "Dear diary,\ntoday I tuned a matmul"


# ----------------------------------------------------------------------------------- several writers


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


def test_threads_that_catch_up_at_once_read_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, beside = (JSONDatabase(work_dir=tmp_path) for _ in range(2))
    trace = scheduled((8, 4)).trace
    workload = beside.commit_workload(Matmul)
    beside.commit_records([TuningRecord(trace, workload, [1e-6], TARGET)] * 500)
    start = threading.Barrier(4)

    add = LineStore._take_record

    def slowly(self: LineStore, line: Line) -> None:
        if line.number == 100:
            time.sleep(0.01)  # the others have their turn, if they may
        add(self, line)

    monkeypatch.setattr(LineStore, "_take_record", slowly)

    def catches_up(_: int) -> None:
        start.wait()
        database.refresh()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(catches_up, range(4)))
    assert len(database) == 500
    assert len(database.workloads()) == 1


# -------------------------------------------------------------------------- missing and read-only files


@pytest.mark.parametrize("kind", FILES)
def test_reading_makes_no_files(kind: Files, tmp_path: Path) -> None:
    folder = tmp_path / "mistyped"
    database = kind(work_dir=folder)
    assert database.query_tuning_record(Matmul, TARGET) is None
    assert len(database) == 0
    assert not database.has_workload(Matmul)
    assert database.records_like(Matmul, TARGET, "ignore-lengths") == []
    assert not folder.exists()
    beside = kind(work_dir=folder)
    commit(beside, (8, 4), 1e-6)
    if isinstance(database, JSONDatabase):
        database.refresh()
    assert seconds(database) == [1e-6], "it sees the files that another one has made"
    commit(database, (4, 8), 2e-6)
    assert len(beside) == 2 or kind is JSONDatabase
    assert len(kind(work_dir=folder)) == 2


@pytest.fixture
def stranger() -> Iterator[Path]:
    """Give a directory, and be a user who may read in it and not write.

    To root everything is allowed; the user is somebody else until the test is over.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        user = os.geteuid()
        yield path
        os.seteuid(user)
        path.chmod(0o755)


def becomes_a_reader(folder: Path) -> None:
    folder.chmod(0o555)
    for path in folder.iterdir():
        path.chmod(0o444)
    if os.geteuid() == 0:
        os.seteuid(65534)


@pytest.mark.parametrize("kind", FILES)
def test_a_read_only_file_answers_and_refuses_commits(kind: Files, stranger: Path) -> None:
    database = kind(work_dir=stranger)
    commit(database, (8, 4), 1e-6)
    if isinstance(database, SQLDatabase):
        database.close()
    becomes_a_reader(stranger)
    read = kind(work_dir=stranger)
    assert seconds(read) == [1e-6]
    found = read.query_schedule(Matmul, TARGET)
    assert found is not None
    assert len(read.records_like(Matmul, TARGET, "ignore-lengths")) == 1
    with pytest.raises(
        DatabaseError, match=f"{stranger}.*(may not be written|cannot be read or written)"
    ):
        commit(read, (4, 8), 1e-6)
    assert seconds(read) == [1e-6]
    memory = MemoryDatabase()
    read.copy_to(memory)
    assert seconds(memory) == [1e-6]


def test_commits_that_only_a_writer_can_bring_in_are_said(stranger: Path) -> None:
    """A writer that was killed has left its last commits in a file beside the database."""
    pid = os.fork()
    if not pid:
        try:
            commit(SQLDatabase(work_dir=stranger), (8, 4), 1e-6)
        finally:
            os._exit(0)  # closes nothing
    os.waitpid(pid, 0)
    (stranger / f"{SQL_FILE}-shm").unlink()
    becomes_a_reader(stranger)
    with pytest.raises(DatabaseError, match=r"its last commits are still in .*-wal; open it once"):
        SQLDatabase(work_dir=stranger)


# -------------------------------------------------------------------------------------- appended lines


def test_a_system_that_takes_a_part_is_given_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = os.write
    monkeypatch.setattr(os, "write", lambda file, data: written(file, bytes(data[:3])))
    append_lines(tmp_path / "log", ["first line", "second line"])
    assert (tmp_path / "log").read_text() == "first line\nsecond line\n"


def test_a_line_that_the_disk_has_no_room_for_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    append_lines(path, ["first"])
    written = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) < 6:
            raise OSError(28, "No space left on device")
        return written(file, bytes(data[:4]))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        append_lines(path, ["second"])
    monkeypatch.undo()
    assert path.read_text() == "first\n"
    append_lines(path, ["third"])
    assert path.read_text() == "first\nthird\n"


def test_an_appended_line_does_not_continue_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("whole\nto")
    append_lines(path, ["next"])
    assert path.read_text() == "whole\nto\nnext\n"


def test_writers_wait_for_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with locked(path) as descriptor, ThreadPoolExecutor(1) as pool:
        late = pool.submit(append_lines, path, ["late"])
        with pytest.raises(TimeoutError):
            late.result(0.05)
        append(descriptor, b"early\n")
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    assert path.read_text() == "early\nlate\n"


def test_who_waited_for_a_file_that_was_replaced_writes_to_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append_lines(path, ["old"])
    with ThreadPoolExecutor(1) as pool:
        with locked(path):
            late = pool.submit(append_lines, path, ["late"])
            with pytest.raises(TimeoutError):
                late.result(0.05)
            replace_lines(path, ["new"])
        late.result()
    assert path.read_text() == "new\nlate\n"
