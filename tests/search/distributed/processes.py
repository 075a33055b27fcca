"""Workers in processes of their own, which can be killed."""

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
from search.distributed.worker import serve

address, name, cpu = sys.argv[1:]
bench = MadeUpBench(made_up_machine(name, cpu), 0.1) if cpu else None
serve(address, Credentials.read(), name=name, bench=bench, say=lambda t: print(t, flush=True))
"""


@contextlib.contextmanager
def worker_process(address: str, name: str, cpu: str = "") -> Iterator[subprocess.Popen[str]]:
    """Start what `tensorir worker` runs; with `cpu` it makes up a machine, and its times."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, address, name, cpu],
        env=env,
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


@contextlib.contextmanager
def scheduler_process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start what `tensorir scheduler` runs, and return it with its address."""
    script = (
        "from search.distributed.credentials import Credentials\n"
        "from search.distributed.scheduler import schedule\n"
        "schedule(Credentials.read(), port=0, say=lambda text: print(text, flush=True))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()[2]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
