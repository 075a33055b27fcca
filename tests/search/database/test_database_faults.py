"""What was committed is there: after kills, on a full disk, under several writers."""

import contextlib
import os
import re
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from search import DatabaseError
from search.database import (
    WORKLOADS,
    JSONDatabase,
    KeyedDatabase,
    SQLDatabase,
)
from search.database.line_store import LineStore
from search.reports.run_directory import TRIALS
from tests.search.database.made_records import commit
from tests.search.reports.test_trials import FIRST

FILES = [JSONDatabase, SQLDatabase]
Files = Callable[..., KeyedDatabase]


# ---------------------------------------------------------------------------------------- full disks


def commits_until_refused(kind: Files, folder: Path, bytes_left: int, report: int) -> None:
    """Commit records to files that may not grow over a size, and report how many, and the error."""
    database = kind(work_dir=folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, bytes_left))
    number = 0
    try:
        while True:
            commit(database, (8, 4), float(number))
            number += 1
    except DatabaseError as error:
        found = len(database)
        os.write(report, f"{number} {found} {error}".encode())


@pytest.mark.parametrize("kind", FILES)
def test_a_full_disk_is_said_and_costs_nothing(
    kind: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for room in (140_000, 150_001):
        folder = tmp_path / str(room)
        reports, report = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                commits_until_refused(kind, folder, room, report)
            finally:
                os._exit(0)
        os.close(report)
        os.waitpid(pid, 0)
        with os.fdopen(reports) as pipe:
            committed, counted, message = pipe.read().split(" ", 2)
        assert int(committed) > 2
        assert counted == committed
        assert str(folder) in message
        assert "Nothing was changed" in message
        database = kind(work_dir=folder)
        assert not caplog.text, "no half of a record was left"
        assert [r.mean_seconds for r in database.records()] == list(
            map(float, range(int(committed)))
        )
        commit(database, (4, 8), 0.5)
        assert len(kind(work_dir=folder)) == int(committed) + 1


# ------------------------------------------------------------------------- files that are no database


@pytest.mark.parametrize("kind", FILES)
def test_a_directory_that_cannot_be_written_is_said(kind: Files, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match=re.escape(str(tmp_path / "file"))) as caught:
        commit(kind(work_dir=tmp_path / "file" / "below"), (8, 4), 1e-6)
    assert "file is a file; give a directory" in str(caught.value)
    with pytest.raises(DatabaseError, match=r"tuning_trials\.json .*file is a file; give a direc"):
        LineStore(tmp_path / "file").add(TRIALS, FIRST)


def test_a_directory_made_unwritable_is_said_at_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    commit(database, (8, 4), 1e-6)
    opened = os.open

    def refuses_writing(path: str, flags: int, *args: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *args)

    monkeypatch.setattr(os, "open", refuses_writing)
    with pytest.raises(
        DatabaseError, match=f"{WORKLOADS.file} cannot be read or written: Permission"
    ):
        commit(database, (4, 8), 1e-6)
    monkeypatch.undo()
    assert len(database) == len(JSONDatabase(work_dir=tmp_path)) == 1


def changed(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(statement)
    connection.close()


def test_an_sql_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    """A database of a server is read and checked by the same statements."""
    path = tmp_path / "database.sqlite"
    commit(SQLDatabase(path), (8, 4), 1e-6)
    with pytest.raises(
        DatabaseError, match="module equality is StructuralEquality, not AnchorBlock"
    ):
        SQLDatabase(path, module_equality="anchor-block")
    changed(path, "UPDATE setting SET value = '9' WHERE name = 'version'")
    with pytest.raises(DatabaseError, match="a database of version 9; this package reads 1"):
        SQLDatabase(path)
    others = ("songs (name TEXT)", "setting (name TEXT, value TEXT)", "record (artist TEXT)")
    for number, table in enumerate(others):
        other = tmp_path / f"{number}.sqlite"
        changed(other, f"CREATE TABLE {table}")
        with pytest.raises(DatabaseError, match=r"of another application.*their own database"):
            SQLDatabase(other)
        with contextlib.closing(sqlite3.connect(other)) as connection:
            assert len(connection.execute("SELECT * FROM sqlite_master").fetchall()) == 1
    (tmp_path / "text").write_text("no database at all, but a text of some length" * 99)
    with pytest.raises(DatabaseError, match="file is not a database"):
        SQLDatabase(tmp_path / "text")
    with pytest.raises(DatabaseError, match="there is no database file"):
        SQLDatabase(tmp_path / "none", allow_missing=False)
