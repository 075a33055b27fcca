"""AutoTVM's commands for measuring on other machines, on top of Dask.

    python -m search.compat.autotvm.exec rpc_tracker --port 9190           a Dask scheduler
    python -m search.compat.autotvm.exec rpc_server --tracker host:9190    as `tensorir worker`
    python -m search.compat.autotvm.exec query_rpc_tracker --host host --port 9190

`rpc_tracker` creates the credentials that the others need, as `tensorir scheduler` does (see
`search.runner.distributed.credentials`). `query_rpc_tracker` lists the machines and their keys.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from search.errors import TuningError
from search.runner.distributed.connection import Connection, Machine
from search.runner.distributed.credentials import Credentials
from search.runner.distributed.servers import LOOPBACK, schedule, serve
from tensorir.text_table import aligned

PATIENCE: Final = 5.0
"""Seconds to wait for an answer."""
_HEADER: Final = ("key", "CPU model", "host", "cores", "measuring")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; the servers run until Ctrl-C.

    Raises TuningError if Dask is not installed, a port is taken, no scheduler answers, or a key is
    not one of this machine's.
    """
    parser = argparse.ArgumentParser(
        prog="python -m search.compat.autotvm.exec",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    tracker, query = (commands.add_parser(name) for name in ("rpc_tracker", "query_rpc_tracker"))
    for command, host in ((tracker, "the address to listen at"), (query, "the Dask scheduler")):
        command.add_argument("--host", default=LOOPBACK, help=host)
        command.add_argument("--port", type=int, default=9190, help="its port")
    server = commands.add_parser("rpc_server")
    server.add_argument("--tracker", required=True, metavar="HOST:PORT", help="the Dask scheduler")
    server.add_argument("--key", help="the kind or the CPU model of this machine")
    server.add_argument("--cores", type=int, default=1, help="the number of cores to measure on")
    chosen = parser.parse_args(arguments)
    if chosen.command == "rpc_tracker":
        schedule(Credentials.read_or_make(), host=chosen.host, port=chosen.port, say=print)
    elif chosen.command == "rpc_server":
        _serve(chosen.tracker, chosen.key, chosen.cores)
    else:
        _query(chosen.host, chosen.port)


def _serve(tracker: str, key: str | None, cores: int) -> None:
    machine = Machine.this()
    if key not in (None, machine.kind, machine.cpu):
        raise TuningError(
            f"the key {key!r} is not one of this machine; expected {machine.kind}, or "
            f"{machine.cpu} for all machines of its CPU model. Keys are fixed, so that times of "
            "unequal machines are never compared: leave out --key, and pass one of the two to "
            "RPCRunner"
        )
    say = partial(print, file=sys.stderr)
    serve(f"dask://{tracker}", Credentials.read(), measuring=cores, say=say)


def _query(host: str, port: int) -> None:
    connection = Connection(f"dask://{host}:{port}", Credentials.read(), PATIENCE)
    try:
        found = connection.machines().values()
    finally:
        connection.close()
    rows = [(m.kind, m.cpu, m.host, str(m.cores), str(m.measuring)) for m in found]
    sys.stdout.write(f"{aligned([_HEADER, *sorted(rows)], _HEADER)}\n")


if __name__ == "__main__":
    try:
        main()
    except TuningError as error:
        sys.exit(f"error: {error}")
