"""`tensorir worker` and `tensorir scheduler`: machines that measure for searches elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from search.command_line.options import (
    AllowExtern,
    CaFile,
    Cert,
    CredentialsFile,
    Key,
    credentials_of,
)
from search.command_line.result import Result, say
from search.runner.distributed.servers import LOOPBACK, schedule, serve

Scheduler = Annotated[
    str,
    typer.Argument(
        metavar="SCHEDULER",
        help="The address that `tensorir scheduler` prints, as in dask://host:8786.",
    ),
]
Cores = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="The cores that measure at the same time, separately."),
]
Name = Annotated[
    str | None,
    typer.Option(
        help="The name of the worker in the records of trials.",
        show_default="the machine's and the process's",
    ),
]


def worker(
    scheduler: Scheduler,
    cores: Cores = 1,
    name: Name = None,
    credentials: CredentialsFile = None,
    tls_ca: CaFile = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
    allow_extern: AllowExtern = None,
) -> Result:
    """Measure on this machine for searches elsewhere, until Ctrl-C.

    The searches reach it through a Dask scheduler, whose credentials it needs. Whoever has them can
    run programs as you. It prints a description of the machine, waits while the scheduler does not
    answer, and connects again afterwards.

        tensorir worker dask://host:8786 --credentials tensorir.pem
    """
    serve(
        scheduler,
        credentials_of(credentials, tls_ca, tls_cert, tls_key),
        measuring=cores,
        name=name,
        allow_externs=allow_extern or (),
        say=say,
    )
    return Result({"scheduler": scheduler}, [f"measuring for {scheduler} has ended"])


Host = Annotated[
    str,
    typer.Option(
        help="The address of this machine to listen at, 0.0.0.0 for all; by default only this "
        "machine can connect."
    ),
]
Port = Annotated[
    int, typer.Option(metavar="N", min=0, max=65535, help="The port, 0 for any free one.")
]


def scheduler(
    host: Host = LOOPBACK,
    port: Port = 8786,
    credentials: CredentialsFile = None,
    tls_ca: CaFile = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
) -> Result:
    """Connect searches to the machines that measure for them, until Ctrl-C.

    If there is no file with credentials it makes one, and prints its name: workers and searches
    need it. Whoever has the file can run programs as you.

        tensorir scheduler --host 0.0.0.0

        tensorir worker dask://host:8786

        tensorir tune matmul.py --trials 64 --work-dir tuned --runner dask://host:8786
    """
    login = credentials_of(credentials, tls_ca, tls_cert, tls_key, make=True)
    schedule(login, host=host, port=port, say=say)
    return Result({"port": port}, ["the scheduler has ended"])
