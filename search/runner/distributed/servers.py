"""The servers of Dask that measuring needs: a scheduler, and workers that measure.

Each has one port, which speaks TLS.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from functools import cache
from typing import Any, Final

from search.builder.artifact_directory import ArtifactDirectory
from search.errors import TuningError
from search.runner.distributed.bench import Bench, LocalBench
from search.runner.distributed.connection import dask_address
from search.runner.distributed.credentials import Credentials, package

logger = logging.getLogger("tensorir.search")

LOOPBACK: Final = "127.0.0.1"
_AGAIN_SECONDS: Final = 1.0
_MOST_DEATHS: Final = 5
"""How many machines may die with a request before it counts as their cause."""
_BALANCE: Final = {"distributed.scheduler.work-stealing-interval": "100ms"}
"""How often Dask moves waiting requests to machines that are idle: trials are short."""


def measure_here(request: str, arrays: bytes) -> str:
    """Return the answer of the worker that executes this to a request; both are texts of JSON."""
    worker = package("distributed").get_worker()
    answer: str = worker.bench.answer(request, worker.address, arrays)
    return answer


@cache
def _server(name: str) -> Any:
    """Return Dask's `Scheduler` or `Worker` without its HTTP server, which asks for no login."""
    no_http = {"start_http_server": lambda *_, **__: None}
    return type(name, (getattr(package("distributed"), name),), no_http)


def new_scheduler(host: str, port: int, credentials: Credentials) -> Any:
    """Return a scheduler of this process, not yet started; port 0 is one that is free."""
    with package("dask.config").set(_BALANCE):
        return _server("Scheduler")(
            host=host,
            port=port,
            protocol="tls",
            dashboard=False,
            allowed_failures=_MOST_DEATHS,
            security=credentials.security,
        )


def new_worker(
    address: str, bench: Bench, name: str, credentials: Credentials, folder: str | None = None
) -> Any:
    """Return a worker of this process that has requests answered by a bench, not yet started.

    It describes the bench's machine and offers its resource. It listens where this machine
    reaches the scheduler at `address`, and nowhere else. `folder` is for temporary files.
    """
    distributed = package("distributed")
    worker = _server("Worker")(
        address,
        name=name,
        host=distributed.utils.get_ip(distributed.comm.get_address_host(address)),
        nthreads=bench.machine.at_once,
        resources={bench.machine.resource: bench.machine.at_once},
        memory_limit=0,
        dashboard=False,
        extensions={},
        local_directory=folder,
        startup_information={"tensorir": lambda worker: bench.machine.as_json()},
        security=credentials.security,
    )
    worker.bench = bench
    return worker


def schedule(
    credentials: Credentials,
    *,
    host: str = LOOPBACK,
    port: int = 8786,
    say: Callable[[str], object] = logger.info,
) -> None:
    """Be the scheduler of searches and workers until SIGINT or SIGTERM ends this process.

    It listens at `host`, an address of this machine, `0.0.0.0` for all; port 0 is one that is free.
    TuningError if Dask is not installed, or if the port is taken.
    """
    _run(_schedule(credentials, host, port, say))


async def _schedule(
    credentials: Credentials, host: str, port: int, say: Callable[[str], object]
) -> None:
    scheduler = new_scheduler(host, port, credentials)
    try:
        await scheduler
    except (OSError, RuntimeError) as error:
        reason = error.__cause__ or error
        raise TuningError(f"there can be no scheduler at {host}:{port}: {reason}") from error
    address = scheduler.address.replace("tls://", "dask://")
    say(f"scheduler at {address} for whoever has {credentials.place}; Ctrl-C ends")
    try:
        await scheduler.finished()
    finally:
        await scheduler.close()


def serve(
    address: str,
    credentials: Credentials,
    *,
    measuring: int = 1,
    name: str | None = None,
    allow_externs: Collection[str] = (),
    bench: Bench | None = None,
    say: Callable[[str], object] = logger.info,
) -> None:
    """Measure for the scheduler at an address until SIGINT or SIGTERM ends this process.

    `measuring` is the number of cores on which it measures at the same time, each for itself;
    `allow_externs` are those of a `LocalBuilder`; `bench` takes the place of this machine. A
    scheduler that is not there is waited for. `say` is called with a sentence on each event.
    TuningError if Dask is not installed, for an address that is none, and for too many cores.
    """
    address = dask_address(address)
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    bench = bench or LocalBench(measuring, name, allow_externs)
    private = ArtifactDirectory()  # that of Dask in /tmp may be another user's
    try:
        bench.start()
        say(f"{bench.machine}")
        _run(_measure(address, bench, name, credentials, str(private.path), say))
    finally:
        bench.close()
        private.remove()


async def _measure(
    address: str,
    bench: Bench,
    name: str,
    credentials: Credentials,
    folder: str,
    say: Callable[[str], object],
) -> None:
    """Be a worker after the other: Dask's do not outlive a scheduler."""
    say(f"waiting for the scheduler {address}; Ctrl-C ends")
    while True:
        worker = new_worker(address, bench, name, credentials, folder)
        try:
            await worker
            say(f"measuring for {address}, as {name}")
            await worker.finished()
            say(f"the scheduler {address} is gone; waiting until it is back")
        except (OSError, ValueError, RuntimeError) as error:
            say(f"the scheduler {address} does not take this worker: {error}")
        finally:
            await worker.close(timeout=_AGAIN_SECONDS)
        await asyncio.sleep(_AGAIN_SECONDS)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine until SIGINT or SIGTERM ends it."""

    async def until_signal() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            await work

    logging.getLogger("distributed").setLevel(logging.WARNING)
    asyncio.run(until_signal())
