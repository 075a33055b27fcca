"""A scheduler and measuring workers in this process, for trying out what happens between them.

Machines are made up: a `MadeUpBench` sleeps in place of measuring, and its times depend on the
program alone, so that a search finds the same with one machine as with many.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from codegen.target.presets import ARCHITECTURES, CPU_FEATURES
from search.distributed.bench import Bench
from search.distributed.credentials import Credentials
from search.distributed.machine import Machine
from search.distributed.messages import MeasureAnswer, MeasureRequest
from search.distributed.scheduler import LOOPBACK, new_scheduler
from search.distributed.worker import measuring_worker


@dataclass(eq=False)
class MadeUpBench:
    """Answers after `seconds` with a time between 1 and 2 ms that depends on the program.

    `change` makes another answer of it, from the request and the answer.
    """

    machine: Machine = field(default_factory=Machine.this)
    seconds: float = 0.0
    change: Callable[[MeasureRequest, MeasureAnswer], MeasureAnswer] | None = None
    asked: list[str] = field(default_factory=list)
    """The programs of the requests that were answered."""
    _core: threading.Lock = field(default_factory=threading.Lock)
    """The one core that it measures on; it may be given the next candidate meanwhile."""

    def answer(self, text: str, worker: str = "") -> str:
        """Return the answer of a worker at an address to a request."""
        request = MeasureRequest.from_text(text)
        with self._core:
            time.sleep(self.seconds)
        digest = hashlib.sha256(request.program.encode()).digest()
        answer = MeasureAnswer(
            "measured",
            self.machine.host,
            worker,
            self.machine.kind,
            (1e-3 * (1 + int.from_bytes(digest[:4], "big") / 2**32),),
            seconds=self.seconds,
        )
        self.asked.append(request.program)
        return (answer if self.change is None else self.change(request, answer)).as_text()

    def warm_up(self) -> None:
        """Do nothing: it has no processes."""

    def close(self) -> None:
        """Do nothing: it has no processes."""


class InProcessCluster:
    """A scheduler with workers that can be added and ended, all in a thread of this process."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, scheduler: Any, credentials: Credentials
    ) -> None:
        self._loop = loop
        self.scheduler = scheduler
        self.credentials = credentials
        self.workers: list[Any] = []

    @property
    def address(self) -> str:
        """The address of the scheduler, as in `dask://127.0.0.1:8786`."""
        return str(self.scheduler.address).replace("tls://", "dask://")

    def add(self, *benches: Bench) -> None:
        """Add a worker for each bench, and wait until all are there."""

        async def start() -> None:
            first = len(self.workers)
            self.workers += [
                measuring_worker(
                    self.scheduler.address, bench, f"worker {first + number}", self.credentials
                )
                for number, bench in enumerate(benches)
            ]
            await asyncio.gather(*self.workers[first:])

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
    benches: Sequence[Bench] = (), port: int = 0, credentials: Credentials | None = None
) -> Iterator[InProcessCluster]:
    """Start a scheduler on this machine, with a worker for each bench, until the `with` ends.

    Without credentials it has temporary ones, which the cluster tells.
    """
    shared = credentials or Credentials.temporary()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="dask cluster", daemon=True)
    thread.start()

    async def start() -> Any:
        return await new_scheduler(LOOPBACK, port, shared)

    async def close() -> None:
        for worker in cluster.workers:
            with contextlib.suppress(Exception):
                await worker.close(timeout=0.1, executor_wait=False)
        await cluster.scheduler.close()

    scheduler = asyncio.run_coroutine_threadsafe(start(), loop).result()
    cluster = InProcessCluster(loop, scheduler, shared)
    try:
        cluster.add(*benches)
        yield cluster
    finally:
        cluster.do(close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def made_up_machine(host: str = "made up", cpu: str = "", at_once: int = 1) -> Machine:
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
