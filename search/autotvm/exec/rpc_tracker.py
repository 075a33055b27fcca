"""Run a Dask scheduler under the name of AutoTVM's tracker: `dask scheduler` is the same."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from search.distributed.dask_package import dask_distributed
from search.errors import TuningError


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until Ctrl-C. TuningError if Dask is not installed."""
    parser = argparse.ArgumentParser(prog="rpc_tracker", description=__doc__)
    parser.add_argument("--host", default="0.0.0.0", help="the address to listen at")
    parser.add_argument("--port", type=int, default=9190, help="the port to listen at")
    chosen = parser.parse_args(arguments)
    dask_distributed()
    options = ["--host", chosen.host, "--port", str(chosen.port), "--no-dashboard"]
    importlib.import_module("distributed.cli.dask_scheduler").main(options)


if __name__ == "__main__":
    try:
        main()
    except TuningError as error:
        sys.exit(f"error: {error}")
