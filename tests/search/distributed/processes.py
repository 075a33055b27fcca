"""Workers and schedulers in processes of their own, which can be killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

_SERVE = """
import sys
from search.distributed.credentials import Credentials
from search.distributed.in_process import MadeUpBench, made_up_machine
from search.distributed.scheduler import schedule
from search.distributed.worker import serve

address, name, cpu = sys.argv[1:]
bench = MadeUpBench(made_up_machine(name, cpu), 0.1) if cpu else None
say = lambda text: print(text, flush=True)
if address:
    serve(address, Credentials.read(), name=name, bench=bench, say=say)
else:
    schedule(Credentials.read(), port=0, say=say)
"""


@contextlib.contextmanager
def worker_process(address: str, name: str, cpu: str = "") -> Iterator[subprocess.Popen[str]]:
    """Start what `tensorir worker` runs; with `cpu` it makes up a machine, and its times."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, address, name, cpu],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
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


@contextlib.contextmanager
def scheduler_process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start what `tensorir scheduler` runs, and return it with its address."""
    with worker_process("", "") as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[2]


def wait_until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
