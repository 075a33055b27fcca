"""A database on a server, whichever SQLAlchemy connects to."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from search.database.database import Database
from search.database.kept_records import KeptRecords
from search.database.module_equality import ModuleEquality
from search.database.records import TuningRecord
from search.database.sql_tables import FIRST_TABLES, TABLES, VERSION, Session, refuse_other
from search.database.table_database import TableDatabase
from search.errors import DatabaseError

logger = logging.getLogger("tensorir.search")

_APPLICATION: Final = "tensorir"
_CONNECT_SECONDS: Final = 10
_PACKAGES: Final = {"psycopg": "tensorir[sql]", "MySQLdb": "mysqlclient"}
"""What to install for a driver whose package has another name, by the name of its module."""
_PATIENCE: Final = 60
"""Seconds to wait for another process that is writing, and for one that stopped amid it."""
_PAUSE: Final = 10.0
"""The factor to the time that a commit took in vain after which the server is asked again."""


class ServerGoneError(DatabaseError):
    """The server does not answer, or not any more."""


@Database.kinds.register("server")
@Database.kinds.register_scheme("postgresql", "postgres", "mysql", "mariadb")
class ServerDatabase(TableDatabase):
    """Workloads and records in tables of a server, at an SQLAlchemy URL.

    `"postgresql+psycopg://user@host/db"` is one; the tables are made in that database by the first
    commit, and until then it is an empty one. What `TableDatabase` says of commits holds; a program
    and a trace are sent once, over a connection that is opened anew where it broke. Needs the extra
    `sql`, and the driver of servers other than PostgreSQL.

    DatabaseError, with what the server says and what can be done, where it is not reached, does not
    know the user or the database, refuses a statement, or where the tables belong to another
    application, version or equality of modules; it is a `ServerGoneError` where trying again later
    may help.

    With `work_dir` each record that is committed is kept there, too, as by `JSONDatabase`. While
    the server does not answer, records are kept apart in `not_entered` below it, and entered as
    soon as it does, or when the next database with that directory is opened; commits raise nothing
    then.
    """

    traces_at_once = 64

    def __init__(
        self,
        url: str,
        *,
        work_dir: str | os.PathLike[str] | None = None,
        module_equality: str | ModuleEquality = "structural",
    ) -> None:
        super().__init__(module_equality)
        self._sql = _sqlalchemy()
        try:
            self._url = self._sql.make_url(url)
        except (self._sql.exc.ArgumentError, ValueError) as error:
            raise DatabaseError(
                f"{url.partition('://')[0]}://... is no URL of a database; they look like "
                "postgresql+psycopg://user@host:5432/database"
            ) from error
        if self._url.drivername in ("postgresql", "postgres"):
            self._url = self._url.set(drivername="postgresql+psycopg")
        self._empty = _empty_database(self._sql)
        self._tables = _tables_of(self._sql, self._empty)
        self._has_tables = False
        self._made = ""
        """What tells these tables from others at the same place, before or after them."""
        self._engine: Any = None
        self._process = 0
        self._lock = threading.RLock()
        self._folder = None if work_dir is None else KeptRecords(Path(work_dir), module_equality)
        self._again = 0.0
        """The time of the monotonic clock before which a server that is gone is not asked again."""
        self._connected(writes=False)
        self.settle()

    @property
    def name(self) -> str:
        """The URL without its password."""
        return str(self._url.render_as_string(hide_password=True))

    @property
    def place(self) -> str:
        """The URL without its password."""
        return self.name

    def close(self) -> None:
        """Close the connections; the next use opens others."""
        with self._lock:
            if self._engine is not None and self._process == os.getpid():
                self._engine.dispose()
            self._engine = None

    @contextlib.contextmanager
    def session(self, writes: bool) -> Iterator[Session]:
        """Give a session on a connection of its own."""
        engine = self._connected(writes)
        with self._errors_named(), engine.begin() as connection:
            session = _ServerSession(self._sql, self._tables, connection)
            if writes:
                self._be_alone(connection)
            yield session

    @property
    def may_be_written(self) -> bool:
        """True if there are tables."""
        return self._has_tables

    def compact(self) -> None:
        """Leave the room to the server, which uses it again."""

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record; IRValueError if its workload was not committed before.

        DatabaseError for one that no database takes: see `TuningRecord.check`.
        """
        kept = self._folder
        if kept is None:
            super().commit_tuning_record(record)
            return
        record.check()
        kept.keep(record)
        if time.monotonic() < self._again:
            kept.leave(record)
            return
        began = time.monotonic()
        try:
            self.settle()
            super().commit_tuning_record(record)
        except DatabaseError as error:
            kept.leave(record)
            if not isinstance(error, ServerGoneError):
                raise
            now = time.monotonic()
            self._again = now + _PAUSE * (now - began)
            if self.is_first_time("gone", str(kept.left)):
                logger.warning(
                    "%s; what is measured meanwhile is kept in %s, and entered when it answers",
                    error,
                    kept.left,
                )

    def settle(self) -> None:
        """Commit the records that the server did not take before."""
        if self._folder is not None:
            entered = self._folder.enter(self.commit_records)
            if entered:
                logger.info("%s: entered %d record(s) that were left", self.name, entered)

    # ----------------------------------------------------------------------------- the connection

    def _be_alone(self, connection: Any) -> None:
        """Let writers come one by one: whoever changes this row has it alone until the end.

        DatabaseError where the tables were made anew, whose rows have other numbers.
        """
        changed = connection.execute(
            self._sql.text(
                "UPDATE setting SET value = value WHERE name = 'made' AND value = :made"
            ),
            {"made": self._made},
        )
        if changed.rowcount != 1:
            raise DatabaseError(
                f"{self.name}: somebody has made its tables anew, and nothing was changed in them; "
                "open the database anew"
            )

    def _connected(self, writes: bool) -> Any:
        """Return the engine of this process; connections inherited by a fork are left alone.

        For reading before there are tables it is one of an empty database in memory.
        """
        with self._lock, self._errors_named():
            if self._engine is None or self._process != os.getpid():
                if self._engine is not None:
                    self._engine.dispose(close=False)
                self._engine, self._process = self._made_engine(), os.getpid()
            if not self._has_tables:
                self._has_tables = self._look(self._engine, writes)
            return self._engine if self._has_tables else self._empty

    def _made_engine(self) -> Any:
        try:
            return self._sql.create_engine(
                self._url, pool_pre_ping=True, connect_args=_patience(self._url)
            )
        except self._sql.exc.NoSuchModuleError as error:
            raise DatabaseError(
                f"{self.name}: SQLAlchemy knows no {self._url.drivername!r}; for PostgreSQL it is "
                "postgresql+psycopg://user@host/database"
            ) from error
        except ModuleNotFoundError as error:
            package = _PACKAGES.get(error.name or "", error.name)
            raise DatabaseError(
                f"{self.name}: its driver {error.name} is not installed; pip install '{package}'"
            ) from error

    def _look(self, engine: Any, writes: bool) -> bool:
        """Say whether there are tables, made here if need be; refuse those of other classes."""
        present = set(self._sql.inspect(engine).get_table_names())
        if "setting" not in present:
            foreign = sorted(present.intersection(TABLES))
            if foreign:
                raise DatabaseError(self._of_others(f"tables called {', '.join(foreign)}"))
            if not writes:
                return False
            self._make_tables(engine)
        setting = self._tables.tables["setting"]
        with engine.connect() as connection:
            rows = connection.execute(self._sql.select(setting.c.name, setting.c.value))
            known = {str(name): str(value) for name, value in rows}
        if known.get("application") != _APPLICATION:
            raise DatabaseError(self._of_others("a table called setting"))
        equality = type(self.module_equality).__name__
        refuse_other(self.name, known.get("version"), known.get("module_equality"), equality)
        self._made = known.get("made", "")
        return True

    def _make_tables(self, engine: Any) -> None:
        settings = {
            "application": _APPLICATION,
            "version": str(VERSION),
            "module_equality": type(self.module_equality).__name__,
            "made": uuid.uuid4().hex,
        }
        try:
            with engine.begin() as connection:
                tables = [self._tables.tables[table] for table in FIRST_TABLES]
                self._tables.create_all(connection, tables, checkfirst=False)
                session = _ServerSession(self._sql, self._tables, connection)
                for name, value in settings.items():
                    session.insert("setting", {"name": name, "value": value})
        except (self._sql.exc.ProgrammingError, self._sql.exc.IntegrityError):
            if "setting" not in self._sql.inspect(engine).get_table_names():
                raise  # else another process was faster

    def _of_others(self, what: str) -> str:
        return (
            f"{self.name}: it has {what} of another application, which were left as they are; "
            "give the records a database of their own, as by CREATE DATABASE"
        )

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        exc = self._sql.exc
        try:
            yield
        except exc.DBAPIError as error:
            said = " ".join(str(error.orig).split())
            if error.connection_invalidated or isinstance(
                error, (exc.OperationalError, exc.InterfaceError)
            ):
                raise ServerGoneError(
                    f'{self.name}: the server is not reached, or refuses: "{said}"; see that it '
                    "runs and has room, that the database is there, and that user and password are "
                    "right (PostgreSQL takes the password from PGPASSWORD or ~/.pgpass)"
                    f"{'' if self._folder is None else self._folder.what_is_left()}"
                ) from error
            raise DatabaseError(
                f'{self.name}: the server says "{said}", and nothing was changed; see that the '
                "user may read and write the tables, and at first make them"
            ) from error
        except exc.SQLAlchemyError as error:
            raise DatabaseError(f"{self.name}: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by URL, with the password: the other process has to connect."""
        url = self._url.render_as_string(hide_password=False)
        folder = None if self._folder is None else self._folder.path
        make = partial(ServerDatabase, work_dir=folder, module_equality=self.module_equality)
        return (make, (url,))


class _ServerSession:
    """Statements on a connection of SQLAlchemy."""

    def __init__(self, sql: Any, tables: Any, connection: Any) -> None:
        self._sql = sql
        self._tables = tables
        self._connection = connection

    def select(self, query: str, values: Mapping[str, Any] = {}) -> list[Any]:
        return [tuple(row) for row in self._connection.execute(self._sql.text(query), values)]

    def change(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            self._connection.execute(self._sql.text(statement), rows)

    def insert(self, table: str, row: Mapping[str, Any]) -> int:
        result = self._connection.execute(self._tables.tables[table].insert(), row)
        key = result.inserted_primary_key
        return int(key[0]) if key and isinstance(key[0], int) else 0

    def require(self, table: str) -> None:
        self._tables.tables[table].create(self._connection, checkfirst=True)

    def now(self) -> int:
        ((now,),) = self._connection.execute(self._sql.select(self._sql.func.current_timestamp()))
        return int(now.timestamp())


def _sqlalchemy() -> Any:
    try:
        return importlib.import_module("sqlalchemy")
    except ModuleNotFoundError as error:
        raise DatabaseError(
            "a database on a server needs SQLAlchemy: pip install 'tensorir[sql]'"
        ) from error


def _empty_database(sql: Any) -> Any:
    """Return the engine of a database in memory with all tables, as SQLite has them."""
    engine = sql.create_engine(
        "sqlite://", poolclass=sql.pool.StaticPool, connect_args={"check_same_thread": False}
    )
    with engine.begin() as connection:
        for statements in TABLES.values():
            for statement in filter(str.strip, statements.split(";")):
                connection.execute(sql.text(statement))
    return engine


def _tables_of(sql: Any, engine: Any) -> Any:
    """Return the tables of a database in types that each server has of its own."""
    tables = sql.MetaData()
    mysql = importlib.import_module("sqlalchemy.dialects.mysql")

    def generalise(inspector: Any, table: Any, column: dict[str, Any]) -> None:
        kind = column["type"].as_generic()
        if isinstance(kind, sql.Text):
            kind = kind.with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
        column["type"] = kind

    sql.event.listen(tables, "column_reflect", generalise)
    tables.reflect(engine)
    return tables


def _patience(url: Any) -> dict[str, Any]:
    """Return how long a driver waits, as far as its options are known and the URL has none."""
    if url.get_driver_name() not in ("psycopg", "psycopg2"):
        return {}
    limit = f"{_PATIENCE}s"
    wanted = {
        "connect_timeout": _CONNECT_SECONDS,
        "options": f"-c lock_timeout={limit} -c idle_in_transaction_session_timeout={limit}",
    }
    return {name: value for name, value in wanted.items() if name not in url.query}
