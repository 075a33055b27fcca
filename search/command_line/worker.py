"""`tensorir worker`: this machine measures for searches that run elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from search.command_line.result import Result, say
from search.distributed.dask_package import security_of
from search.distributed.worker import serve

Scheduler = Annotated[
    str,
    typer.Argument(
        metavar="SCHEDULER",
        help="The address that `tensorir scheduler` prints, as in tcp://host:8786.",
    ),
]
Cores = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="On how many cores to measure at the same time, each for itself."
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        help="The name of the worker, which records of trials have.",
        show_default="the machine's and the process's",
    ),
]
TrustClient = Annotated[
    bool,
    typer.Option(
        "--trust-client",
        help="Execute whatever clients of the scheduler send, as Dask workers do. Without it the "
        "worker executes nothing but the programs that it measures.",
    ),
]
_PEM = "PEM"
CaFile = Annotated[
    str | None,
    typer.Option(
        "--tls-ca-file",
        metavar=_PEM,
        help="The certificate of the authority that all sides trust: connections are then TLS.",
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


def worker(
    scheduler: Scheduler,
    cores: Cores = 1,
    name: Name = None,
    trust_client: TrustClient = False,
    tls_ca_file: CaFile = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
) -> Result:
    """Measure on this machine for searches elsewhere, until Ctrl-C.

    The searches reach it through a Dask scheduler. It says what the machine is, waits for a
    scheduler that is not there, and goes on when that is back.

        tensorir worker tcp://host:8786

        tensorir worker tls://host:8786 --tls-ca-file ca.pem --tls-cert me.pem --tls-key me.key
    """
    security = security_of(tls_ca_file, tls_cert, tls_key)
    serve(
        scheduler,
        measuring=cores,
        name=name,
        trust_client=trust_client,
        security=security,
        say=say,
    )
    return Result({"scheduler": scheduler}, [f"measuring for {scheduler} has ended"])
