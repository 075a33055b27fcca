"""`tensorir scheduler`: connect searches to the machines that measure for them."""

from __future__ import annotations

from typing import Annotated

import typer

from search.command_line.options import CaFile, Cert, CredentialsFile, Key, credentials_of
from search.command_line.result import Result, say
from search.runner.distributed.servers import LOOPBACK, schedule

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
