"""`tensorir db`: the records of searches are listed, checked, brought together and copied."""

from __future__ import annotations

from typing import Final

import typer

from search.command_line.loaded_commands import commands

COMMANDS: Final = {
    "list": "List the programs that a database has records of.",
    "best": "Print the best schedule of each program, or save it.",
    "validate": "Replay every record, and say which do not hold.",
    "merge": "Add the records of databases to another one.",
    "prune": "Keep the best records only.",
    "convert": "Copy records to a database or a log of another kind.",
}

HELP: Final = """\
Look at the records of searches, check them and bring them together.

A database is the directory of a search, a file of SQLite (.sqlite), a file of records as JSON
lines (.json), or a URL, as in postgresql+psycopg://host/name.

    tensorir db list tuned

    tensorir db merge tuned other --into all.sqlite"""


def group(rich: bool) -> typer.Typer:
    """Return the group of these commands; with `rich` its help is for a terminal."""
    return commands(__name__, COMMANDS, HELP, rich=rich)
