"""A database in two files of JSON lines, which only grow."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from search.database.database import Database
from search.database.growing_file import GrowingFile, Line, json_line, json_of
from search.database.keyed_database import Choose, KeyedDatabase, WorkloadTable
from search.database.module_equality import ModuleEquality
from search.database.records import TuningRecord, Workload, digest
from search.database.stored_record import (
    RecordLine,
    StoredRecord,
    read_record_line,
    write_record_line,
)
from search.database.target_key import same_target
from search.errors import DatabaseError

if TYPE_CHECKING:
    from codegen import Target

WORKLOAD_FILE: Final = "database_workload.json"
RECORD_FILE: Final = "database_tuning_record.json"


class _Entry(NamedTuple):
    """A record but for its trace, and the line where that is."""

    line: int
    offset: int
    length: int
    content: RecordLine
    """The fields, the trace left out."""
    trace_key: bytes
    schedules: bool


@Database.kinds.register("json")
class JSONDatabase(KeyedDatabase):
    """Workloads and records in files, each on a line of its own.

    The paths default to `database_workload.json` and `database_tuning_record.json` in `work_dir`.
    Files are made by the first commit; until then a missing one is an empty one, or an error with
    `allow_missing=False`. Reading changes nothing, so that files may be read-only.

    Every commit appends one line and hands it to the system at once, so a process that is killed
    loses at most the line being written. Lines that cannot be read, such a one or one that somebody
    has edited, are left out with a warning that names file, line and field. DatabaseError for a
    file of another kind, and if the system refuses.

    Traces stay in the file until they are asked for, so a broken one is found only then, or by
    `validate`. Several processes may write to the same files. Each takes a lock on the file of
    workloads for it, and before it writes it reads what the others wrote; its queries see that from
    then on. `prune` replaces the file of records; others that have it open must open it anew.
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
        if not allow_missing:
            for path in (self.path_workload, self.path_tuning_record):
                if not path.exists():
                    raise DatabaseError(f"there is no database file {path}")
        self._workload_file = GrowingFile(self.path_workload)
        self._record_file = GrowingFile(self.path_tuning_record)
        self._turns = threading.RLock()
        """Threads read and write in turns."""
        self._workloads = WorkloadTable()
        self._entries: list[_Entry] = []
        self._of_key: dict[str, list[_Entry]] = {}
        self.refresh()

    @property
    def place(self) -> str:
        """The file of records; where there is none, that it is missing."""
        missing = "" if self.path_tuning_record.exists() else " (there is no such file)"
        return f"{self.path_tuning_record}{missing}"

    def refresh(self) -> None:
        """Read the records that other processes have written."""
        with self._turns, self._workload_file.lock_for_reading():
            self._read_new()

    def _read_new(self) -> None:
        self._workload_file.read_new(self._take_workload)
        self._record_file.read_new(self._take_record)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Keep other processes from writing, after all that they have written was read."""
        with self._turns, self._workload_file.lock():
            self._read_new()
            self._workload_file.end_torn_line(self._take_workload)
            self._record_file.end_torn_line(self._take_record)
            yield

    def _take_workload(self, line: Line) -> None:
        try:
            workload = Workload.from_json(json_of(line.text))
        except DatabaseError:
            if line.is_ended:
                self._workloads.add_empty()
            raise
        self._workloads.add(self.workload_key(workload.mod), workload)

    def _take_record(self, line: Line) -> None:
        self._add_line(line, read_record_line(line.text))

    def _add_line(self, line: Line, content: RecordLine) -> None:
        if content.workload >= len(self._workloads) or content.workload < 0:
            raise DatabaseError(
                f"field 0 is workload {content.workload}, but {self.path_workload} has "
                f"{len(self._workloads)}; the two files belong together"
            )
        self._workloads[content.workload]  # one that is there
        place = (line.number, line.offset, len(line.text))
        kept = content._replace(trace=b"")
        entry = _Entry(*place, kept, digest(content.trace), content.schedules)
        self._entries.append(entry)
        self._of_key.setdefault(self._workloads.key(content.workload), []).append(entry)

    # ------------------------------------------------------------------------------------ storage

    def workloads(self, key: str | None = None) -> Sequence[Workload]:
        """Return the programs under a key in the order of their commit; all without a key."""
        return self._workloads.under(key)

    def put_workload(self, key: str, workload: Workload) -> Workload:
        """Return the workload with the same script under a key; it is added if there is none."""
        place = self._workloads.find(key, workload)
        if place is None:
            with self._writing():
                place = self._workloads.find(key, workload)
                if place is None:
                    self._workload_file.append([json_line(workload.as_json())])
                    place = self._workloads.add(key, workload)
        return self._workloads[place]

    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records under a key, or all, in the order of their commit."""
        return [self._record(entry) for entry in self._selected(key, target)]

    def count_records(self, key: str | None = None, target: Target | None = None) -> int:
        """Return the number of records under a key, or of all."""
        return len(self._selected(key, target))

    def put_records(self, records: Sequence[tuple[str, TuningRecord]]) -> None:
        """Add records with the keys of their workloads, which were put before."""
        with self._writing():
            texts = []
            for key, record in records:
                place = self._workloads.find(key, record.workload)
                if place is None:
                    raise DatabaseError(
                        f"{self.path_workload} does not have the workload of a record; commit the "
                        "workload first"
                    )
                texts.append(write_record_line(place, record))
            contents = [read_record_line(text.encode()) for text in texts]
            lines = self._record_file.append(texts)
            for line, content in zip(lines, contents, strict=True):
                self._add_line(line, content)

    def retain(self, choose: Choose) -> None:
        """Drop all records but those that `choose` returns of all, in a new file of records."""
        with self._writing():
            records = self.records()
            kept = set(map(id, choose(records)))
            self._record_file.rewrite(
                self._record_file.read(entry.offset, entry.length)
                for entry, record in zip(self._entries, records, strict=True)
                if id(record) in kept
            )
            self._entries = []
            self._of_key = {}
        self.refresh()

    def unreadable(self) -> list[str]:
        """Return the file, the line and the reason for each line that could not be read."""
        return [
            f"{file.path}:{number}: {reason}"
            for file in (self._workload_file, self._record_file)
            for number, reason in sorted(file.unreadable.items())
        ]

    def _selected(self, key: str | None, target: Target | None) -> Sequence[_Entry]:
        entries = self._entries if key is None else self._of_key.get(key, [])
        if target is None:
            return entries
        return [entry for entry in entries if same_target(entry.content.target, target)]

    def _record(self, entry: _Entry) -> TuningRecord:
        return StoredRecord.at(
            f"{self.path_tuning_record}:{entry.line}",
            partial(self._trace_text, entry),
            self._workloads[entry.content.workload],
            *entry.content[2:],
            entry.trace_key,
            entry.schedules,
        )

    def _trace_text(self, entry: _Entry) -> str:
        text = self._record_file.read(entry.offset, entry.length)
        trace = read_record_line(text).trace
        if digest(trace) != entry.trace_key:
            raise DatabaseError(
                f"{self.path_tuning_record}:{entry.line}: the line was changed while the file was "
                "in use; open the database anew"
            )
        try:
            return trace.decode()
        except UnicodeDecodeError as error:
            raise DatabaseError(
                f"{self.path_tuning_record}:{entry.line}: field 0 (trace) is no UTF-8: "
                f"{error.reason}"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path: the files are read again."""
        paths = (self.path_workload, self.path_tuning_record)
        return (partial(JSONDatabase, module_equality=self.module_equality), paths)
