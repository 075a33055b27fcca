"""The servers of Dask for measuring: a scheduler, and workers that measure.

Each has one port, with TLS.
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

from search.builder.builder import ArtifactDirectory
from search.errors import TuningError
from search.runner.distributed.bench import Bench, LocalBench
from search.runner.distributed.connection import dask_address
from search.runner.distributed.credentials import Credentials, package

logger = logging.getLogger("tensorir.search")

LOOPBACK: Final = "127.0.0.1"
_AGAIN_SECONDS: Final = 1.0
_MOST_DEATHS: Final = 5
"""The number of machines that may die with a request before it counts as a failure."""
_BALANCE: Final = {"distributed.scheduler.work-stealing-interval": "100ms"}
"""The interval at which Dask moves waiting requests to idle machines: trials are short."""


def measure_here(request: str, arrays: bytes) -> str:
    """Answer a request in the worker that executes this function; both are texts of JSON."""
    worker = package("distributed").get_worker()
    answer: str = worker.bench.answer(request, worker.address, arrays)
    return answer


@cache
def _server(name: str) -> Any:
    """Return Dask's `Scheduler` or `Worker` without its HTTP server, which has no login."""
    no_http = {"start_http_server": lambda *_, **__: None}
    return type(name, (getattr(package("distributed"), name),), no_http)


def new_scheduler(host: str, port: int, credentials: Credentials) -> Any:
    """Return a scheduler in this process, not yet started; port 0 means any free port."""
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
    """Return a worker of this process, not yet started, whose bench answers requests.

    It publishes the description and the resource of the machine. It listens only on the interface
    that reaches the scheduler at `address`. `folder` is for temporary files.
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
    """Run the scheduler of searches and workers until SIGINT or SIGTERM.

    It listens at `host`, an address of this machine, `0.0.0.0` for all; port 0 means any free port.
    Raises TuningError if Dask is not installed, or if the port is in use.
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
        raise TuningError(f"cannot start a scheduler at {host}:{port}: {reason}") from error
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
    """Measure for the scheduler at an address until SIGINT or SIGTERM.

    `measuring` cores measure at the same time, each independently. `allow_externs` is as for a
    `LocalBuilder`, and `bench` replaces this machine. If there is no scheduler, it waits for a
    scheduler. `say` is called with a sentence for each event. Raises TuningError if Dask is not
    installed, for an invalid address, and for too many cores.
    """
    address = dask_address(address)
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    bench = bench or LocalBench(measuring, name, allow_externs)
    private = ArtifactDirectory()  # the folder of Dask in /tmp may belong to another user
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
    """Run one worker after another: a worker of Dask ends with its scheduler."""
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
