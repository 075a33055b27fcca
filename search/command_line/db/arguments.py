"""The arguments that several commands of `tensorir db` have."""

from __future__ import annotations

from typing import Annotated

import typer

from search.database import Database
from search.database.programs import ProgramRecords
from search.errors import ArgumentError

Place = Annotated[
    str,
    typer.Argument(
        metavar="DATABASE",
        help="A directory of a search, a file (.sqlite, .json), or a URL.",
        show_default=False,
    ),
]

Numbers = Annotated[
    list[int] | None,
    typer.Option(
        "--number",
        metavar="NUMBER",
        help="Of this program only, as `tensorir db list` numbers them; may be repeated.",
        show_default=False,
    ),
]


def named(given: str, database: Database) -> str:
    """Return what a result calls a database: as it was given, a URL without its password."""
    return str(database.place) if "://" in given else given


def chosen(
    known: list[ProgramRecords], numbers: list[int] | None, place: str
) -> list[ProgramRecords]:
    """Return the programs of these numbers, all without any; ArgumentError for an unknown one."""
    for number in numbers or ():
        if not 0 <= number < len(known):
            raise ArgumentError(
                f"{place} has no program {number}: `tensorir db list {place}` numbers its "
                f"{len(known)} from 0"
            )
    return [known[number] for number in numbers] if numbers else known
