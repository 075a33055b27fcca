"""The database that is in a directory, whichever kind it is."""

from __future__ import annotations

import os
from pathlib import Path

from search.database.database import Database
from search.database.json_database import RECORD_FILE, WORKLOAD_FILE, JSONDatabase
from search.database.sql_database import SQL_FILE, SQLDatabase


def database_in(
    work_dir: str | os.PathLike[str], module_equality: str = "structural"
) -> Database | None:
    """Return the database whose files are in a directory, None if there are none.

    Where there are those of two kinds, it is the one that was written last.
    """
    folder = Path(work_dir)
    found: list[tuple[float, type[JSONDatabase] | type[SQLDatabase]]] = []
    if (folder / WORKLOAD_FILE).exists() and (folder / RECORD_FILE).exists():
        found.append(((folder / RECORD_FILE).stat().st_mtime, JSONDatabase))
    if (folder / SQL_FILE).exists():
        commits = folder / f"{SQL_FILE}-wal"
        last = commits if commits.exists() else folder / SQL_FILE
        found.append((last.stat().st_mtime, SQLDatabase))
    if not found:
        return None
    _, kind = max(found, key=lambda entry: entry[0])
    return kind(work_dir=folder, module_equality=module_equality)
