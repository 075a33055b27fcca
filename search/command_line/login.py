"""The options of the commands that reach other machines: with which credentials they do."""

from __future__ import annotations

from typing import Annotated

import typer

from search.errors import TuningError
from search.runner.distributed.credentials import VARIABLE, Credentials

_PEM = "PEM"
CredentialsFile = Annotated[
    str | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="The file of those who take part, which the scheduler makes.",
        show_default=f"${VARIABLE}, else one of this user",
    ),
]
CaFile = Annotated[
    str | None,
    typer.Option(
        "--tls-ca",
        metavar=_PEM,
        help="In place of that file, certificates of your own: that of the authority.",
        show_default=False,
    ),
]
Cert = Annotated[
    str | None,
    typer.Option(
        "--tls-cert", metavar=_PEM, help="The certificate of this side.", show_default=False
    ),
]
Key = Annotated[
    str | None,
    typer.Option("--tls-key", metavar=_PEM, help="The key of this side.", show_default=False),
]
AllowExtern = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A C function that a program may call when it is measured; may be repeated.",
        show_default=False,
    ),
]


def credentials_of(
    file: str | None, ca: str | None, cert: str | None, key: str | None, *, make: bool = False
) -> Credentials:
    """Return the credentials that these options name; with `make` a file is made if need be.

    TuningError for options that contradict each other, and as for `Credentials.read`.
    """
    if not (ca or cert or key):
        return Credentials.read_or_make(file) if make else Credentials.read(file)
    if not (ca and cert and key) or file:
        raise TuningError(
            "certificates of your own are three files, --tls-ca, --tls-cert and --tls-key, in "
            "place of --credentials"
        )
    return Credentials.of_files(ca, cert, key)
