"""A database in one SQLite file."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from search.database.database import Database
from search.database.growing_file import json_line, json_of, refusals_named
from search.database.keyed_database import Choose, KeyedDatabase
from search.database.module_equality import ModuleEquality, unnamed
from search.database.records import Workload, seconds_of
from search.database.stored_record import StoredRecord, arguments_from_text, target_from_text
from search.database.target_key import target_key
from search.errors import DatabaseError
from search.records.record_lines import warn_of_left_out

if TYPE_CHECKING:
    from codegen import Target
    from search.database.records import TuningRecord
    from tensorir.function import IRModule

R = TypeVar("R")
S = TypeVar("S")

logger = logging.getLogger("tensorir.search")

SQL_FILE: Final = "database.sqlite"
VERSION: Final = 1
"""Changes with the tables, and with what workload and target keys are made of."""

_APPLICATION: Final = 0x74_69_72_31
"""The mark by which the file says whose it is: "tir1"."""
_PATIENCE: Final = 60.0
"""Seconds to wait for another process that is writing."""

_TABLES: Final = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE workload (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, program TEXT NOT NULL, UNIQUE (key, program)
);
CREATE TABLE record (
    id INTEGER PRIMARY KEY AUTOINCREMENT, workload INTEGER NOT NULL REFERENCES workload,
    workload_key TEXT NOT NULL, target_key TEXT, trace_key BLOB NOT NULL,
    schedules INTEGER NOT NULL, run_secs TEXT NOT NULL, target TEXT NOT NULL,
    args_info TEXT NOT NULL
);
CREATE INDEX record_of ON record (workload_key, target_key);
CREATE TABLE trace (record INTEGER PRIMARY KEY REFERENCES record, text TEXT NOT NULL);
"""

_LIKENESS: Final = """
CREATE TABLE IF NOT EXISTS likeness (
    equality TEXT NOT NULL, workload INTEGER NOT NULL REFERENCES workload, hash TEXT NOT NULL,
    PRIMARY KEY (equality, workload)
);
CREATE INDEX IF NOT EXISTS like_hash ON likeness (equality, hash);
"""
"""Hashes of workloads under other equalities; the table is made when it is first asked for."""


@Database.kinds.register("sql")
class SQLDatabase(KeyedDatabase):
    """Workloads and records in tables of an SQLite file, `database.sqlite` in `work_dir`.

    Every commit is a transaction: a process that is killed leaves all of it or nothing. Several
    processes and threads may write; one waits for the other. Nothing is read before it is asked
    for, so opening takes no time whatever the number of records, and queries see what others wrote.
    The file is made by the first commit; until then a missing one is an empty one, or an error with
    `allow_missing=False`. One that may not be written answers queries and refuses commits. A file
    of another version or equality of modules, and one that is no database, is a DatabaseError.
    Rows that cannot be read are left out with a warning.

    The file is kept in write-ahead mode, in which a commit is one write at the end of a second file
    beside it. That one is gone when the last process has closed the database; move both together if
    a process was killed. As with files of lines, a commit survives the end of the process, but not
    a loss of power in the seconds after it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        work_dir: str | os.PathLike[str] | None = None,
        allow_missing: bool = True,
        module_equality: str | ModuleEquality = "structural",
    ) -> None:
        super().__init__(module_equality)
        if path is None and work_dir is None:
            raise DatabaseError("SQLDatabase needs work_dir or the path of its file")
        self.path = Path(path or Path(work_dir or ".") / SQL_FILE)
        if not allow_missing and not self.path.exists():
            raise DatabaseError(f"there is no database file {self.path}")
        self._workloads: dict[int, Workload] = {}
        self._told: set[str] = set()
        """The rows that were left out, each of which is warned of once."""
        self._link: _Link | None = None
        self._opened(writes=False)

    @property
    def place(self) -> str:
        """The file; where there is none, that it is missing."""
        return f"{self.path}{'' if self.path.exists() else ' (there is no such file)'}"

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._link is not None and self._link.process == os.getpid():
            with self._link.lock:
                self._link.connection.close()
        self._link = None

    # ------------------------------------------------------------------------------------ storage

    def workloads(self, key: str | None = None) -> Sequence[Workload]:
        """Return the programs under a key in the order of their commit; all without a key."""
        where, values = ("WHERE key = ?", (key,)) if key is not None else ("", ())
        rows = self._select(f"SELECT id FROM workload {where} ORDER BY id", values)
        return self._readable([number for (number,) in rows], self._workload)

    def put_workload(self, key: str, workload: Workload) -> Workload:
        """Return the workload with the same script under a key; it is added if there is none."""
        number = self._workload_number(key, workload)
        if number is None:
            with self._transaction() as connection:
                connection.execute(
                    "INSERT OR IGNORE INTO workload (key, program) VALUES (?, ?)",
                    (key, workload.script),
                )
            number = self._number_of(key, workload)
        return self._workloads.setdefault(number, workload)

    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records under a key, or all, in the order of their commit."""
        return [record for _, record in self._numbered(key, target)]

    def count_records(self, key: str | None = None, target: Target | None = None) -> int:
        """Return the number of records under a key, or of all."""
        where, values = _condition(key, target)
        ((number,),) = self._select(f"SELECT count(*) FROM record {where}", values)
        return int(number)

    def workloads_like(
        self,
        mod: IRModule,
        equality: str | ModuleEquality,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[tuple[str, Workload]]:
        """Return the workloads that are the same as `mod` and satisfy `where`, with their keys.

        They are compared by `equality`. Each is hashed once, and the hash kept in the file.
        """
        kind = ModuleEquality.create(equality)
        if not self._opened(writes=False).is_written:
            return super().workloads_like(mod, kind, where)
        self._hash_new(kind)
        asked = unnamed(mod)
        found = self._select(
            "SELECT key, id FROM likeness JOIN workload ON id = workload "
            "WHERE equality = ? AND hash = ? ORDER BY id",
            (type(kind).__name__, str(kind.hash(asked))),
        )
        known = self._readable(found, lambda row: (row[0], self._workload(row[1])))
        return [
            entry for entry in known if where(entry[1]) and kind.equal(unnamed(entry[1].mod), asked)
        ]

    def put_records(self, records: Sequence[tuple[str, TuningRecord]]) -> None:
        """Add records with the keys of their workloads, which were put before."""
        numbers: dict[Workload, int] = {}
        for key, record in records:
            if record.workload not in numbers:
                numbers[record.workload] = self._number_of(key, record.workload)
        with self._transaction() as connection:
            for key, record in records:
                cursor = connection.execute(
                    "INSERT INTO record (workload, workload_key, target_key, trace_key, schedules, "
                    "run_secs, target, args_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        numbers[record.workload],
                        key,
                        None if record.target is None else target_key(record.target),
                        record.trace_key,
                        record.schedules,
                        *map(json_line, record.measured_as_json()),
                    ),
                )
                connection.execute(
                    "INSERT INTO trace VALUES (?, ?)", (cursor.lastrowid, record.trace_text)
                )

    def retain(self, choose: Choose) -> None:
        """Drop all records but those that `choose` returns of all."""
        with self._transaction() as connection:
            numbered = self._numbered(None, None)
            kept = set(map(id, choose([record for _, record in numbered])))
            dropped = [(number,) for number, record in numbered if id(record) not in kept]
            connection.executemany("DELETE FROM trace WHERE record = ?", dropped)
            connection.executemany("DELETE FROM record WHERE id = ?", dropped)
        with self._connected(writes=True) as connection:
            connection.execute("VACUUM")

    def _numbered(self, key: str | None, target: Target | None) -> list[tuple[int, TuningRecord]]:
        where, values = _condition(key, target)
        rows = self._select(
            "SELECT id, workload, run_secs, target, args_info, trace_key, schedules "
            f"FROM record {where} ORDER BY id",
            values,
        )
        return self._readable(rows, lambda row: (row[0], self._record(*row)))

    def _readable(self, rows: Sequence[R], read: Callable[[R], S]) -> list[S]:
        """Return the rows as `read` makes them; those it refuses are left out with a warning."""
        found: list[S] = []
        refused: list[str] = []
        for row in rows:
            try:
                found.append(read(row))
            except DatabaseError as error:
                refused.append(str(error).partition("\n")[0])
        new = [text for text in dict.fromkeys(refused) if text not in self._told]
        self._told.update(new)
        warn_of_left_out(self.path, new, logger, "row")
        return found

    def _record(
        self,
        number: int,
        workload: int,
        run_secs: str,
        target: str,
        args_info: str,
        trace_key: bytes,
        schedules: int,
    ) -> TuningRecord:
        place = f"{self.path}: record {number}"
        try:
            return StoredRecord.at(
                place,
                partial(self._trace_text, number),
                self._workload(workload),
                seconds_of(json_of(run_secs)),
                target_from_text(target),
                arguments_from_text(args_info),
                trace_key,
                bool(schedules),
            )
        except DatabaseError as error:
            raise DatabaseError(f"record {number}: {error}") from error

    def _trace_text(self, number: int) -> str:
        for (text,) in self._select("SELECT text FROM trace WHERE record = ?", (number,)):
            return str(text)
        raise DatabaseError(f"{self.path}: record {number} was pruned")

    def _hash_new(self, kind: ModuleEquality) -> None:
        """Add the hashes of the workloads that have none under an equality."""
        name = type(kind).__name__
        if not self._select("SELECT name FROM sqlite_schema WHERE name = 'likeness'"):
            with self._transaction() as connection:
                _execute(connection, _LIKENESS)
        new = self._select(
            "SELECT id FROM workload WHERE id NOT IN "
            "(SELECT workload FROM likeness WHERE equality = ?)",
            (name,),
        )
        known = self._readable([k for (k,) in new], lambda k: (k, self._workload(k)))
        rows = [(name, k, str(kind.hash(unnamed(workload.mod)))) for k, workload in known]
        if rows:
            with self._transaction() as connection:
                connection.executemany("INSERT OR IGNORE INTO likeness VALUES (?, ?, ?)", rows)

    def _workload_number(self, key: str, workload: Workload) -> int | None:
        rows = self._select(
            "SELECT id FROM workload WHERE key = ? AND program = ?", (key, workload.script)
        )
        return next((int(number) for (number,) in rows), None)

    def _number_of(self, key: str, workload: Workload) -> int:
        number = self._workload_number(key, workload)
        if number is None:
            raise DatabaseError(
                f"{self.path} does not have the workload of a record; commit the workload first"
            )
        return number

    def _workload(self, number: int) -> Workload:
        known = self._workloads.get(number)
        if known is None:
            ((text,),) = self._select("SELECT program FROM workload WHERE id = ?", (number,))
            try:
                known = self._workloads[number] = Workload.from_script(text)
            except DatabaseError as error:
                raise DatabaseError(f"workload {number}: {error}") from error
        return known

    # --------------------------------------------------------------------------------- the SQLite

    def _opened(self, writes: bool) -> _Link:
        """Return a connection of this process; one that was inherited by a fork is not used.

        For reading a file that is missing it is one to an empty database in memory.
        """
        link = self._link
        if link is not None and link.process == os.getpid():
            if link.is_written or not (writes or (link.is_missing and self.path.exists())):
                return link
            if not link.is_missing:
                raise DatabaseError(
                    f"{self.path}: it may not be written, so it answers queries only, and nothing "
                    "was committed; see who may write to the file and to its directory, or "
                    "copy_to another database"
                )
        with _opening, self._errors_named():
            if self._link is not link:
                return self._opened(writes)
            self._link = self._made_link(writes)
        return self._opened(writes)

    def _made_link(self, writes: bool) -> _Link:
        if writes:
            with refusals_named(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
        elif not self.path.exists():
            connection = _connect(":memory:")
            _execute(connection, _TABLES)
            return _Link(connection, is_written=False, is_missing=True)
        if _may_be_written(self.path):
            connection = _connect(str(self.path))
            connection.execute("PRAGMA synchronous = NORMAL")
            link = _Link(connection, is_written=True)
            self._check(connection, may_be_new=True)
        else:
            link = _Link(_connect_to_read(self.path), is_written=False)
            self._check(link.connection, may_be_new=False)
        return link

    @contextlib.contextmanager
    def _connected(self, writes: bool) -> Iterator[sqlite3.Connection]:
        """Give the connection to this thread alone."""
        link = self._opened(writes)
        with self._errors_named(), link.lock:
            yield link.connection

    def _select(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._connected(writes=False) as connection:
            return connection.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Keep other processes from writing; commit all that was done, or nothing if it raises."""
        with self._connected(writes=True) as connection, _transaction(connection):
            yield connection

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DatabaseError(
                f"{self.path}: SQLite says: {error}. Nothing was changed; see that the file is a "
                "database, that it can be written, and that there is room"
            ) from error

    def _check(self, connection: sqlite3.Connection, *, may_be_new: bool) -> None:
        """Make the tables of a new file; refuse one that this class cannot read."""
        equality = type(self.module_equality).__name__
        if may_be_new and not _table_count(connection):
            with contextlib.suppress(sqlite3.OperationalError):  # another process is about it
                connection.execute("PRAGMA journal_mode = WAL")
            with _transaction(connection):
                if not _table_count(connection):
                    _execute(connection, _TABLES)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {VERSION}")
                    connection.execute(
                        "INSERT INTO setting VALUES ('module_equality', ?)", (equality,)
                    )
        ((application,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        if application != _APPLICATION:
            raise DatabaseError(f"{self.path}: an SQLite file, but no database of records")
        if version != VERSION:
            raise DatabaseError(
                f"{self.path}: a database of version {version}; this package reads {VERSION}. "
                "Copy it to a JSONDatabase with the package that made it"
            )
        ((made_with,),) = connection.execute(
            "SELECT value FROM setting WHERE name = 'module_equality'"
        )
        if made_with != equality:
            raise DatabaseError(
                f"{self.path}: its workloads were told apart by {made_with}, not {equality}; "
                "open it with that and copy_to another database"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path."""
        return (_reopen, (self.path, self.module_equality))


@dataclass(frozen=True, eq=False)
class _Link:
    """A connection, which threads use in turns, and what it is to."""

    connection: sqlite3.Connection
    is_written: bool
    """True if it is to a file that may be written."""
    is_missing: bool = False
    """True if it is to nothing, because there is no file."""
    process: int = field(default_factory=os.getpid)
    lock: threading.RLock = field(default_factory=threading.RLock)


_opening: Final = threading.RLock()
"""Threads open files in turns."""


def _connect(path: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, uri=uri
    )


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Connect to a file that may not be written.

    SQLite wants to write beside it even then, as others may be writing. Where it cannot, nobody
    can, and the file is read as it is: that is all of it, unless there is a file of commits beside
    it which only a writer can bring in.
    """
    place = f"file:{quote(str(path.resolve()))}"
    connection = _connect(f"{place}?mode=ro", uri=True)
    try:
        _table_count(connection)
    except sqlite3.OperationalError:
        connection.close()
        commits = Path(f"{path}-wal")
        if commits.exists() and commits.stat().st_size:
            raise DatabaseError(
                f"{path}: it may not be written, and its last commits are still in {commits}; "
                "open it once where both may be written"
            ) from None
        return _connect(f"{place}?immutable=1", uri=True)
    return connection


def _may_be_written(path: Path) -> bool:
    """Say whether this process may write to a file, or make it, and to others beside it."""
    places = [path, path.parent] if path.exists() else [path.parent]
    return all(os.access(place, os.W_OK, effective_ids=True) for place in places)


def _table_count(connection: sqlite3.Connection) -> int:
    ((count,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
    return int(count)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _execute(connection: sqlite3.Connection, statements: str) -> None:
    """Execute statements inside of a transaction, which `executescript` would commit."""
    for statement in filter(str.strip, statements.split(";")):
        connection.execute(statement)


def _condition(key: str | None, target: Target | None) -> tuple[str, list[str]]:
    wanted = {"workload_key": key, "target_key": None if target is None else target_key(target)}
    given = {column: value for column, value in wanted.items() if value is not None}
    where = " AND ".join(f"{column} = ?" for column in given)
    return (f"WHERE {where}" if where else ""), list(given.values())


def _reopen(path: Path, equality: ModuleEquality) -> SQLDatabase:
    return SQLDatabase(path, module_equality=equality)
