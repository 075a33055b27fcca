"""`tensorir db convert`: records as a database or a log of another kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from search.command_line.db.arguments import Place, named
from search.command_line.db.logs import log_kind
from search.command_line.options import database_of
from search.command_line.program_files import read_program
from search.command_line.result import Result, counted
from search.compat.auto_scheduler.history import from_database, to_database
from search.compat.auto_scheduler.workloads import register_program
from search.database import Database, MemoryDatabase, merge_into
from search.errors import ArgumentError
from search.task import normalize_mod

Destination = Annotated[
    str,
    typer.Argument(
        metavar="DESTINATION",
        help="A directory, a file (.sqlite, .json) or a URL; the log with --log.",
        show_default=False,
    ),
]
AsLog = Annotated[
    bool, typer.Option("--log", help="Append to a log of Ansor, in which traces are steps.")
]
Programs = Annotated[
    list[str] | None,
    typer.Option(
        "--program",
        metavar="PROGRAM",
        help="A program that the log has records of, for the log has its hash only; may be "
        "repeated.",
        show_default=False,
    ),
]


def convert(
    source: Place, destination: Destination, log: AsLog = False, program: Programs = None
) -> Result:
    """Copy the records of a database or a log of Ansor to a database or log of another kind.

    Records that the destination has already are not added again. A log has programs by their
    hashes: to read it, name the programs. Logs of AutoTVM have configurations of templates, which
    are Python, so they are converted by no command.

        tensorir db convert tuned tuned.sqlite

        tensorir db convert tuned tuned.log --log
    """
    for path in program or ():
        (func,) = normalize_mod(read_program(path)).prim_funcs().values()
        register_program(func)
    found = _opened(source)
    if log:
        _check_log(destination)
        added, place = from_database(found, destination), destination
        written = destination
    else:
        opened = database_of(destination, may_be_new=True)
        added, place = merge_into(opened, [found]), opened.place
        written = named(destination, opened)
    report = {"records": len(found), "added": added, "destination": written}
    origin = named(source, found)
    return Result(
        report, [f"{counted(added, 'record')} of {len(found)} from {origin} added to {place}"]
    )


def _check_log(path: str) -> None:
    """Raise ArgumentError for a file to which no record of a log is to be added."""
    place = Path(path)
    if place.exists() and (place.is_dir() or place.stat().st_size) and log_kind(path) != "Ansor":
        raise ArgumentError(f"{path} is there, and no log of Ansor: name another file")


def _opened(source: str) -> Database:
    kind = log_kind(source)
    if kind is None:
        return database_of(source)
    if kind == "AutoTVM":
        raise ArgumentError(
            f"{source} is a log of AutoTVM: its configurations mean something to their templates "
            "only, which are Python functions; `tensorir explain` reads it, and `db prune` keeps "
            "its best records"
        )
    found = to_database(source, MemoryDatabase())
    if not len(found):
        raise ArgumentError(
            f"{source}: none of its records is of a program that is known; name their programs by "
            "--program FILE, and convert logs of workloads that are Python functions in Python: "
            "search.compat.auto_scheduler.to_database(log)"
        )
    return found
