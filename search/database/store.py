"""Stores of entries by kind and key.

The programs and records of a database and the trials, tasks and reports of a run are kinds of
entries. The stores are `MemoryStore`, `LineStore` (files of JSON lines) and `SQLStore` (tables).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from search.database.best_records import best_records
from search.database.records import TuningRecord, Workload
from search.database.target_key import target_key
from search.errors import DatabaseError

V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class Kind(Generic[V]):
    """A kind of entries: the name of their file in a directory, and the form of its lines."""

    file: str
    decode: Callable[[Any], V]
    """Returns a value from plain data; DatabaseError names the field at fault."""
    encode: Callable[[V], Any]
    """Returns a value as plain data."""
    begins: bytes = b"{"
    """The first byte of every line."""


def _not_alone(_: Any) -> Any:
    raise NotImplementedError("a record refers to a workload of its store")


WORKLOADS: Final[Kind[Workload]] = Kind(
    "database_workload.json", Workload.from_json, Workload.as_json, b"["
)
"""Programs. Two programs with the same key and script are one entry."""
RECORDS: Final[Kind[TuningRecord]] = Kind(
    "database_tuning_record.json", _not_alone, _not_alone, b"["
)
"""Tuning records under the keys of their workloads, which were appended before."""

Choose = Callable[[list[TuningRecord]], list[TuningRecord]]


class Entry(NamedTuple, Generic[V]):
    """A value with its number, which is at least 1 and grows from entry to entry."""

    number: int
    value: V


class Lease(NamedTuple):
    """The traces of a program (its key) and target (`target_key`) that a tuner wants to measure."""

    key: str
    target: str
    trace_keys: Sequence[bytes]


class Claimed(NamedTuple):
    """The traces, by their keys, that a tuner may measure."""

    granted: frozenset[bytes]
    """The traces that only this tuner measures."""
    measured: frozenset[bytes]
    """The traces that have a record; traces in neither set are leased to another tuner."""


class Store(ABC):
    """Entries by kind and key, in the order in which they were appended.

    A user-defined store implements `append`, `read` and, for pruning, `retain`;
    `KeyedDatabase(store)` is a database in it.
    """

    has_claims: ClassVar[bool] = False
    """True if `claim` keeps tuners from measuring the same traces."""

    @abstractmethod
    def append(self, kind: Kind[V], entries: Sequence[tuple[str, V]]) -> list[V]:
        """Add values with their keys, all or none; return them as they are stored."""

    @abstractmethod
    def read(
        self, kind: Kind[V], key: str | None = None, *, behind: int = 0, target: str | None = None
    ) -> list[Entry[V]]:
        """Return the entries whose numbers are greater than `behind`.

        With `key` only those of a key; with `target` only records for it (`target_key`).
        """

    def best(self, key: str, count: int, target: str | None = None) -> list[TuningRecord]:
        """Return the `count` best valid records under a key, best first."""
        return best_records((one.value for one in self.read(RECORDS, key, target=target)), count)

    def claim(self, owner: str, seconds: int, wanted: Lease | None = None) -> Claimed:
        """Lease traces to an owner, and extend all its leases to `seconds` from now; 0 ends them.

        A store without claims grants everything.
        """
        return Claimed(frozenset(wanted.trace_keys if wanted else ()), frozenset())

    def close(self) -> None:
        """Release files and connections; the next use opens them again."""

    def count(self, kind: Kind[Any], key: str | None = None, target: str | None = None) -> int:
        """Return the number of entries."""
        return len(self.read(kind, key, target=target))

    def retain(self, choose: Choose) -> None:
        """Keep only the records that `choose` selects from all; other writers wait."""
        raise DatabaseError(f"a {type(self).__name__} cannot drop records")

    def unreadable(self) -> list[str]:
        """Return the place and the reason for each entry that could not be read."""
        return []


class Table(Generic[V]):
    """The entries of a kind in memory.

    The row of a line that cannot be read is None, as later lines refer to rows by index.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[str, V] | None] = []
        self.places: dict[str, list[int]] = {}
        """The indices of the rows of each key."""

    def add(self, key: str, value: V) -> None:
        """Add a row."""
        self.places.setdefault(key, []).append(len(self.rows))
        self.rows.append((key, value))


class MemoryStore(Store):
    """Entries in lists; threads write one at a time."""

    def __init__(self) -> None:
        self._tables: dict[Kind[Any], Table[Any]] = {}
        self._lock = threading.RLock()

    def table(self, kind: Kind[V]) -> Table[V]:
        """Return the entries of a kind."""
        return self._tables.setdefault(kind, Table())

    def place_of(self, key: str, workload: Workload) -> int | None:
        """Return the row of the workload with the same script under a key, None without one."""
        table = self.table(WORKLOADS)
        for place in table.places.get(key, ()):
            row = table.rows[place]
            if row and (row[1] is workload or row[1].script == workload.script):
                return place
        return None

    def workload_at(self, place: int) -> tuple[str, Workload]:
        """Return the key and the workload of a row; DatabaseError if it could not be read."""
        row = self.table(WORKLOADS).rows[place]
        if row is None:
            raise DatabaseError(f"its workload, number {place}, could not be read")
        return row

    def append(self, kind: Kind[V], entries: Sequence[tuple[str, V]]) -> list[V]:
        """Add values with their keys; return them as they are stored."""
        with self._lock:
            return [self._added(kind, key, value) for key, value in entries]

    def _added(self, kind: Kind[Any], key: str, value: Any) -> Any:
        if isinstance(value, Workload) and (place := self.place_of(key, value)) is not None:
            return self.workload_at(place)[1]
        if isinstance(value, TuningRecord):
            value = replace(value, workload=self._added(WORKLOADS, key, value.workload))
        self.table(kind).add(key, value)
        return value

    def read(
        self, kind: Kind[V], key: str | None = None, *, behind: int = 0, target: str | None = None
    ) -> list[Entry[V]]:
        """Return the entries whose numbers are greater than `behind`."""
        table = self.table(kind)
        places = range(behind, len(table.rows)) if key is None else table.places.get(key, ())
        rows = ((place, table.rows[place]) for place in places if place >= behind)
        found = [Entry(place + 1, row[1]) for place, row in rows if row is not None]
        return found if target is None else [one for one in found if _is_for(one.value, target)]

    def count(self, kind: Kind[Any], key: str | None = None, target: str | None = None) -> int:
        """Return the number of entries."""
        if target is not None:
            return super().count(kind, key, target)
        places = self.table(kind).places
        return sum(map(len, places.values())) if key is None else len(places.get(key, ()))

    def retain(self, choose: Choose) -> None:
        """Keep only the records that `choose` selects from all."""
        with self._lock:
            kept = set(map(id, choose([one.value for one in self.read(RECORDS)])))
            for row in self._tables.pop(RECORDS, Table()).rows:
                if row is not None and id(row[1]) in kept:
                    self.table(RECORDS).add(*row)


def _is_for(record: Any, target: str) -> bool:
    return record.target is not None and target_key(record.target) == target
