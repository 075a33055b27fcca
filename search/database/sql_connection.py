"""The tables of a database in SQL, and connections to them.

They are in a file of SQLite or on a server. Their differences are handled here and by SQLAlchemy.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from search.errors import DatabaseError
from search.lines import refusals_named

try:
    import sqlalchemy as sa
    from sqlalchemy.dialects.mysql import LONGTEXT
except ModuleNotFoundError as error:
    raise DatabaseError(
        "a database in SQL, in a file of SQLite or on a server, needs SQLAlchemy: "
        "pip install 'tensorir[sql]'"
    ) from error

VERSION: Final = 1
"""Changes with the tables, and with the form of workload and target keys."""
_APPLICATION: Final = "tensorir"
_CONNECT_SECONDS: Final = 10
_PATIENCE: Final = 60
"""Seconds to wait for another writer, and until a stopped writer is ended."""

_TEXT: Final = sa.Text().with_variant(LONGTEXT(), "mysql", "mariadb")
TABLES: Final = sa.MetaData()


def _table(name: str, *columns: Any) -> Any:
    return sa.Table(name, TABLES, *columns, sqlite_autoincrement=name == "record")


def _column(name: str, kind: Any, **options: Any) -> Any:
    return sa.Column(name, kind, **{"nullable": False, **options})


SETTING_TABLE: Final = _table(
    "setting", _column("name", sa.String(64), primary_key=True), _column("value", _TEXT)
)
WORKLOAD_TABLE: Final = _table(
    "workload",
    _column("id", sa.Integer, primary_key=True),
    _column("key", sa.String(100)),
    _column("program", _TEXT),
    sa.Index("workload_of", "key"),
)
RECORD_TABLE: Final = _table(
    "record",
    _column("id", sa.Integer, primary_key=True),
    _column("workload", sa.ForeignKey("workload.id")),
    _column("workload_key", sa.String(100)),
    _column("target_key", _TEXT, nullable=True),
    _column("trace_key", sa.LargeBinary),
    _column("schedules", sa.Integer),
    _column("run_secs", _TEXT),
    _column("target", _TEXT),
    _column("args_info", _TEXT),
    sa.Index("record_of", "workload_key"),
)
TRACE_TABLE: Final = _table(
    "trace",
    _column("record", sa.ForeignKey("record.id"), primary_key=True, autoincrement=False),
    _column("text", _TEXT),
)
CLAIM_TABLE: Final = _table(
    "claim",
    _column("workload_key", sa.String(100)),
    _column("target_key", _TEXT),
    _column("trace_key", sa.LargeBinary),
    _column("owner", sa.String(64)),
    _column("until", sa.BigInteger),
    sa.Index("claim_of", "workload_key"),
)
"""Leased traces, their owners, and the ends of the leases in seconds since 1970."""


class ServerGoneError(DatabaseError):
    """The server does not answer."""


class SQLConnection:
    """Connections of this process to the tables at a place.

    The first writer makes the tables. DatabaseError, with the message of the database and a remedy,
    if it cannot be reached, if it refuses, and for tables of another application, version or module
    equality; `ServerGoneError` if a later try may succeed. `left_over` returns a text to append to
    its message.
    """

    def __init__(
        self, place: str | Path, equality: str, left_over: Callable[[], str] = lambda: ""
    ) -> None:
        self.path = place if isinstance(place, Path) else None
        self.url = _url_of(place)
        self._equality = equality
        self._left_over = left_over
        self._engine: Any = None
        self._process = 0
        self._has_tables = self._is_read_only = False
        self._made: str | None = None
        """Distinguishes these tables from earlier tables at the same place of a server."""
        self._lock = threading.RLock()
        self._connect(writes=False)

    @property
    def name(self) -> str:
        """The file, or the URL without its password."""
        return str(self.path or self.url.render_as_string(hide_password=True))

    def rows(self, query: Any) -> Sequence[Any]:
        """Return the rows of a query, none before there are tables."""
        engine = self._connect(writes=False)
        if engine is None:
            return ()
        with self._errors_named(), engine.connect() as connection:
            return connection.execute(query).fetchall()  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def session(self, writes: bool) -> Iterator[Any]:
        """Yield a connection in a transaction; other writers wait until the end of a writer's.

        Raises DatabaseError if the tables were made again: their rows have other numbers.
        """
        engine = self._connect(writes)
        with self._errors_named(), engine.begin() as connection:
            if writes and self.path is not None:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            elif writes:
                own = (SETTING_TABLE.c.name == "made", SETTING_TABLE.c.value == self._made)
                locking = SETTING_TABLE.update().where(*own).values(value=self._made)
                if connection.execute(locking).rowcount != 1:
                    raise DatabaseError(
                        f"{self.name}: its tables were made again by another process, and were not "
                        "changed; open the database again"
                    )
            yield connection

    def close(self) -> None:
        """Close the connections; the next use opens others."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose(close=self._process == os.getpid())
            self._engine = None

    def _connect(self, writes: bool) -> Any:
        """Return the engine of this process, None for reading before there are tables.

        A forked process makes its own, and does not close connections of its parent.
        """
        with self._lock, self._errors_named():
            if self._engine is not None and self._process != os.getpid():
                self.close()
            if self.path is not None and not self.path.exists():
                if not writes:
                    return None
                with refusals_named(self.path):
                    self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._engine is None:
                self._engine, self._process = self._made_engine(), os.getpid()
            if self._is_read_only and writes:
                raise DatabaseError(
                    f"{self.path}: it may not be written, so it answers queries only, and nothing "
                    "was committed; change the rights of the file and its directory, or copy_to "
                    "another database"
                )
            if not self._has_tables:
                self._has_tables = self._open_tables(writes)
            return self._engine if self._has_tables else None

    def _made_engine(self) -> Any:
        url = self.url
        if self.path is not None:
            self._is_read_only = not _may_be_written(self.path)
            url = _read_only(self.path) if self._is_read_only else url
        try:
            engine = sa.create_engine(
                url, pool_pre_ping=self.path is None, connect_args=_patience(self.url)
            )
        except ModuleNotFoundError as error:
            raise DatabaseError(
                f"{self.name}: its driver {error.name} is not installed; install it by pip "
                "(psycopg with 'tensorir[sql]')"
            ) from error
        if self.path is not None and not self._is_read_only:
            sa.event.listen(
                engine, "connect", lambda opened, _: opened.execute("PRAGMA synchronous = NORMAL")
            )
        return engine

    def _open_tables(self, writes: bool) -> bool:
        """Return True if there are tables; a writer makes missing ones. Reject foreign tables."""
        present = set(sa.inspect(self._engine).get_table_names())
        if "setting" not in present:
            foreign = present if self.path else present.intersection(TABLES.tables)
            if foreign:
                raise self._foreign_tables()
            if not writes:
                return False
            self._make_tables()
        with self._engine.connect() as connection:
            known = dict(map(tuple, connection.execute(sa.select(SETTING_TABLE))))
        if known.get("application") != _APPLICATION:
            raise self._foreign_tables()
        if known.get("version") != str(VERSION):
            raise DatabaseError(
                f"{self.name}: a database of version {known.get('version')}; this package reads "
                f"{VERSION}. Copy it to a JSONDatabase with the package that made it"
            )
        equality = known.get("module_equality")
        if equality != self._equality:
            raise DatabaseError(
                f"{self.name}: its module equality is {equality}, not {self._equality}; open it "
                "with that and copy_to another database"
            )
        self._made = known.get("made")
        return True

    def _make_tables(self) -> None:
        settings = {
            "application": _APPLICATION,
            "version": str(VERSION),
            "module_equality": self._equality,
            "made": uuid.uuid4().hex,
        }
        rows = [{"name": name, "value": value} for name, value in settings.items()]
        exc = sa.exc
        if self.path is not None:
            with contextlib.suppress(exc.OperationalError), self._engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        try:
            with self._engine.begin() as connection:
                if self.path is not None:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                TABLES.create_all(connection, checkfirst=False)
                connection.execute(SETTING_TABLE.insert(), rows)
        except (exc.ProgrammingError, exc.IntegrityError, exc.OperationalError):
            if "setting" not in sa.inspect(self._engine).get_table_names():
                raise  # otherwise another process was faster

    def _foreign_tables(self) -> DatabaseError:
        return DatabaseError(
            f"{self.name}: it has tables of another application, which were not changed; give the "
            "records their own database: another file, or by CREATE DATABASE"
        )

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        exc = sa.exc
        try:
            yield
        except exc.DBAPIError as error:
            message = " ".join(str(error.orig).split())
            is_gone = error.connection_invalidated or isinstance(
                error, (exc.OperationalError, exc.InterfaceError)
            )
            if is_gone and self.path is None:
                raise ServerGoneError(
                    f'{self.name}: the server cannot be reached, or refuses: "{message}"; check '
                    "that it runs and has room, that the database exists, and that user and "
                    "password are right (PostgreSQL takes the password from PGPASSWORD or "
                    f"~/.pgpass){self._left_over()}"
                ) from error
            raise DatabaseError(
                f'{self.name}: the database reports "{message}". Nothing was changed; check that '
                "this is a database of records with enough room, and that the user may read, write "
                "and at first make its tables"
            ) from error
        except exc.SQLAlchemyError as error:
            raise DatabaseError(f"{self.name}: {error}") from error


def _url_of(place: str | Path) -> Any:
    if isinstance(place, Path):
        return sa.URL.create("sqlite", database=str(place))
    try:
        url = sa.make_url(place)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise DatabaseError(
            f"{place.partition('://')[0]}://... is not the URL of a database; expected "
            "postgresql+psycopg://user@host:5432/database"
        ) from error
    is_postgres = url.drivername in ("postgresql", "postgres")
    return url.set(drivername="postgresql+psycopg") if is_postgres else url


def _patience(url: Any) -> dict[str, Any]:
    """Return the time limits of a driver with known options, unless the URL has others."""
    if url.drivername == "sqlite":
        return {"timeout": _PATIENCE}
    if url.drivername not in ("postgresql+psycopg", "postgresql+psycopg2"):
        return {}
    limit = f"{_PATIENCE}s"
    wanted = {
        "connect_timeout": _CONNECT_SECONDS,
        "options": f"-c lock_timeout={limit} -c idle_in_transaction_session_timeout={limit}",
    }
    return {name: value for name, value in wanted.items() if name not in url.query}


def _may_be_written(path: Path) -> bool:
    """True if this process may write to a file, or make it, and to others in its directory."""
    places = [path, path.parent] if path.exists() else [path.parent]
    return all(os.access(place, os.W_OK, effective_ids=True) for place in places)


def _read_only(path: Path) -> Any:
    """Return the URL of a file that may not be written.

    SQLite writes to the directory even then, as another process may be writing. If it cannot, the
    file is complete and is opened as immutable, unless there is a file of commits next to it, which
    only a writer can apply.
    """
    place = f"file:{quote(str(path.resolve()))}"
    url = sa.URL.create("sqlite", database=place, query={"mode": "ro", "uri": "true"})
    try:
        with sa.create_engine(url).connect() as connection:
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_schema")
    except sa.exc.OperationalError:
        commits = Path(f"{path}-wal")
        if commits.exists() and commits.stat().st_size:
            raise DatabaseError(
                f"{path}: it may not be written, and its last commits are still in {commits}; "
                "open it once where both may be written"
            ) from None
        return url.set(query={"immutable": "1", "uri": "true"})
    return url
