"""The tables of an SQL database of records, and what a connection has to do for it.

The tables are written in the words of SQLite; for a server they are made of the same text, in the
types that it has (`search.database.server_database`). A statement names its values, as in `:key`,
and keeps to what all databases know. No two values have to be unique by themselves: whoever writes
is alone while it looks and adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from search.errors import DatabaseError

VERSION: Final = 1
"""Changes with the tables, and with what workload and target keys are made of."""

TABLES: Final = {
    "setting": """
CREATE TABLE setting (name VARCHAR(64) PRIMARY KEY, value TEXT NOT NULL);
""",
    "workload": """
CREATE TABLE workload (id INTEGER PRIMARY KEY, key VARCHAR(100) NOT NULL, program TEXT NOT NULL);
CREATE INDEX workload_of ON workload (key);
""",
    "record": """
CREATE TABLE record (
    id INTEGER PRIMARY KEY AUTOINCREMENT, workload INTEGER NOT NULL REFERENCES workload (id),
    workload_key VARCHAR(100) NOT NULL, target_key TEXT, trace_key BLOB NOT NULL,
    schedules INTEGER NOT NULL, run_secs TEXT NOT NULL, target TEXT NOT NULL,
    args_info TEXT NOT NULL
);
CREATE INDEX record_of ON record (workload_key);
""",
    "trace": """
CREATE TABLE trace (record INTEGER PRIMARY KEY REFERENCES record (id), text TEXT NOT NULL);
""",
    "likeness": """
CREATE TABLE likeness (
    equality VARCHAR(64) NOT NULL, workload INTEGER NOT NULL REFERENCES workload (id),
    hash VARCHAR(100) NOT NULL, PRIMARY KEY (equality, workload)
);
CREATE INDEX like_hash ON likeness (equality, hash);
""",
    "claim": """
CREATE TABLE claim (
    workload_key VARCHAR(100) NOT NULL, target_key TEXT NOT NULL, trace_key BLOB NOT NULL,
    owner VARCHAR(64) NOT NULL, until BIGINT NOT NULL
);
CREATE INDEX claim_of ON claim (workload_key);
""",
}
"""The statements that make each table.

`likeness` has hashes of workloads under other equalities than that of the database, `claim` what
is being measured, by whom, and until which second since 1970 that is to be believed.
"""

FIRST_TABLES: Final = ("setting", "workload", "record", "trace")
"""The tables that every database has; the others are made when they are first asked for."""


def refuse_other(name: str, version: object, made_with: object, equality: str) -> None:
    """Raise DatabaseError for a database of another version or equality of modules."""
    if str(version) != str(VERSION):
        raise DatabaseError(
            f"{name}: a database of version {version}; this package reads {VERSION}. "
            "Copy it to a JSONDatabase with the package that made it"
        )
    if made_with != equality:
        raise DatabaseError(
            f"{name}: its workloads were told apart by {made_with}, not {equality}; open it with "
            "that and copy_to another database"
        )


class Session(Protocol):
    """What is done with a database at one go: reading, or writing all of it or nothing."""

    def select(self, query: str, values: Mapping[str, Any] = {}) -> list[Any]:
        """Return the rows of a query."""

    def change(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute a statement once for each row of values."""

    def insert(self, table: str, row: Mapping[str, Any]) -> int:
        """Add a row to a table and return its number, where the table counts them."""

    def require(self, table: str) -> None:
        """Make a table that may be missing; one that is there stays as it is."""

    def now(self) -> int:
        """Return the seconds since 1970 by the clock that all who use the database read."""
