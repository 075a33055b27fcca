"""A scheduler with workers, in this process or in processes that can be killed.

A `FakeBench` sleeps in place of measuring, and its times depend on the program alone, so that a
search finds the same with one machine as with many.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from codegen.target.presets import ARCHITECTURES, CPU_FEATURES
from search.runner import RunnerResult
from search.runner.distributed.bench import Bench
from search.runner.distributed.connection import Machine
from search.runner.distributed.credentials import Credentials
from search.runner.distributed.messages import Arrays, MeasureAnswer, MeasureRequest
from search.runner.distributed.servers import LOOPBACK, new_scheduler, new_worker


@dataclass(eq=False)
class FakeBench:
    """Answers after `seconds` with a time between 1 and 2 ms that depends on the program.

    `change` makes another answer of it, from the request and the answer.
    """

    machine: Machine = field(default_factory=Machine.this)
    seconds: float = 0.0
    change: Callable[[MeasureRequest, MeasureAnswer], MeasureAnswer] | None = None
    asked: list[str] = field(default_factory=list)
    """The programs of the requests that were answered."""
    arrays: list[Arrays] = field(default_factory=list)
    """The arrays that came with them."""
    _core: threading.Lock = field(default_factory=threading.Lock)
    """The one core that it measures on; it may be given the next candidate meanwhile."""

    def answer(self, text: str, worker: str = "", arrays: bytes = b"") -> str:
        """Return the answer of a worker at an address to a request."""
        request = MeasureRequest.from_text(text, arrays)
        with self._core:
            time.sleep(self.seconds)
        digest = hashlib.sha256(request.program.encode()).digest()
        seconds = 1e-3 * (1 + int.from_bytes(digest[:4], "big") / 2**32)
        result = RunnerResult((seconds,), seconds=self.seconds, machine=self.machine.host)
        answer = MeasureAnswer("done", result, worker)
        self.asked.append(request.program)
        self.arrays.append(request.input_data)
        return (answer if self.change is None else self.change(request, answer)).as_text()

    def start(self) -> None:
        """Do nothing: it has no processes."""

    close = start


class InProcessCluster:
    """A scheduler with workers that can be added and ended, all in a thread of this process."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, port: int, credentials: Credentials
    ) -> None:
        self._loop = loop
        self._credentials = credentials
        self.workers: list[Any] = []
        self.scheduler: Any = self.do(self._started(port))

    async def _started(self, port: int) -> Any:
        return await new_scheduler(LOOPBACK, port, self._credentials)

    async def close(self) -> None:
        """End all."""
        for worker in self.workers:
            with contextlib.suppress(Exception):
                await worker.close(timeout=0.1, executor_wait=False)
        await self.scheduler.close()

    @property
    def address(self) -> str:
        """The address of the scheduler, as in `dask://127.0.0.1:8786`."""
        return str(self.scheduler.address).replace("tls://", "dask://")

    def add(self, *benches: Bench) -> None:
        """Add a worker for each bench, and wait until all are there."""

        async def start() -> None:
            for bench in benches:
                name = f"worker {len(self.workers)}"
                address = self.scheduler.address
                self.workers.append(await new_worker(address, bench, name, self._credentials))

        self.do(start())

    def end(self, number: int) -> None:
        """Have a worker vanish, as if its machine was switched off."""

        async def abort() -> None:
            self.workers[number].batched_stream.abort()
            await self.workers[number].close(timeout=0.1, executor_wait=False)

        self.do(abort())

    def do(self, work: Any) -> Any:
        """Wait for a coroutine that runs where the scheduler does."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@contextlib.contextmanager
def in_process_cluster(
    *benches: Bench, port: int = 0, credentials: Credentials | None = None
) -> Iterator[InProcessCluster]:
    """Start a scheduler on this machine, with a worker for each bench, until the `with` ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="dask cluster", daemon=True)
    thread.start()
    cluster = InProcessCluster(loop, port, credentials or Credentials.read())
    try:
        cluster.add(*benches)
        yield cluster
    finally:
        cluster.do(cluster.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def simulated_machine(host: str = "simulated", cpu: str = "", at_once: int = 1) -> Machine:
    """Return a machine of the kind of this one, or of another CPU model."""
    this = Machine.this()
    features = tuple(sorted(CPU_FEATURES.get(cpu, this.features)))
    return replace(
        this,
        host=host,
        architecture=ARCHITECTURES.get(cpu, this.architecture),
        cpu=cpu or this.cpu,
        features=features,
        at_once=at_once,
    )


_SERVE = """
import sys
from search.runner.distributed.credentials import Credentials
from search.runner.distributed.servers import schedule, serve
from tests.search.runner.distributed.cluster import FakeBench, simulated_machine

address, name, cpu = sys.argv[1:]
bench = FakeBench(simulated_machine(name, cpu), 0.1) if cpu else None
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
