"""Measure on this machine under the name of AutoTVM's server; `tensorir worker` is the same."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from search.errors import TuningError
from search.runner.distributed.credentials import Credentials
from search.runner.distributed.machine import Machine
from search.runner.distributed.servers import serve


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until Ctrl-C. TuningError for a key that is none of this machine's."""
    parser = argparse.ArgumentParser(prog="rpc_server", description=__doc__)
    parser.add_argument("--tracker", required=True, metavar="HOST:PORT", help="the Dask scheduler")
    parser.add_argument(
        "--key", help="a kind of machine or a CPU model, which has to be this one's"
    )
    parser.add_argument("--cores", type=int, default=1, help="measure on so many at the same time")
    chosen = parser.parse_args(arguments)
    machine = Machine.this()
    if chosen.key not in (None, machine.kind, machine.cpu):
        raise TuningError(
            f"the key of this machine is {machine.kind}, or {machine.cpu} for all of its CPU "
            f"model, and not {chosen.key!r}: keys are not made up, so that times of unequal "
            "machines are never compared; leave out --key, and give one of the two to RPCRunner"
        )
    serve(f"dask://{chosen.tracker}", Credentials.read(), measuring=chosen.cores, say=_say)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    try:
        main()
    except TuningError as error:
        sys.exit(f"error: {error}")
