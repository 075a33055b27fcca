"""A database in tables of SQL, with a queue of records while its server does not answer."""

from __future__ import annotations

import logging
import os
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

from search.database.database import Database
from search.database.keyed_database import SQL_FILE, JSONDatabase, KeyedDatabase
from search.database.module_equality import ModuleEquality
from search.database.records import TuningRecord
from search.database.sql_connection import ServerGoneError
from search.database.sql_store import SQLStore
from search.errors import DatabaseError

logger = logging.getLogger("tensorir.search")

LEFT: Final = "not_entered"
_PAUSE: Final = 10.0
"""A failed commit is repeated after this multiple of its time."""


@Database.kinds.register("sql", "server")
@Database.kinds.register("sqlite://", "postgresql://", "postgres://", "mysql://", "mariadb://")
class SQLDatabase(KeyedDatabase):
    """Workloads and records in tables: see `SQLStore` for commits and errors.

    `place` is the path of a file of SQLite (by default `database.sqlite` in `work_dir`; a read-only
    file answers queries and refuses commits) or a URL of SQLAlchemy: `"sqlite:///relative"`,
    `"postgresql+psycopg://user@host/db"`. Servers other than PostgreSQL need their driver. With
    `allow_missing=False` a missing file is an error. Needs the extra `sql`.

    With a server and `work_dir` each record is also committed to a `JSONDatabase` there. While the
    server does not answer, commits raise nothing: records are stored in its directory
    `not_entered`, and committed when the server answers, or by the next database with that
    directory.
    """

    store: SQLStore

    def __init__(
        self,
        place: str | os.PathLike[str] | None = None,
        *,
        work_dir: str | os.PathLike[str] | None = None,
        allow_missing: bool = True,
        module_equality: str | ModuleEquality = "structural",
    ) -> None:
        if place is None and work_dir is None:
            raise DatabaseError("SQLDatabase needs work_dir or the path of its file")
        self._given = _path_or_url(place or Path(work_dir or ".") / SQL_FILE)
        self._copy: JSONDatabase | None = None
        self._kept = None if isinstance(self._given, Path) or work_dir is None else Path(work_dir)
        if isinstance(self._given, Path) and not allow_missing and not self._given.exists():
            raise DatabaseError(f"there is no database file {self._given}")
        equality = ModuleEquality.create(module_equality)
        store = SQLStore(self._given, type(equality).__name__, self._unsent_records)
        super().__init__(store, equality)
        self._again = 0.0
        """The earliest monotonic time for the next attempt after the server did not answer."""
        self.settle()

    @property
    def place(self) -> str:
        """The file, and whether it is missing, or the URL without its password."""
        name, path = self.store.sql.name, self.store.sql.path
        return name if path is None or path.exists() else f"{name} (there is no such file)"

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record; IRValueError if its workload was not committed before.

        Raises DatabaseError if the record is invalid: see `TuningRecord.check`.
        """
        if self._kept is None:
            super().commit_tuning_record(record)
            return
        record.check()
        self._copy = self._copy or self._in_files(self._kept)
        self._copy.commit_records([record])
        began = time.monotonic()
        if began < self._again:
            self._in_files(self._kept / LEFT).commit_records([record])
            return
        try:
            self.settle()
            super().commit_tuning_record(record)
        except DatabaseError as error:
            self._in_files(self._kept / LEFT).commit_records([record])
            if not isinstance(error, ServerGoneError):
                raise
            now = time.monotonic()
            self._again = now + _PAUSE * (now - began)
            if self.should_warn("gone"):
                logger.warning(
                    "%s; new records are stored in %s, and committed when it answers",
                    error,
                    self._kept / LEFT,
                )

    def settle(self) -> None:
        """Commit the records that the server did not accept before.

        Processes that share the directory wait for each other. If a process is killed meanwhile,
        some records are committed twice; copies count once.
        """
        if self._kept is None or not self._unsent_records():
            return

        def enter(records: list[TuningRecord]) -> list[TuningRecord]:
            self.commit_records(records)
            logger.info("%s: committed %d stored record(s)", self.place, len(records))
            return []

        self._in_files(self._kept / LEFT).store.retain(enter)

    def _in_files(self, folder: Path) -> JSONDatabase:
        return JSONDatabase(work_dir=folder, module_equality=self.module_equality)

    def _unsent_records(self) -> str:
        """Return the place of the records that the server has not accepted, nothing without any."""
        if self._kept is None:
            return ""
        left = self._kept / LEFT
        file = left / "database_tuning_record.json"
        if not file.exists() or not file.stat().st_size:
            return ""
        return f"; new records are stored in {left}, and committed by the next run"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by place, a URL with its password, as the other process has to connect."""
        make = partial(SQLDatabase, work_dir=self._kept, module_equality=self.module_equality)
        return (make, (self._given,))


def _path_or_url(place: str | os.PathLike[str]) -> Path | str:
    """Return the path of a file of SQLite, or the URL of a server."""
    text = os.fspath(place)
    if not text.startswith("sqlite:"):
        return text if "://" in text else Path(text)
    _, _, path = text.partition(":///")
    if not path or "?" in path:
        raise DatabaseError(
            f"{text} is not a file: expected sqlite:///path, or sqlite:////path from the root, "
            'without options; a database in memory is "memory"'
        )
    return Path(path)
