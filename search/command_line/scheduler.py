"""`tensorir scheduler`: searches and machines that measure find each other here."""

from __future__ import annotations

from typing import Annotated

import typer

from search.command_line.result import Result, say
from search.command_line.worker import CaFile, Cert, Key
from search.distributed.dask_package import security_of
from search.distributed.scheduler import schedule

Host = Annotated[
    str | None,
    typer.Option(help="The address to listen at.", show_default="all of this machine"),
]
Port = Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 takes one that is free.")]


def scheduler(
    host: Host = None,
    port: Port = 8786,
    tls_ca_file: CaFile = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
) -> Result:
    """Let searches find the machines that measure for them, until Ctrl-C.

    It is a Dask scheduler that executes nothing that a client sends.

        tensorir scheduler --port 8786

        tensorir worker tcp://host:8786

        tensorir tune matmul.py --trials 64 --work-dir tuned --runner dask://host:8786
    """
    security = security_of(tls_ca_file, tls_cert, tls_key)
    schedule(host=host, port=port, security=security, say=say)
    return Result({"port": port}, ["the scheduler has ended"])
