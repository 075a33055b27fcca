"""Databases in stores of keys and values: in memory, in files of JSON lines, or user-defined."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codegen import Target
from search.database.database import Database
from search.database.line_store import LineStore
from search.database.module_equality import ModuleEquality
from search.database.records import TuningRecord, Workload
from search.database.store import RECORDS, WORKLOADS, Claimed, Kind, Lease, MemoryStore, Store
from search.database.target_key import target_key
from search.errors import DatabaseError, NoDatabaseError
from tensorir.errors import IRValueError
from tensorir.paths import as_path

if TYPE_CHECKING:
    from tensorir.function import IRModule


V = TypeVar("V")

_MOST_CACHED: Final = 1024
"""Programs whose workloads are cached."""


class KeyedDatabase(Database):
    """Workloads and records in a store, by key and target.

    The key of a workload is the hash of its program as text, with a number after it if another
    program has that key already. Programs that are the same workload share a key, and each keeps
    its own names, because a trace refers to blocks and functions by name.
    """

    def __init__(self, store: Store, module_equality: str | ModuleEquality = "structural") -> None:
        super().__init__(module_equality)
        self.store = store
        self._keys: dict[IRModule, str] = {}
        """The keys of committed programs; a workload is never removed."""
        self._committed: dict[IRModule, Workload] = {}

    # ------------------------------------------------------------------------------------ the store

    def workloads(self, key: str | None = None) -> Sequence[Workload]:
        """Return the programs under a key, or all, in the order of their commit."""
        return [one.value for one in self.store.read(WORKLOADS, key)]

    def _workloads(self) -> Sequence[Workload]:
        return self.workloads()

    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records under a key, or all, in the order of their commit."""
        return [one.value for one in self.store.read(RECORDS, key, target=_text(target))]

    def commit_workload(self, mod: IRModule) -> Workload:
        """Return the workload of a program, added if it is new."""
        known = self._committed.get(mod)
        if known is None:
            (known,) = self.store.append(WORKLOADS, [(self.workload_key(mod), Workload(mod))])
            _cache(self._committed, mod, known)
        return known

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record; IRValueError if its workload was not committed before.

        Raises DatabaseError if the record is invalid: see `TuningRecord.check`.
        """
        record.check()
        if not self.has_workload(record.workload.mod):
            raise IRValueError("commit the workload of a record before the record")
        self.commit_records([record])

    def commit_records(self, records: Sequence[TuningRecord]) -> None:
        """Commit records and their workloads, all at once; none if one of them is invalid."""
        for record in records:
            record.check()
        keys = {
            workload: self.workload_key(workload.mod)
            for workload in dict.fromkeys(record.workload for record in records)
        }
        for workload, key in keys.items():
            self.store.append(WORKLOADS, [(key, workload)])
        self.store.append(RECORDS, [(keys[record.workload], record) for record in records])

    def copy_to(self, destination: Database) -> None:
        """Add all workloads and records to another database, of any kind."""
        for workload in self.workloads():
            destination.commit_workload(workload.mod)
        super().copy_to(destination)

    def prune(self, keep: int = 1) -> None:
        """Keep only the `keep` best valid records of each workload and target."""
        self.store.retain(lambda records: self._best_of_each(records, keep))

    def unreadable(self) -> list[str]:
        """Return the place and the reason for each entry that could not be read."""
        return self.store.unreadable()

    def close(self) -> None:
        """Release files and connections; the next use opens them again."""
        self.store.close()

    def __len__(self) -> int:
        return self.store.count(RECORDS)

    # -------------------------------------------------------------------------- by program, target

    def workload_key(self, mod: IRModule) -> str:
        """Return the key of a program, whether it was committed or not."""
        return self._find(mod)[0]

    def has_workload(self, mod: IRModule) -> bool:
        """True if a program is a workload of this database."""
        return self._find(mod)[1]

    def _find(self, mod: IRModule) -> tuple[str, bool]:
        """Return the key of a program, and True if the program was committed."""
        if mod in self._keys:
            return self._keys[mod], True
        first = super().workload_key(mod)
        for number in count():
            key = f"{first}.{number}" if number else first
            known = self.workloads(key)
            if not known:
                return key, False
            if self.same_workload(known[0].mod, mod):
                _cache(self._keys, mod, key)
                return key, True
        raise AssertionError  # count() is infinite

    def get_top_k(
        self, workload: Workload, top_k: int, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return the `top_k` best valid records of a workload, best first; IRValueError below 0."""
        if top_k < 0:
            raise IRValueError(f"top_k must be at least 0, got {top_k}")
        key = self.workload_key(workload.mod)
        return self.store.best(key, top_k, _text(target)) if top_k else []

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Return all records, valid or not, in the order in which they were committed."""
        return self.records()

    def tuning_records_of(
        self, workload: Workload, target: Target | None = None
    ) -> list[TuningRecord]:
        """Return all records of a workload, valid or not, in the order of their commit."""
        return self.records(self.workload_key(workload.mod), target)

    def count(self, workload: Workload, target: Target | None = None) -> int:
        """Return the number of records of a workload; a trace measured twice counts twice."""
        return self.store.count(RECORDS, self.workload_key(workload.mod), _text(target))

    def query_tuning_records(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Sequence[TuningRecord]:
        """Return all valid records of a program, records of equal programs first, best first.

        The winner of a search comes before faster ones; see `winner_first`.
        """
        return self._rank_records(mod, target)

    # ------------------------------------------------------------------------------- several tuners

    @property
    def has_claims(self) -> bool:
        """True if the store keeps tuners from measuring the same traces."""
        return self.store.has_claims

    def records_behind(
        self, workload: Workload, target: Target | None, place: int
    ) -> tuple[list[TuningRecord], int]:
        """Return the records of a workload after a position, and the position after them."""
        key = self.workload_key(workload.mod)
        found = self.store.read(RECORDS, key, behind=place, target=_text(target))
        return [one.value for one in found], max((one.number for one in found), default=place)

    def claim(
        self,
        workload: Workload,
        target: Target,
        trace_keys: Sequence[bytes],
        owner: str,
        seconds: int,
    ) -> Claimed:
        """Lease the traces to `owner` that have no other lease and no record."""
        wanted = Lease(self.workload_key(workload.mod), target_key(target), trace_keys)
        return self.store.claim(owner, seconds, wanted)

    def renew_claims(self, owner: str, seconds: int) -> None:
        """Extend the leases of an owner to this many seconds from now; 0 ends them."""
        self.store.claim(owner, seconds)


def _text(target: Target | None) -> str | None:
    return None if target is None else target_key(target)


def _cache(known: dict[IRModule, V], mod: IRModule, value: V) -> None:
    if len(known) >= _MOST_CACHED:
        known.clear()
    known[mod] = value


@Database.kinds.register("memory")
class MemoryDatabase(KeyedDatabase):
    """Workloads and records in the memory of this process."""

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        super().__init__(MemoryStore(), module_equality)

    @property
    def place(self) -> str:
        """The name of the database in messages."""
        return "a database in memory"


@Database.kinds.register("json")
class JSONDatabase(KeyedDatabase):
    """Workloads and records in two files of JSON lines, which only grow; see `LineStore`.

    The paths default to `database_workload.json` and `database_tuning_record.json` in `work_dir`.
    The first commit makes the files; a missing file is empty, or an error with
    `allow_missing=False`. Reading changes nothing, so files may be read-only.

    Several processes may write to the same files: before a commit a process reads the records of
    others, and its queries return them from then on. `prune` replaces the file of records;
    processes that have it open must open it again.
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
        folder = as_path(work_dir or ".", "work_dir")
        self.path_workload = as_path(path_workload or folder / WORKLOADS.file, "path_workload")
        self.path_tuning_record = as_path(
            path_tuning_record or folder / RECORDS.file, "path_tuning_record"
        )
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
        """The file of records, and whether it is missing."""
        missing = "" if self.path_tuning_record.exists() else " (there is no such file)"
        return f"{self.path_tuning_record}{missing}"

    def refresh(self) -> None:
        """Read the records that other processes have written."""
        self.store.refresh(RECORDS)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path: the files are read again."""
        paths = (self.path_workload, self.path_tuning_record)
        return (partial(JSONDatabase, module_equality=self.module_equality), paths)


SQL_FILE: Final = "database.sqlite"
"""The file of a database of the kind `"sql"` in a working directory."""
_OF_SQLITE: Final = (".sqlite", ".sqlite3", ".db")
_WORKLOADS: Final = "_workload.json"


def database_at(place: str | os.PathLike[str] | Database, *, may_be_new: bool = False) -> Database:
    """Return the database at a place; a database is returned unchanged.

    A place is the directory of a search; a file of SQLite (`.sqlite`, `.sqlite3`, `.db`); a file of
    records as JSON lines, whose workloads are in `database_workload.json` in the same directory, or
    for `best.json` in `best_workload.json`; or a URL of `Database.create`. With `may_be_new` the
    first commit makes a missing database, in a directory as files of JSON lines.

    Raises DatabaseError if there is no database, or the place cannot have one.
    """
    if isinstance(place, Database):
        return place
    path = as_path(place, "database")
    if "://" in os.fspath(place):
        return Database.create(os.fspath(place))
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
    folder = as_path(work_dir, "work_dir")
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
