"""Workers in processes of their own, which can be killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

_SERVE = (
    "import sys; from search.distributed.worker import serve; "
    "serve(sys.argv[1], name=sys.argv[2], trust_client=sys.argv[3] == 'trust', "
    "say=lambda text: print(text, flush=True))"
)


@contextlib.contextmanager
def worker_process(
    address: str, name: str, host: str = "", trust: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Start what `tensorir worker` runs; `host` makes up a machine as `TENSORIR_HOST` does."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, address, name, "trust" if trust else "no"],
        env={**env, "TENSORIR_HOST": host or env["TENSORIR_HOST"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def wait_until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
