"""A Dask worker that measures, and waits for its scheduler whenever that is gone."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final

from search.builder.artifact_directory import ArtifactDirectory
from search.distributed.bench import Bench, LocalBench
from search.distributed.credentials import Credentials
from search.distributed.dask_package import dask_address, dask_distributed, server_class

logger = logging.getLogger("tensorir.search")

_AGAIN_SECONDS: Final = 1.0


def measure_here(request: str) -> str:
    """Return the answer of the worker that executes this to a request; both are texts of JSON."""
    worker = dask_distributed().get_worker()
    answer: str = worker.bench.answer(request, worker.address)
    return answer


def measuring_worker(address: str, bench: Bench, name: str, credentials: Credentials) -> Any:
    """Return a Dask worker of this process that has requests answered by a bench, not yet started.

    It describes the bench's machine and offers its resource. It listens where this machine
    reaches the scheduler at `address`, and nowhere else.
    """
    distributed = dask_distributed()
    worker = server_class("Worker")(
        address,
        name=name,
        host=distributed.utils.get_ip(distributed.comm.get_address_host(address)),
        nthreads=bench.machine.at_once,
        resources={bench.machine.resource: bench.machine.at_once},
        memory_limit=0,
        dashboard=False,
        extensions={},
        startup_information={"tensorir": lambda worker: bench.machine.as_json()},
        security=credentials.security,
    )
    worker.bench = bench
    return worker


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
    scheduler that is not there is waited for. What it does is told to `say`, in sentences.
    TuningError if Dask is not installed, for an address that is none, and for too many cores.
    """
    address = dask_address(address)
    logging.getLogger("distributed").setLevel(logging.WARNING)
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    if bench is None:
        bench = LocalBench(measuring, name, allow_externs)
        bench.keep_off()
    say(f"{bench.machine}")
    private = ArtifactDirectory()  # that of Dask in /tmp may be another user's
    try:
        bench.warm_up()
        folder = str(private.path)
        with importlib.import_module("dask.config").set({"temporary-directory": folder}):
            asyncio.run(_stay(address, bench, name, credentials, say))
    finally:
        bench.close()
        private.remove()


async def _stay(
    address: str, bench: Bench, name: str, credentials: Credentials, say: Callable[[str], object]
) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    say(f"waiting for the scheduler {address}; Ctrl-C ends")
    with suppress(asyncio.CancelledError):
        while True:
            worker = measuring_worker(address, bench, name, credentials)
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
