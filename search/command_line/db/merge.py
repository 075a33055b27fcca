"""`tensorir db merge`: the records of several databases in one."""

from __future__ import annotations

from typing import Annotated

import typer

from search.command_line.db.arguments import named
from search.command_line.options import database_of
from search.command_line.result import Result, counted
from search.database import merge_into

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="DATABASE...",
        help="Directories of searches, files or URLs; they are not changed.",
        show_default=False,
    ),
]
Into = Annotated[
    str,
    typer.Option(
        metavar="DATABASE", help="The database that gets the records.", show_default=False
    ),
]


def merge(sources: Sources, into: Into) -> Result:
    """Add the records of databases to another one, which is made if it is new.

    A record that is there already is not added again, so that it may be repeated.

        tensorir db merge tuned other --into all.sqlite
    """
    opened = [database_of(source) for source in sources]
    destination = database_of(into, may_be_new=True)
    added = merge_into(destination, opened)
    known = sum(map(len, opened)) - added
    report = {
        "added": added,
        "known": known,
        "database": named(into, destination),
        "records": len(destination),
    }
    there = f"; {known} of the others were there already" if known else ""
    return Result(
        report,
        [
            f"{counted(added, 'record')} added to {destination.place}, which has "
            f"{len(destination)}{there}"
        ],
    )
