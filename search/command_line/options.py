"""The arguments and options that several commands have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import codegen
from codegen.target import as_target
from search.command_line.result import error_line
from search.database import Database, database_at
from search.errors import ArgumentError, TuningError
from search.runner.distributed.credentials import VARIABLE, Credentials
from tensorir.errors import TensorIRError

Program = Annotated[
    str,
    typer.Argument(
        metavar="PROGRAM",
        help="A script with a program (matmul.py, or matmul.py:NAME if it has several), a "
        "model (.onnx, .pt2 of torch.export.save), or the JSON that `tensorir show --json` "
        "prints. Scripts are read as data, never run.",
    ),
]

Target = Annotated[
    str | None,
    typer.Option(
        help='The machine to compile for, as in "llvm -num-cores=2".',
        show_default="this machine, all its cores",
    ),
]

Shape = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=EXTENTS",
        help="The shape of an input of a model, as in x=1,3,224,224; may be repeated.",
    ),
]

WorkDir = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="The directory of a search, with its records."),
]

DatabasePlace = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="DATABASE",
        help="The records of searches: a directory, a file, or a URL.",
        show_default="the one in the directory of the search",
    ),
]

AllowExtern = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A C function that a program may call when it is measured; may be repeated.",
    ),
]

CredentialsFile = Annotated[
    str | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="The file with the credentials that the scheduler has made.",
        show_default=f"${VARIABLE}, else that of this user",
    ),
]


def _certificate(name: str, help: str) -> Any:
    return typer.Option(name, metavar="PEM", help=help)


CaFile = Annotated[
    str | None,
    _certificate("--tls-ca", "Your own certificates in place of that file: the authority's."),
]
Cert = Annotated[str | None, _certificate("--tls-cert", "The certificate of this side.")]
Key = Annotated[str | None, _certificate("--tls-key", "The key of this side.")]


def output_file(
    metavar: str, help: str, show_default: bool | str = False, names: Sequence[str] = ()
) -> Any:
    """Return an option for a file to write, which is checked before the work begins.

    Its suffix is that of `metavar`, if that has one. `names` are short ones besides that of the
    parameter.
    """
    suffix = Path(metavar).suffix

    def check(path: Path | None) -> Path | None:
        if path is None:
            return None
        if suffix and path.suffix != suffix:
            raise typer.BadParameter(f"{path}: the name of the file has to end with {suffix}")
        if not path.absolute().parent.is_dir():
            raise typer.BadParameter(f"{path}: there is no directory {path.parent}")
        return path

    return typer.Option(
        *(["--output", *names] if names else []),
        metavar=metavar,
        help=help,
        dir_okay=False,
        writable=True,
        callback=check,
        show_default=show_default,
    )


@contextlib.contextmanager
def checking_arguments() -> Iterator[None]:
    """Turn errors into an ArgumentError with the same text, for which the exit code is 2."""
    try:
        yield
    except ArgumentError:
        raise
    except (TensorIRError, OSError) as error:
        raise ArgumentError(error_line(error)) from error


def target_of(text: str | None) -> codegen.Target:
    """Return the target of `--target`; ArgumentError for an unknown one."""
    with checking_arguments():
        return as_target(text)


def database_of(place: str, *, may_be_new: bool = False) -> Database:
    """Return `database_at` of a place; ArgumentError for a URL of an unknown kind."""
    if "://" in place:
        with checking_arguments():
            Database.kinds.check(place)
    return database_at(place, may_be_new=may_be_new)


def credentials_of(
    file: str | None, ca: str | None, cert: str | None, key: str | None, *, make: bool = False
) -> Credentials:
    """Return the credentials that these options name; with `make` a missing file is made.

    Raises TuningError for options that contradict each other, and as for `Credentials.read`.
    """
    if not (ca or cert or key):
        return Credentials.read_or_make(file) if make else Credentials.read(file)
    if not (ca and cert and key) or file:
        raise TuningError(
            "certificates of your own are three files, --tls-ca, --tls-cert and --tls-key, in "
            "place of --credentials"
        )
    return Credentials.of_files(ca, cert, key)
