"""The arguments and options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import codegen
from codegen.target import as_target
from search.command_line.error_line import checking_arguments
from search.database import Database, database_at
from search.errors import ArgumentError

Program = Annotated[
    str,
    typer.Argument(
        metavar="PROGRAM",
        help="A script with a program (matmul.py, or matmul.py:NAME where it has several), a "
        "model (.onnx, .pt2 of torch.export.save), or the JSON that `tensorir show --json` "
        "prints. Scripts are read as data, never run.",
        show_default=False,
    ),
]

Target = Annotated[
    str | None,
    typer.Option(
        help='What to compile for, as in "llvm -num-cores=2".',
        show_default="this machine, all its cores",
    ),
]

Shape = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=EXTENTS",
        help="The shape of an input of a model, as in x=1,3,224,224; may be repeated.",
        show_default=False,
    ),
]

WorkDir = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="The directory of a search, with its records.",
        show_default=False,
    ),
]

DatabasePlace = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="DATABASE",
        help="The records of searches: a directory, a file, or a URL.",
        show_default="that of --work-dir",
    ),
]


def target_of(text: str | None) -> codegen.Target:
    """Return the target that `--target` names; ArgumentError for an unknown one."""
    with checking_arguments():
        return as_target(text)


def database_of(place: str, *, may_be_new: bool = False) -> Database:
    """Return `database_at` of a place; ArgumentError for a URL of an unknown kind."""
    if "://" in place:
        with checking_arguments():
            Database.kinds.check(place)
    return database_at(place, may_be_new=may_be_new)


def check_output(path: str | None) -> None:
    """Raise ArgumentError for a file that cannot be written, before the work begins."""
    if path is None:
        return
    place = Path(path)
    if place.is_dir():
        raise ArgumentError(f"{path} is a directory; give the name of a file")
    if not place.absolute().parent.is_dir():
        raise ArgumentError(f"{path} cannot be written: there is no directory {place.parent}")
    if not os.access(place if place.exists() else place.absolute().parent, os.W_OK):
        raise ArgumentError(f"{path} cannot be written: permission denied")
