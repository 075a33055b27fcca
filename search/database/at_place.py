"""The database in a directory, in a file, or at a URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from search.database.database import Database
from search.database.keyed_database import JSONDatabase
from search.database.store import RECORDS, WORKLOADS
from search.errors import DatabaseError, NoDatabaseError

SQL_FILE: Final = "database.sqlite"
"""The file of a database of the kind `"sql"` in a working directory."""
_OF_SQLITE: Final = (".sqlite", ".sqlite3", ".db")
_WORKLOADS: Final = "_workload.json"


def database_at(place: str | os.PathLike[str], *, may_be_new: bool = False) -> Database:
    """Return the database at a place.

    A place is the directory of a search; a file of SQLite (`.sqlite`, `.sqlite3`, `.db`); a file of
    records as JSON lines, whose workloads are in `database_workload.json` in the same directory, or
    for `best.json` in `best_workload.json`; or a URL of `Database.create`. With `may_be_new` the
    first commit makes a missing database, in a directory as files of JSON lines.

    DatabaseError if there is no database, or the place cannot have one.
    """
    if "://" in os.fspath(place):
        return Database.create(os.fspath(place))
    path = Path(place)
    if path.suffix in _OF_SQLITE:
        return Database.create("sql", path, allow_missing=may_be_new)
    if path.suffix == ".json":
        name = WORKLOADS.file if path.name == RECORDS.file else path.stem + _WORKLOADS
        workloads = path.with_name(name)
        if path.exists() and not workloads.exists():
            raise DatabaseError(
                f"{path} is not a file of records, or its programs are missing: there is no "
                f"{workloads}"
            )
        return JSONDatabase(workloads, path, allow_missing=may_be_new)
    found = database_in(path) if path.is_dir() else None
    if found is not None:
        return found
    if may_be_new and (path.is_dir() or not path.exists()):
        path.mkdir(parents=True, exist_ok=True)
        return JSONDatabase(work_dir=path)
    if path.is_dir():
        raise NoDatabaseError(f"there is no database in {path}: no search has left records there")
    if path.exists():
        raise NoDatabaseError(
            f"{path} is not a database; expected a directory of a search, a file of SQLite "
            f"({', '.join(_OF_SQLITE)}), a .json file of records, or a URL"
        )
    raise NoDatabaseError(f"there is no database {path}")


def database_in(
    work_dir: str | os.PathLike[str], module_equality: str = "structural"
) -> Database | None:
    """Return the database whose files are in a directory, None if there are none.

    If there are files of two kinds, it is the database that was written last.
    """
    folder = Path(work_dir)
    files = {"json": folder / RECORDS.file, "sql": folder / f"{SQL_FILE}-wal"}
    if not files["sql"].exists():
        files["sql"] = folder / SQL_FILE
    times = {kind: path.stat().st_mtime for kind, path in files.items() if path.exists()}
    if not (folder / WORKLOADS.file).exists():
        times.pop("json", None)
    if not times:
        return None
    last = max(times, key=lambda kind: times[kind])
    return Database.create(last, work_dir=folder, module_equality=module_equality)
