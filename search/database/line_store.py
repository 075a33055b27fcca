"""The store of a working directory: files of JSON lines, one for each kind of entries."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from search.database.records import (
    StoredRecord,
    Workload,
    digest,
    read_record_line,
    write_record_line,
)
from search.database.store import RECORDS, WORKLOADS, Choose, Kind, MemoryStore, V
from search.errors import DatabaseError
from search.lines import (
    Line,
    LineFile,
    append,
    is_number,
    json_line,
    json_of,
    locked_for_reading,
    opened_locked,
    refusals_named,
    replace_lines,
)
from tensorir.paths import as_path


class _Where(NamedTuple):
    """The location of a record's line: its number from 1, its start and its length in bytes."""

    line: int
    offset: int
    length: int


class LineStore(MemoryStore):
    """Entries in files of JSON lines, which only grow.

    The file of a kind is in `folder`, or given by `paths`. The first entry makes it, and `refresh`
    reads new lines. Each entry is passed to the system at once, so a process that is killed loses
    at most the line that it writes. Several processes may write: each holds the lock of the file,
    for records the lock of the workloads. Lines that cannot be read are skipped with a warning that
    names file, line and field. Raises DatabaseError for files of another kind, and if the system
    refuses.

    Traces of records stay in the file until they are used, so a broken trace is found only then.
    `workload_key` returns the key of a workload, which is not stored.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        paths: Mapping[Kind[Any], Path] | None = None,
        workload_key: Callable[[Workload], str] = lambda _: "",
    ) -> None:
        super().__init__()
        self._folder = as_path(folder, "work_dir")
        self._paths = paths or {}
        self._workload_key = workload_key
        self._files: dict[Kind[Any], LineFile] = {}
        self._appending: dict[bytes, Workload] = {}
        """The workloads that are being appended, by their lines."""

    def path(self, kind: Kind[Any]) -> Path:
        """Return the file of a kind of entries."""
        return self._paths.get(kind, self._folder / kind.file)

    def unreadable(self) -> list[str]:
        """Return the file, the line and the reason for each line that could not be read."""
        return [
            f"{file.path}:{number}: {reason}"
            for file in self._files.values()
            for number, reason in sorted(file.unreadable.items())
        ]

    # ------------------------------------------------------------------------------------- reading

    def refresh(self, kind: Kind[Any]) -> None:
        """Read the new lines of a file; before records, those of the workloads.

        Raises DatabaseError if the file was replaced.
        """
        with self._lock, locked_for_reading(self._lock_file(kind)):
            self._read_new(kind)

    def latest(self, kind: Kind[V], behind: int = 0) -> list[V]:
        """Return the values of a kind after a `refresh`, without the first `behind`."""
        self.refresh(kind)
        return [one.value for one in self.read(kind, behind=behind)]

    def left_out(self, kind: Kind[Any]) -> int:
        """Return the number of complete lines that cannot be read."""
        return self._file(kind).left_out

    def add(self, kind: Kind[V], *values: V) -> None:
        """Add values that have no keys."""
        self.append(kind, [("", value) for value in values])

    def _read_new(self, kind: Kind[Any]) -> None:
        if kind is RECORDS:
            self._read_new(WORKLOADS)
        take = {WORKLOADS: self._take_workload, RECORDS: self._take_record}.get(kind)

        def take_value(line: Line) -> None:
            self.table(kind).add("", kind.decode(json_of(line.text)))

        self._file(kind).read_new(take or take_value)

    def _take_workload(self, line: Line) -> None:
        workload = self._appending.get(line.text)
        try:
            workload = workload or Workload.from_json(json_of(line.text))
        except DatabaseError:
            if line.is_ended:
                self.table(WORKLOADS).rows.append(None)
            raise
        self.table(WORKLOADS).add(self._workload_key(workload), workload)

    def _take_record(self, line: Line) -> None:
        content = read_record_line(line.text)
        count = len(self.table(WORKLOADS).rows)
        if not 0 <= content.workload < count:
            raise DatabaseError(
                f"field 0 is workload {content.workload}, but {self.path(WORKLOADS)} has {count}; "
                "the two files belong together"
            )
        key, workload = self.workload_at(content.workload)
        where = _Where(line.number, line.offset, len(line.text))
        trace_key, measured = digest(content.trace), content[2:]
        record = StoredRecord.at(workload, measured, trace_key, content.schedules, self, where)
        self.table(RECORDS).add(key, record)

    def place(self, where: _Where) -> str:
        """Return the file and the line of a record."""
        return f"{self.path(RECORDS)}:{where.line}"

    def trace_text(self, where: _Where, trace_key: bytes) -> str:
        """Return the trace of a record; DatabaseError if its line was changed meanwhile."""
        text = self._file(RECORDS).part(where.offset, where.length)
        trace = read_record_line(text).trace
        if digest(trace) != trace_key:
            raise DatabaseError(
                f"{self.place(where)}: the line was changed while the file was in use; open the "
                "database again"
            )
        try:
            return trace.decode()
        except UnicodeDecodeError as error:
            raise DatabaseError(f"field 0 (trace) is not UTF-8: {error.reason}") from error

    # ------------------------------------------------------------------------------------- writing

    def append(self, kind: Kind[V], entries: Sequence[tuple[str, V]]) -> list[V]:
        """Add values with their keys, all or none; return them as they are stored."""
        with self._writing(kind):
            if kind is WORKLOADS:
                return [self._put(key, value) for key, value in entries]  # type: ignore[misc, arg-type]
            if kind is RECORDS:
                self._write(kind, [self._record_line(key, value) for key, value in entries])
                self._read_new(kind)
            else:
                self._write(kind, [json_line(kind.encode(value)) for _, value in entries])
        return [value for _, value in entries]

    def retain(self, choose: Choose) -> None:
        """Keep only the records that `choose` selects from all, in a new file."""
        with self._writing(RECORDS):
            file = self._file(RECORDS)
            kept = set(map(id, choose([one.value for one in self.read(RECORDS)])))
            records = [one.value for one in self.read(RECORDS) if id(one.value) in kept]
            with refusals_named(file.path):
                replace_lines(file.path, (file.part(*one.where[1:]) for one in records))  # type: ignore[attr-defined]
            file.forget()
            del self._tables[RECORDS]
            self._read_new(RECORDS)

    @contextlib.contextmanager
    def _writing(self, kind: Kind[Any]) -> Iterator[None]:
        """Lock the file for writing, and read the new workloads and records of others."""
        path = self._lock_file(kind)
        with self._lock:
            with refusals_named(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = opened_locked(path)
            try:
                if kind in (WORKLOADS, RECORDS):
                    self._read_new(RECORDS)
                yield
            finally:
                os.close(descriptor)

    def _put(self, key: str, workload: Workload) -> Workload:
        place = self.place_of(key, workload)
        if place is None:
            line = json_line(workload.as_json())
            self._appending[line.encode()] = workload
            self._write(WORKLOADS, [line])
            self._read_new(WORKLOADS)
            self._appending.clear()
            return workload
        return self.workload_at(place)[1]

    def _record_line(self, key: str, record: Any) -> str:
        place = self.place_of(key, record.workload)
        if place is None:
            raise DatabaseError(
                f"{self.path(WORKLOADS)} does not have the workload of a record; commit the "
                "workload first"
            )
        return write_record_line(place, record)

    def _write(self, kind: Kind[Any], lines: Sequence[str]) -> None:
        """Append lines, all or none; the caller has the lock."""
        path = self.path(kind)
        with refusals_named(path):
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                append(descriptor, "".join(f"{line}\n" for line in lines).encode())
            finally:
                os.close(descriptor)

    def _file(self, kind: Kind[Any]) -> LineFile:
        if kind not in self._files:
            self._files[kind] = LineFile(self.path(kind), kind.begins)
        return self._files[kind]

    def _lock_file(self, kind: Kind[Any]) -> Path:
        return self.path(WORKLOADS if kind is RECORDS else kind)


class EnergyLog:
    """The energy of trials in a working directory, in joules per call.

    A record is identified by the seconds of its runs, which two records hardly ever share.
    """

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        self._store = LineStore(work_dir)
        self._joules = dict(self._store.latest(_ENERGIES))

    def append(self, run_secs: Sequence[float], joules: float) -> None:
        """Add the joules of the trial with these seconds; DatabaseError if the system refuses."""
        entry = (tuple(map(float, run_secs)), float(joules))
        self._store.add(_ENERGIES, entry)
        self._joules[entry[0]] = joules

    def joules(self, run_secs: Sequence[float]) -> float | None:
        """Return the joules of the trial with these seconds, None without an entry."""
        return self._joules.get(tuple(run_secs))


def _energy(row: Any) -> tuple[tuple[float, ...], float]:
    known = isinstance(row, list) and len(row) == 2 and isinstance(row[0], list)
    if not known or not all(map(is_number, (*row[0], row[1]))):
        raise DatabaseError("the energy of a trial must be [run_secs, joules]")
    return tuple(map(float, row[0])), float(row[1])


_ENERGIES: Final = Kind("tuning_energy.json", _energy, list, b"[")
