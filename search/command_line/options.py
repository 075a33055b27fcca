"""The arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

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
