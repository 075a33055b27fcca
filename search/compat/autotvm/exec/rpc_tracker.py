"""Run `tensorir scheduler` under the name of AutoTVM's tracker."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from search.errors import TuningError
from search.runner.distributed.credentials import Credentials
from search.runner.distributed.servers import LOOPBACK, schedule


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until Ctrl-C. TuningError if Dask is not installed, or the port is taken."""
    parser = argparse.ArgumentParser(prog="rpc_tracker", description=__doc__)
    parser.add_argument("--host", default=LOOPBACK, help="the address to listen at")
    parser.add_argument("--port", type=int, default=9190, help="the port to listen at")
    chosen = parser.parse_args(arguments)
    schedule(Credentials.read_or_make(), host=chosen.host, port=chosen.port, say=print)


if __name__ == "__main__":
    try:
        main()
    except TuningError as error:
        sys.exit(f"error: {error}")
