"""Show the machines that measure for a Dask scheduler, with their keys."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from search.errors import TuningError
from search.runner.distributed.connection import Connection
from search.runner.distributed.credentials import Credentials
from tensorir.text_table import aligned

PATIENCE: Final = 5.0
"""Seconds to wait for an answer."""
_HEADER: Final = ("key", "CPU model", "host", "cores", "measuring")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each machine. TuningError if no scheduler answers."""
    parser = argparse.ArgumentParser(prog="query_rpc_tracker", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="the address of the Dask scheduler")
    parser.add_argument("--port", type=int, default=9190, help="its port")
    chosen = parser.parse_args(arguments)
    connection = Connection(f"dask://{chosen.host}:{chosen.port}", Credentials.read(), PATIENCE)
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
