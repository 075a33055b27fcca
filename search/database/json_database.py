"""A database in two files of JSON lines, which only grow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from search.database.database import Database
from search.database.growing_file import GrowingFile
from search.database.memory_database import MemoryDatabase
from search.database.module_equality import ModuleEquality
from search.database.records import TuningRecord, Workload
from search.errors import DatabaseError

if TYPE_CHECKING:
    from tensorir.function import IRModule

WORKLOAD_FILE: Final = "database_workload.json"
RECORD_FILE: Final = "database_tuning_record.json"


@Database.kinds.register("json")
class JSONDatabase(MemoryDatabase):
    """Workloads and records in files, each on a line of its own.

    The paths default to `database_workload.json` and `database_tuning_record.json` in `work_dir`.
    Every commit appends one line and hands it to the system at once, so a process that is killed
    loses at most the line being written. A last line without its end is such a loss: it is removed
    with a warning. Any other line that cannot be read is a DatabaseError that names file, line and
    field. `allow_missing=False` makes a missing file an error.

    Several processes may write to the same files. Each takes a lock on the file of workloads for
    it, and before it writes it reads what the others wrote; its queries see that from then on.
    """

    def __init__(
        self,
        path_workload: str | os.PathLike[str] | None = None,
        path_tuning_record: str | os.PathLike[str] | None = None,
        *,
        work_dir: str | os.PathLike[str] | None = None,
        allow_missing: bool = True,
        module_equality: str | ModuleEquality = "structural",
    ) -> None:
        super().__init__(module_equality)
        if work_dir is None and (path_workload is None or path_tuning_record is None):
            raise DatabaseError("JSONDatabase needs work_dir, or the paths of both files")
        folder = Path(work_dir or ".")
        self.path_workload = Path(path_workload or folder / WORKLOAD_FILE)
        self.path_tuning_record = Path(path_tuning_record or folder / RECORD_FILE)
        for path in (self.path_workload, self.path_tuning_record):
            if not path.exists():
                if not allow_missing:
                    raise DatabaseError(f"there is no database file {path}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        self._workload_file = GrowingFile(self.path_workload)
        self._record_file = GrowingFile(self.path_tuning_record)
        with self._up_to_date():
            pass

    @contextlib.contextmanager
    def _up_to_date(self) -> Iterator[None]:
        """Keep other processes from writing, after all that they have written was read."""
        with self._workload_file.lock():
            for where, obj in self._workload_file.new_lines():
                with _located(where):
                    self._add_workload(Workload.from_json(obj))
            for where, obj in self._record_file.new_lines():
                with _located(where):
                    self._records.append(self._record(obj))
            yield

    def _record(self, obj: Any) -> TuningRecord:
        if not isinstance(obj, list) or len(obj) != 2 or type(obj[0]) is not int:
            raise DatabaseError("a line is [index of the workload, record]")
        if not 0 <= obj[0] < len(self._workloads):
            raise DatabaseError(
                f"field 0 is workload {obj[0]}, but {self.path_workload} has "
                f"{len(self._workloads)}; the two files belong together"
            )
        return TuningRecord.from_json(obj[1], self._workloads[obj[0]])

    def commit_workload(self, mod: IRModule) -> Workload:
        """Return the workload of a program, added and written to the file if it is new."""
        index = self._find(mod)
        if index is not None:
            return self._workloads[index]
        with self._up_to_date():
            index = self._find(mod)
            if index is not None:
                return self._workloads[index]
            workload = Workload(mod)
            self._workload_file.append(workload.as_json())
            return self._add_workload(workload)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record and write it; IRValueError if its workload was not committed before."""
        index = self.workload_index(record.workload)
        with self._up_to_date():
            self._record_file.append([index, record.as_json()])
            self._records.append(replace(record, workload=self._workloads[index]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path: the files are read again."""
        return (_reopen, (self.path_workload, self.path_tuning_record, self.module_equality))


def _reopen(path_workload: Path, path_record: Path, equality: ModuleEquality) -> JSONDatabase:
    return JSONDatabase(path_workload, path_record, module_equality=equality)


class _located:  # noqa: N801  used like a function
    """Puts file and line before what is wrong with a line."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, DatabaseError):
            raise DatabaseError(f"{self._where}: {error}") from error
