"""Databases that keep workloads and records in tables: what is said to them, in SQL."""

from __future__ import annotations

import contextlib
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from search.database.database import Claimed
from search.database.growing_file import json_line, json_of
from search.database.keyed_database import Choose, KeyedDatabase
from search.database.module_equality import ModuleEquality, unnamed
from search.database.records import TuningRecord, Workload, seconds_of
from search.database.sql_tables import Session
from search.database.stored_record import StoredRecord, arguments_from_text, target_from_text
from search.database.target_key import target_key
from search.errors import DatabaseError
from search.records.record_lines import warn_of_left_out

if TYPE_CHECKING:
    from codegen import Target
    from tensorir.function import IRModule

R = TypeVar("R")
S = TypeVar("S")

logger = logging.getLogger("tensorir.search")

_MOST_KNOWN: Final = 1024
"""Programs that are remembered."""


class TableDatabase(KeyedDatabase):
    """Workloads and records in the tables of `search.database.sql_tables`.

    Every commit is a transaction: a process that is killed leaves all of it or nothing. Several
    processes and threads may write; one waits for the other. Nothing is read before it is asked
    for, so opening takes no time whatever the number of records, and queries see what others wrote.
    Rows that cannot be read are left out with a warning.

    A subclass connects: it implements `session`, `name` and `compact`.
    """

    has_claims = True

    traces_at_once: ClassVar[int] = 1
    """The traces that are fetched when one is asked for: those of the records behind it."""

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        super().__init__(module_equality)
        self._workloads: dict[int, Workload] = {}
        self._numbers: dict[Workload, int] = {}
        self._found: dict[IRModule, str] = {}
        """The keys of programs that were committed; a workload stays for ever."""
        self._committed: dict[IRModule, Workload] = {}
        self._traces: dict[int, str] = {}
        self._present: set[str] = set()
        """The later tables that are known to be there."""
        self._measured: dict[tuple[str, ...], tuple[set[bytes], int]] = {}
        """The traces that have records, of each program and target that was claimed for, and the
        number of the last record that was seen."""
        self._told: set[str] = set()
        """The rows that were left out, each of which is warned of once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the database in messages, without what is secret."""

    def unreadable(self) -> list[str]:
        """Return the row and the reason for each row that was read and could not be."""
        return [f"{self.name}: {text}" for text in sorted(self._told)]

    @abstractmethod
    def session(self, writes: bool) -> AbstractContextManager[Session]:
        """Give a session for reading or writing.

        All that is written in one is committed at its end, or nothing if it raises; nobody else
        writes meanwhile. DatabaseError for what goes wrong in it.
        """

    @abstractmethod
    def compact(self) -> None:
        """Give back the room of rows that were dropped."""

    @property
    def may_be_written(self) -> bool:
        """True if commits are possible."""
        return True

    # ------------------------------------------------------------------------------------ storage

    def workloads(self, key: str | None = None) -> Sequence[Workload]:
        """Return the programs under a key in the order of their commit; all without a key."""
        where, values = ("WHERE workload.key = :key", {"key": key}) if key is not None else ("", {})
        rows = self._select(f"SELECT id FROM workload {where} ORDER BY id", values)
        return self._readable([number for (number,) in rows], self._workload)

    def commit_workload(self, mod: IRModule) -> Workload:
        """Return the workload of a program, added if it is new; asked for again it is at hand."""
        known = self._committed.get(mod)
        if known is None:
            known = super().commit_workload(mod)
            _remember(self._committed, mod, known)
        return known

    def put_workload(self, key: str, workload: Workload) -> Workload:
        """Return the workload with the same script under a key; it is added if there is none."""
        number = self._number(key, workload)
        if number is None:
            with self.session(writes=True) as session:
                number = self._number(key, workload, session)
                if number is None:
                    row = {"key": key, "program": workload.script}
                    number = session.insert("workload", row)
        own = self._workloads.setdefault(number, workload)
        self._numbers[own] = number
        return own

    def records(self, key: str | None = None, target: Target | None = None) -> list[TuningRecord]:
        """Return the records under a key, or all, in the order of their commit."""
        return [record for _, record in self._numbered(key, target)]

    def count_records(self, key: str | None = None, target: Target | None = None) -> int:
        """Return the number of records under a key, or of all."""
        where, values = _condition(key, target)
        ((number,),) = self._select(f"SELECT count(*) FROM record {where}", values)
        return int(number)

    def records_behind(
        self, workload: Workload, target: Target | None, place: int
    ) -> tuple[list[TuningRecord], int]:
        """Return the records of a workload behind a place, and the place behind them."""
        numbered = self._numbered(self.workload_key(workload.mod), target, place)
        return [record for _, record in numbered], max((n for n, _ in numbered), default=place)

    def workloads_like(
        self,
        mod: IRModule,
        equality: str | ModuleEquality,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[tuple[str, Workload]]:
        """Return the workloads that are the same as `mod` and satisfy `where`, with their keys.

        They are compared by `equality`. Each is hashed once, and the hash kept in a table.
        """
        kind = ModuleEquality.create(equality)
        if not self.may_be_written:
            return super().workloads_like(mod, kind, where)
        self._hash_new(kind)
        asked = unnamed(mod)
        found = self._select(
            "SELECT workload.key, workload.id FROM likeness "
            "JOIN workload ON workload.id = likeness.workload "
            "WHERE equality = :equality AND hash = :hash ORDER BY workload.id",
            {"equality": type(kind).__name__, "hash": str(kind.hash(asked))},
        )
        known = self._readable(found, lambda row: (row[0], self._workload(row[1])))
        return [
            entry for entry in known if where(entry[1]) and kind.equal(unnamed(entry[1].mod), asked)
        ]

    def put_records(self, records: Sequence[tuple[str, TuningRecord]]) -> None:
        """Add records with the keys of their workloads, which were put before."""
        for key, record in records:
            self._number_of(key, record.workload)
        with self.session(writes=True) as session:
            for key, record in records:
                seconds, target, args = map(json_line, record.measured_as_json())
                row = {
                    "workload": self._numbers[record.workload],
                    "workload_key": key,
                    "target_key": None if record.target is None else target_key(record.target),
                    "trace_key": record.trace_key,
                    "schedules": int(record.schedules),
                    "run_secs": seconds,
                    "target": target,
                    "args_info": args,
                }
                number = session.insert("record", row)
                session.insert("trace", {"record": number, "text": record.trace_text})

    def retain(self, choose: Choose) -> None:
        """Drop all records but those that `choose` returns of all."""
        with self.session(writes=True) as session:
            numbered = self._numbered(None, None)
            kept = set(map(id, choose([record for _, record in numbered])))
            dropped = [{"id": number} for number, record in numbered if id(record) not in kept]
            session.change("DELETE FROM trace WHERE record = :id", dropped)
            session.change("DELETE FROM record WHERE id = :id", dropped)
        self._traces.clear()
        self._measured.clear()
        self.compact()

    def _find(self, mod: IRModule) -> tuple[str, bool]:
        key = self._found.get(mod)
        if key is not None:
            return key, True
        key, known = super()._find(mod)
        if known:
            _remember(self._found, mod, key)
        return key, known

    def _numbered(
        self, key: str | None, target: Target | None, behind: int | None = None
    ) -> list[tuple[int, TuningRecord]]:
        where, values = _condition(key, target, behind)
        rows = self._select(
            "SELECT id, workload, run_secs, target, args_info, trace_key, schedules "
            f"FROM record {where} ORDER BY id",
            values,
        )
        return self._readable(rows, lambda row: (row[0], self._record(*row)))

    def _readable(self, rows: Iterable[R], read: Callable[[R], S]) -> list[S]:
        """Return the rows as `read` makes them; those it refuses are left out with a warning."""
        found: list[S] = []
        refused: list[str] = []
        for row in rows:
            try:
                found.append(read(row))
            except _UnreadableError as error:
                refused.append(str(error).partition("\n")[0])
        new = [text for text in dict.fromkeys(refused) if text not in self._told]
        self._told.update(new)
        warn_of_left_out(self.name, new, logger, "row")
        return found

    def _record(
        self,
        number: int,
        workload: int,
        run_secs: str,
        target: str,
        args_info: str,
        trace_key: bytes,
        schedules: int,
    ) -> TuningRecord:
        program = self._workload(workload, f"record {number}: ")
        with _refused(f"record {number}: "):
            return StoredRecord.at(
                f"{self.name}: record {number}",
                partial(self._trace_text, number),
                program,
                seconds_of(json_of(run_secs)),
                target_from_text(target),
                arguments_from_text(args_info),
                bytes(trace_key),
                bool(schedules),
            )

    def _trace_text(self, number: int) -> str:
        text = self._traces.pop(number, None)
        if text is None:
            rows = self._select(
                "SELECT record, text FROM trace WHERE record BETWEEN :first AND :last",
                {"first": number, "last": number + self.traces_at_once - 1},
            )
            self._traces = {int(k): str(text) for k, text in rows}
            text = self._traces.pop(number, None)
        if text is None:
            raise DatabaseError(f"{self.name}: record {number} was pruned")
        return text

    def _hash_new(self, kind: ModuleEquality) -> None:
        """Add the hashes of the workloads that have none under an equality."""
        name = {"equality": type(kind).__name__}
        self._require("likeness")
        without = (
            "SELECT id FROM workload WHERE id NOT IN "
            "(SELECT likeness.workload FROM likeness WHERE equality = :equality)"
        )
        new = [number for (number,) in self._select(without, name)]
        known = self._readable(new, lambda k: (k, self._workload(k)))
        hashes = {k: str(kind.hash(unnamed(workload.mod))) for k, workload in known}
        if hashes:
            with self.session(writes=True) as session:
                for (number,) in session.select(without, name):
                    if number in hashes:
                        row = {**name, "workload": number, "hash": hashes[number]}
                        session.insert("likeness", row)

    def _number(self, key: str, workload: Workload, session: Session | None = None) -> int | None:
        if workload not in self._numbers:
            query = "SELECT id FROM workload WHERE workload.key = :key AND program = :program"
            values = {"key": key, "program": workload.script}
            rows = self._select(query, values) if session is None else session.select(query, values)
            for (number,) in rows:
                self._numbers[workload] = int(number)
        return self._numbers.get(workload)

    def _number_of(self, key: str, workload: Workload) -> int:
        number = self._number(key, workload)
        if number is None:
            raise DatabaseError(
                f"{self.name} does not have the workload of a record; commit the workload first"
            )
        return number

    def _workload(self, number: int, of: str = "") -> Workload:
        known = self._workloads.get(number)
        if known is None:
            rows = self._select("SELECT program FROM workload WHERE id = :id", {"id": number})
            ((text,),) = rows
            with _refused(f"{of}workload {number}: "):
                known = self._workloads[number] = Workload.from_script(text)
            self._numbers[known] = number
        return known

    def _select(self, query: str, values: Mapping[str, Any] = {}) -> list[Any]:
        with self.session(writes=False) as session:
            return session.select(query, values)

    def _require(self, table: str) -> None:
        """Make a table that a database of an earlier day may lack."""
        if table not in self._present:
            with self.session(writes=True) as session:
                session.require(table)
            self._present.add(table)

    # ------------------------------------------------------------------------------------- claims

    def claim(
        self,
        workload: Workload,
        target: Target,
        trace_keys: Sequence[bytes],
        owner: str,
        seconds: int,
    ) -> Claimed:
        """Say that `owner` measures those of traces that nobody measures or has measured."""
        place = {"workload": self.workload_key(workload.mod), "target": target_key(target)}
        of_task = "WHERE workload_key = :workload AND target_key = :target"
        self._require("claim")
        with self.session(writes=True) as session:
            now = session.now()
            session.change("DELETE FROM claim WHERE until < :now", [{"now": now}])
            known, behind = self._measured.get(tuple(place.values()), (set(), 0))
            for number, trace_key in session.select(
                f"SELECT id, trace_key FROM record {of_task} AND id > :behind ORDER BY id",
                {**place, "behind": behind},
            ):
                behind = number
                known.add(bytes(trace_key))
            self._measured[tuple(place.values())] = known, behind
            others = session.select(
                f"SELECT trace_key FROM claim {of_task} AND owner <> :owner",
                {**place, "owner": owner},
            )
            measured = known.intersection(trace_keys)
            taken = measured.union(bytes(key) for (key,) in others)
            granted = frozenset(trace_keys) - taken
            for key in sorted(granted):
                row = {
                    "workload_key": place["workload"],
                    "target_key": place["target"],
                    "trace_key": key,
                    "owner": owner,
                    "until": now + seconds,
                }
                session.insert("claim", row)
        return Claimed(granted, frozenset(measured))

    def renew_claims(self, owner: str, seconds: int) -> None:
        """Let the claims of an owner last for so many seconds from now on."""
        self._require("claim")
        with self.session(writes=True) as session:
            until = {"owner": owner, "until": session.now() + seconds}
            session.change("UPDATE claim SET until = :until WHERE owner = :owner", [until])

    def release_claims(self, owner: str) -> None:
        """End the claims of an owner."""
        self._require("claim")
        with self.session(writes=True) as session:
            session.change("DELETE FROM claim WHERE owner = :owner", [{"owner": owner}])


def _remember(known: dict[IRModule, S], mod: IRModule, value: S) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[mod] = value


class _UnreadableError(DatabaseError):
    """A row that does not hold what it should."""


@contextlib.contextmanager
def _refused(prefix: str) -> Iterator[None]:
    """Say by an `_UnreadableError` which row is meant."""
    try:
        yield
    except DatabaseError as error:
        raise _UnreadableError(f"{prefix}{error}") from error


def _condition(
    key: str | None, target: Target | None, behind: int | None = None
) -> tuple[str, dict[str, Any]]:
    wanted = {
        "workload_key = :key": ("key", key),
        "target_key = :target": ("target", None if target is None else target_key(target)),
        "id > :behind": ("behind", behind),
    }
    given = {text: entry for text, entry in wanted.items() if entry[1] is not None}
    return ("WHERE " + " AND ".join(given) if given else ""), dict(given.values())
