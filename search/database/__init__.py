"""Databases of workloads and tuning records."""

from search.database.at_place import database_at
from search.database.database import Claimed, Database, PyDatabase
from search.database.in_directory import database_in
from search.database.json_database import JSONDatabase
from search.database.keyed_database import KeyedDatabase, MemoryDatabase
from search.database.merge import merge_into
from search.database.module_equality import ModuleEquality
from search.database.program_lengths import ProgramLengths, compatible_factor
from search.database.programs import ProgramRecords, programs_in
from search.database.query_only_databases import (
    OrderedUnionDatabase,
    ScheduleFnDatabase,
    UnionDatabase,
)
from search.database.records import TuningRecord, Workload
from search.database.server_database import ServerDatabase, ServerGoneError
from search.database.sql_database import SQLDatabase
from search.database.target_key import same_target, target_key

__all__ = [
    "Claimed",
    "Database",
    "JSONDatabase",
    "KeyedDatabase",
    "MemoryDatabase",
    "ModuleEquality",
    "OrderedUnionDatabase",
    "ProgramLengths",
    "ProgramRecords",
    "PyDatabase",
    "SQLDatabase",
    "ScheduleFnDatabase",
    "ServerDatabase",
    "ServerGoneError",
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
