"""A database in two files of JSON lines, which only grow."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from search.database.database import Database
from search.database.keyed_database import KeyedDatabase
from search.database.line_store import LineStore
from search.database.module_equality import ModuleEquality
from search.database.store import RECORDS, WORKLOADS, Kind
from search.errors import DatabaseError


@Database.kinds.register("json")
class JSONDatabase(KeyedDatabase):
    """Workloads and records in files, each on a line of its own; see `LineStore`.

    The paths default to `database_workload.json` and `database_tuning_record.json` in `work_dir`.
    Files are made by the first commit; until then a missing one is an empty one, or an error with
    `allow_missing=False`. Reading changes nothing, so that files may be read-only.

    Several processes may write to the same files: before a commit a process reads what others
    wrote, and its queries see that from then on. `prune` replaces the file of records; processes
    that have it open must open it anew.
    """

    store: LineStore

    def __init__(
        self,
        path_workload: str | os.PathLike[str] | None = None,
        path_tuning_record: str | os.PathLike[str] | None = None,
        *,
        work_dir: str | os.PathLike[str] | None = None,
        allow_missing: bool = True,
        module_equality: str | ModuleEquality = "structural",
    ) -> None:
        if work_dir is None and (path_workload is None or path_tuning_record is None):
            raise DatabaseError("JSONDatabase needs work_dir, or the paths of both files")
        folder = Path(work_dir or ".")
        self.path_workload = Path(path_workload or folder / WORKLOADS.file)
        self.path_tuning_record = Path(path_tuning_record or folder / RECORDS.file)
        paths: dict[Kind[Any], Path] = {
            WORKLOADS: self.path_workload,
            RECORDS: self.path_tuning_record,
        }
        store = LineStore(folder, paths, lambda workload: self.workload_key(workload.mod))
        super().__init__(store, module_equality)
        for path in () if allow_missing else paths.values():
            if not path.exists():
                raise DatabaseError(f"there is no database file {path}")
        self.refresh()

    @property
    def place(self) -> str:
        """The file of records; where there is none, that it is missing."""
        missing = "" if self.path_tuning_record.exists() else " (there is no such file)"
        return f"{self.path_tuning_record}{missing}"

    def refresh(self) -> None:
        """Read the records that other processes have written."""
        self.store.refresh(RECORDS)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path: the files are read again."""
        paths = (self.path_workload, self.path_tuning_record)
        return (partial(JSONDatabase, module_equality=self.module_equality), paths)
