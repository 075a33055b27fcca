"""A database in one SQLite file."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from search.database.database import Database
from search.database.growing_file import refusals_named
from search.database.module_equality import ModuleEquality
from search.database.sql_tables import FIRST_TABLES, TABLES, VERSION, Session, refuse_other
from search.database.table_database import TableDatabase
from search.errors import DatabaseError

SQL_FILE: Final = "database.sqlite"

_APPLICATION: Final = 0x74_69_72_31
"""The mark by which the file says whose it is: "tir1"."""
_PATIENCE: Final = 60.0
"""Seconds to wait for another process that is writing."""


@Database.kinds.register("sql")
class SQLDatabase(TableDatabase):
    """Workloads and records in tables of an SQLite file, `database.sqlite` in `work_dir`.

    What `TableDatabase` says of commits holds. The file is made by the first commit; until then a
    missing one is an empty one, or an error with `allow_missing=False`. One that may not be written
    answers queries and refuses commits. A file of another version or equality of modules, and one
    that is no database, is a DatabaseError.

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
        self._link: _Link | None = None
        self._opened(writes=False)

    @property
    def place(self) -> str:
        """The file; where there is none, that it is missing."""
        return f"{self.path}{'' if self.path.exists() else ' (there is no such file)'}"

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def may_be_written(self) -> bool:
        """True if the file is there and commits are possible."""
        return self._opened(writes=False).is_written

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._link is not None and self._link.process == os.getpid():
            with self._link.lock:
                self._link.connection.close()
        self._link = None

    @contextlib.contextmanager
    def session(self, writes: bool) -> Iterator[Session]:
        """Give a session on the connection, which this thread has alone meanwhile."""
        link = self._opened(writes)
        with self._errors_named(), link.lock:
            if writes:
                with _transaction(link.connection):
                    yield _FileSession(link.connection)
            else:
                yield _FileSession(link.connection)

    def compact(self) -> None:
        """Write the file anew without the room of rows that were dropped."""
        with self._errors_named(), self._opened(writes=True).lock:
            self._opened(writes=True).connection.execute("VACUUM")

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
            _make_tables(connection)
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
                    _make_tables(connection)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {VERSION}")
                    connection.execute(
                        "INSERT INTO setting VALUES ('module_equality', ?)", (equality,)
                    )
        ((application,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        if application != _APPLICATION:
            raise DatabaseError(f"{self.path}: an SQLite file, but no database of records")
        setting = connection.execute(
            "SELECT value FROM setting WHERE name = 'module_equality'"
        ).fetchone()
        if setting is None:
            raise DatabaseError(f"{self.path}: a database without its settings; it is damaged")
        refuse_other(self.name, version, setting[0], equality)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path."""
        return (partial(SQLDatabase, module_equality=self.module_equality), (self.path,))


@Database.kinds.register_scheme("sqlite")
def _of_url(
    url: str,
    *,
    work_dir: str | os.PathLike[str] | None = None,
    module_equality: str | ModuleEquality = "structural",
) -> SQLDatabase:
    """Return the database in the file of a URL: `sqlite:///relative` or `sqlite:////absolute`."""
    _, _, path = url.partition(":///")
    if not path or "?" in path:
        raise DatabaseError(
            f"{url}: a file is sqlite:///path, or sqlite:////path from the root, without options; "
            'for a database in memory say "memory"'
        )
    return SQLDatabase(path, module_equality=module_equality)


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


def _make_tables(connection: sqlite3.Connection) -> None:
    for table in FIRST_TABLES:
        _make(connection, table)


def _make(connection: sqlite3.Connection, table: str) -> None:
    """Make a table, without ending the transaction as `executescript` would."""
    for statement in filter(str.strip, TABLES[table].split(";")):
        connection.execute(statement)


class _FileSession:
    """Statements on a connection to SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def select(self, query: str, values: Mapping[str, Any] = {}) -> list[Any]:
        return self._connection.execute(query, values).fetchall()

    def change(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._connection.executemany(statement, rows)

    def insert(self, table: str, row: Mapping[str, Any]) -> int:
        names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
        cursor = self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", row)
        return cursor.lastrowid or 0

    def require(self, table: str) -> None:
        query = "SELECT name FROM sqlite_schema WHERE name = :name"
        if not self.select(query, {"name": table}):
            _make(self._connection, table)

    def now(self) -> int:
        return int(time.time())
