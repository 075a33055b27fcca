"""The store in tables of SQL: a file of SQLite, or a database on a server.

Writers are serialised, so the order of records is that of their commits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from search.database.records import (
    StoredRecord,
    TuningRecord,
    Workload,
    measured_fields,
)
from search.database.sql_connection import (
    CLAIM_TABLE,
    RECORD_TABLE,
    TRACE_TABLE,
    WORKLOAD_TABLE,
    SQLConnection,
)
from search.database.store import RECORDS, Choose, Claimed, Entry, Kind, Lease, Store, V
from search.database.target_key import target_key
from search.errors import DatabaseError
from search.lines import json_line, warn_of_left_out

logger = logging.getLogger("tensorir.search")

_AT_ONCE: Final = 1000
"""Records in one message."""

_RECORD_COLUMNS: Final = (
    "id",
    "workload",
    "trace_key",
    "run_secs",
    "target",
    "args_info",
    "schedules",
)


class SQLStore(Store):
    """Workloads and records in tables, at a URL of SQLAlchemy or in a file of SQLite.

    Every commit is a transaction: a process that is killed leaves all of it or nothing. Several
    processes and threads may write; they wait for each other. Nothing is cached but programs, so
    opening is fast for any number of records, and queries return the records of other processes.
    Rows that cannot be read are skipped with a warning. The first commit makes the tables.

    A file is in write-ahead mode: a commit is one write to a second file in the same directory,
    which is removed when the last process closes the database.
    """

    has_claims = True

    def __init__(
        self, place: str | Path, equality: str, left_over: Callable[[], str] = lambda: ""
    ) -> None:
        self.sql = SQLConnection(place, equality, left_over)
        self._workloads: dict[int, Workload] = {}
        self._broken: dict[int, str] = {}
        """The reasons for which workloads cannot be read."""
        self._numbers: dict[Workload, int] = {}
        self._traces: dict[int, str] = {}
        self._refused: set[str] = set()
        """The rows that were skipped, each with one warning."""

    def unreadable(self) -> list[str]:
        """Return the number and the reason for each row that could not be read."""
        return [f"{self.sql.name}: {text}" for text in sorted(self._refused)]

    def close(self) -> None:
        """Close the connections; the next use opens others."""
        self.sql.close()

    # ------------------------------------------------------------------------------------- entries

    def append(self, kind: Kind[V], entries: Sequence[tuple[str, V]]) -> list[V]:
        """Add workloads or records with their keys; return them as they are stored."""
        if kind is RECORDS:
            self._append_records(entries)  # type: ignore[arg-type]
            return [value for _, value in entries]
        return [self._put(key, value) for key, value in entries]  # type: ignore[misc, arg-type]

    def _put(self, key: str, workload: Workload) -> Workload:
        if self._number(key, workload) is None:
            with self.sql.session(writes=True) as session:
                if self._number(key, workload, session) is None:
                    row = {"key": key, "program": workload.script}
                    (self._numbers[workload],) = _insert(session, WORKLOAD_TABLE, [row])
        own = self._workloads.setdefault(self._numbers[workload], workload)
        self._numbers[own] = self._numbers[workload]
        return own

    def _append_records(self, entries: Sequence[tuple[str, TuningRecord]]) -> None:
        for key, record in entries:
            if self._number(key, record.workload) is None:
                raise DatabaseError(
                    f"{self.sql.name} does not have the workload of a record; commit the "
                    "workload first"
                )
        with self.sql.session(writes=True) as session:
            for start in range(0, len(entries), _AT_ONCE):
                records = entries[start : start + _AT_ONCE]
                numbers = _insert(session, RECORD_TABLE, [self._row(*one) for one in records])
                traces = zip(numbers, (record.trace_text for _, record in records), strict=True)
                session.execute(
                    TRACE_TABLE.insert(), [{"record": n, "text": text} for n, text in traces]
                )

    def _row(self, key: str, record: TuningRecord) -> dict[str, Any]:
        seconds, target, args = map(json_line, record.measured_as_json())
        return {
            "workload": self._numbers[record.workload],
            "workload_key": key,
            "target_key": None if record.target is None else target_key(record.target),
            "trace_key": record.trace_key,
            "schedules": int(record.schedules),
            "run_secs": seconds,
            "target": target,
            "args_info": args,
        }

    def read(
        self, kind: Kind[V], key: str | None = None, *, behind: int = 0, target: str | None = None
    ) -> list[Entry[V]]:
        """Return the entries whose numbers are greater than `behind`."""
        table, columns = (
            (RECORD_TABLE, _RECORD_COLUMNS) if kind is RECORDS else (WORKLOAD_TABLE, ["id"])
        )
        query = _narrow(sa.select(*(table.c[name] for name in columns)), table, key, target)
        rows = self.sql.rows(query.where(table.c.id > behind).order_by(table.c.id))
        place, read = (1, self._record) if kind is RECORDS else (0, self._workload)
        self._read_workloads({row[place] for row in rows})
        found: list[Entry[V]] = []
        refused: list[str] = []
        for row in rows:
            try:
                found.append(Entry(row[0], read(*row)))
            except DatabaseError as error:
                refused.append(str(error).partition("\n")[0])
        new = [text for text in dict.fromkeys(refused) if text not in self._refused]
        self._refused.update(new)
        warn_of_left_out(self.sql.name, new, logger, "row")
        return found

    def count(self, kind: Kind[Any], key: str | None = None, target: str | None = None) -> int:
        """Return the number of entries."""
        table = RECORD_TABLE if kind is RECORDS else WORKLOAD_TABLE
        query = sa.select(sa.func.count()).select_from(table)
        return sum(number for (number,) in self.sql.rows(_narrow(query, table, key, target)))

    def retain(self, choose: Choose) -> None:
        """Keep only the records that `choose` selects from all."""
        with self.sql.session(writes=True) as session:
            entries = self.read(RECORDS)
            kept = set(map(id, choose([one.value for one in entries])))
            dropped = [{"number": one.number} for one in entries if id(one.value) not in kept]
            for column in (TRACE_TABLE.c.record, RECORD_TABLE.c.id) if dropped else ():
                session.execute(
                    column.table.delete().where(column == sa.bindparam("number")), dropped
                )
        self._traces.clear()
        if self.sql.path is not None:
            with self.sql.session(writes=False) as session:
                session.exec_driver_sql("VACUUM")

    def claim(self, owner: str, seconds: int, wanted: Lease | None = None) -> Claimed:
        """Lease traces to an owner; all its leases end in `seconds`, with 0 immediately."""
        with self.sql.session(writes=True) as session:
            now = int(time.time())
            if self.sql.path is None:  # the clock of the server, for all machines
                now = int(session.scalar(sa.select(sa.func.current_timestamp())).timestamp())
            mine = CLAIM_TABLE.c.owner == owner
            if seconds:
                session.execute(CLAIM_TABLE.update().where(mine).values(until=now + seconds))
            session.execute(
                CLAIM_TABLE.delete().where(CLAIM_TABLE.c.until < now if seconds else mine)
            )
            if wanted is None:
                return Claimed(frozenset(), frozenset())
            place, keys = (wanted.key, wanted.target), frozenset(wanted.trace_keys)
            done = _narrow(sa.select(RECORD_TABLE.c.trace_key), RECORD_TABLE, *place)
            rows = session.execute(done.where(RECORD_TABLE.c.trace_key.in_(list(keys))))
            measured = frozenset(bytes(key) for (key,) in rows)
            others = _narrow(sa.select(CLAIM_TABLE.c.trace_key), CLAIM_TABLE, *place).where(~mine)
            leased = {bytes(key) for (key,) in session.execute(others)}
            granted = keys - measured - leased
            row = {"workload_key": wanted.key, "target_key": wanted.target, "owner": owner}
            for key in sorted(granted):
                session.execute(
                    CLAIM_TABLE.insert(), {**row, "trace_key": key, "until": now + seconds}
                )
        return Claimed(granted, measured)

    # ---------------------------------------------------------------------------------------- rows

    def _record(self, number: int, workload: int, trace_key: bytes, *fields: Any) -> Any:
        """Return the record of a row; DatabaseError for an invalid row."""
        run_secs, target, args_info, schedules = fields
        try:
            program = self._workload(workload)
            measured = measured_fields(run_secs, target, args_info)
        except DatabaseError as error:
            raise DatabaseError(f"record {number}: {error}") from error
        return StoredRecord.at(program, measured, bytes(trace_key), bool(schedules), self, number)

    def _workload(self, number: int) -> Any:
        """Return a cached workload; DatabaseError if it could not be read."""
        if number not in self._workloads:
            raise DatabaseError(self._broken.get(number, f"there is no workload {number}"))
        return self._workloads[number]

    def _read_workloads(self, numbers: set[int]) -> None:
        """Read the programs of workloads that are not cached."""
        new = sorted(numbers - self._workloads.keys() - self._broken.keys())
        for start in range(0, len(new), _AT_ONCE):
            wanted = WORKLOAD_TABLE.c.id.in_(new[start : start + _AT_ONCE])
            for number, script in self.sql.rows(
                sa.select(WORKLOAD_TABLE.c.id, WORKLOAD_TABLE.c.program).where(wanted)
            ):
                try:
                    known = self._workloads.setdefault(number, Workload.from_script(script))
                except DatabaseError as error:
                    self._broken[number] = f"workload {number}: {error}"
                else:
                    self._numbers[known] = number

    def place(self, number: int) -> str:
        """Return the name of a record in messages."""
        return f"{self.sql.name}: record {number}"

    def trace_text(self, number: int, _: bytes) -> str:
        """Return the trace of a record; from a server, the next traces are read with it."""
        text = self._traces.get(number)
        if text is None:
            last = number if self.sql.path is not None else number + 63
            of = TRACE_TABLE.c.record
            self._traces = dict(
                map(tuple, self.sql.rows(sa.select(TRACE_TABLE).where(of.between(number, last))))
            )
            text = self._traces.get(number)
        if text is None:
            raise DatabaseError(f"{self.place(number)} was pruned")
        return text

    def _number(self, key: str, workload: Workload, session: Any = None) -> int | None:
        if workload not in self._numbers:
            same = WORKLOAD_TABLE.c.program == workload.script
            query = sa.select(WORKLOAD_TABLE.c.id).where(WORKLOAD_TABLE.c.key == key, same)
            for (number,) in self.sql.rows(query) if session is None else session.execute(query):
                self._numbers[workload] = number
        return self._numbers.get(workload)


def _narrow(query: Any, table: Any, key: str | None, target: str | None) -> Any:
    """Return a query for the rows of a key and target."""
    of_key = table.c.key if table is WORKLOAD_TABLE else table.c.workload_key
    query = query if key is None else query.where(of_key == key)
    return query if target is None else query.where(table.c.target_key == target)


def _insert(session: Any, table: Any, rows: Sequence[dict[str, Any]]) -> list[int]:
    """Add rows to a table and return their numbers."""
    insert = table.insert()
    return [int(session.execute(insert, row).inserted_primary_key[0]) for row in rows]
