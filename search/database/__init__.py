"""Databases of workloads and tuning records, and the stores that hold their entries."""

from typing import TYPE_CHECKING

from search.database.database import Database, PyDatabase
from search.database.keyed_database import (
    JSONDatabase,
    KeyedDatabase,
    MemoryDatabase,
    database_at,
    database_in,
)
from search.database.module_equality import ModuleEquality
from search.database.program_lengths import ProgramLengths, compatible_factor
from search.database.programs import ProgramRecords, merge_into, programs_in
from search.database.query_only_databases import (
    OrderedUnionDatabase,
    ScheduleFnDatabase,
    UnionDatabase,
)
from search.database.records import TuningRecord, Workload
from search.database.store import RECORDS, WORKLOADS, Claimed, Kind, Store
from search.database.target_key import same_target, target_key
from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from search.database.sql_connection import ServerGoneError
    from search.database.sql_database import SQLDatabase

__all__ = [
    "RECORDS",
    "WORKLOADS",
    "Claimed",
    "Database",
    "JSONDatabase",
    "KeyedDatabase",
    "Kind",
    "MemoryDatabase",
    "ModuleEquality",
    "OrderedUnionDatabase",
    "ProgramLengths",
    "ProgramRecords",
    "PyDatabase",
    "SQLDatabase",
    "ScheduleFnDatabase",
    "ServerGoneError",
    "Store",
    "TuningRecord",
    "UnionDatabase",
    "Workload",
    "compatible_factor",
    "database_at",
    "database_in",
    "merge_into",
    "programs_in",
    "same_target",
    "target_key",
]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
