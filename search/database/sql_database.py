"""A database in one SQLite file."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from search.database.database import Database
from search.database.growing_file import json_line, json_of, refusals_named
from search.database.keyed_database import Choose, KeyedDatabase
from search.database.module_equality import ModuleEquality, unnamed
from search.database.record_line import arguments_from_text, target_from_text
from search.database.records import Workload, seconds_of
from search.database.stored_record import StoredRecord
from search.database.target_key import target_key
from search.errors import DatabaseError

if TYPE_CHECKING:
    from codegen import Target
    from search.database.records import TuningRecord
    from tensorir.function import IRModule

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
    processes may write; one waits for the other. Nothing is read before it is asked for, so opening
    takes no time whatever the number of records, and queries see what others wrote. A file of
    another version or equality of modules, and one that is no database, is a DatabaseError.

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
        with refusals_named(self.path):
            if not self.path.exists():
                if not allow_missing:
                    raise DatabaseError(f"there is no database file {self.path}")
                self.path.parent.mkdir(parents=True, exist_ok=True)
        self._workloads: dict[int, Workload] = {}
        self._connection: tuple[int, sqlite3.Connection] | None = None
        self._check()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._connection is not None and self._connection[0] == os.getpid():
            self._connection[1].close()
        self._connection = None

    # ------------------------------------------------------------------------------------ storage

    def workloads(self, key: str | None = None) -> Sequence[Workload]:
        """Return the programs under a key in the order of their commit; all without a key."""
        where, values = ("WHERE key = ?", (key,)) if key is not None else ("", ())
        rows = self._select(f"SELECT id FROM workload {where} ORDER BY id", values)
        return [self._workload(number) for (number,) in rows]

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
        self._hash_new(kind)
        asked = unnamed(mod)
        found = self._select(
            "SELECT key, id FROM likeness JOIN workload ON id = workload "
            "WHERE equality = ? AND hash = ? ORDER BY id",
            (type(kind).__name__, str(kind.hash(asked))),
        )
        known = [(key, self._workload(number)) for key, number in found]
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
        with self._errors_named():
            self._opened().execute("VACUUM")

    def _numbered(self, key: str | None, target: Target | None) -> list[tuple[int, TuningRecord]]:
        where, values = _condition(key, target)
        rows = self._select(
            "SELECT id, workload, run_secs, target, args_info, trace_key, schedules "
            f"FROM record {where} ORDER BY id",
            values,
        )
        return [(row[0], self._record(*row)) for row in rows]

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
            raise DatabaseError(f"{place}: {error}") from error

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
        rows = [(name, k, str(kind.hash(unnamed(self._workload(k).mod)))) for (k,) in new]
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
            raise DatabaseError(f"{self.path}: a record of an unknown workload")
        return number

    def _workload(self, number: int) -> Workload:
        known = self._workloads.get(number)
        if known is None:
            ((text,),) = self._select("SELECT program FROM workload WHERE id = ?", (number,))
            try:
                known = self._workloads[number] = Workload.from_script(text)
            except DatabaseError as error:
                raise DatabaseError(f"{self.path}: workload {number}: {error}") from error
        return known

    # --------------------------------------------------------------------------------- the SQLite

    def _opened(self) -> sqlite3.Connection:
        """Return a connection of this process; one that was inherited by a fork is not used."""
        if self._connection is None or self._connection[0] != os.getpid():
            connection = sqlite3.connect(
                self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA synchronous = NORMAL")
            self._connection = (os.getpid(), connection)
        return self._connection[1]

    def _select(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._errors_named():
            return self._opened().execute(query, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Keep other processes from writing; commit all that was done, or nothing if it raises."""
        with self._errors_named():
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DatabaseError(
                f"{self.path}: SQLite says: {error}. Nothing was changed; see that the file is a "
                "database, that it can be written, and that there is room"
            ) from error

    def _check(self) -> None:
        """Make the tables of a new file; refuse one that this class cannot read."""
        if self._select("PRAGMA journal_mode") != [("wal",)]:
            with contextlib.suppress(sqlite3.OperationalError):  # another process is about it
                self._opened().execute("PRAGMA journal_mode = WAL")
        with self._transaction() as connection:
            ((application,),) = connection.execute("PRAGMA application_id")
            ((version,),) = connection.execute("PRAGMA user_version")
            ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
            equality = type(self.module_equality).__name__
            if not tables:
                _execute(connection, _TABLES)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute("INSERT INTO setting VALUES ('module_equality', ?)", (equality,))
                return
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
