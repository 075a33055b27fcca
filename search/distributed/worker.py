"""A Dask worker that measures, and waits for its scheduler whenever that is gone."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from search.distributed.bench import Bench, LocalBench
from search.distributed.dask_package import dask_distributed
from search.distributed.data_only import WORKER_CALLS, refuse_calls, refuse_code
from search.errors import TuningError

logger = logging.getLogger("tensorir.search")

_AGAIN_SECONDS: Final = 1.0


def measuring_worker(
    address: str, bench: Bench, name: str, *, trust_client: bool = False, security: Any = None
) -> Any:
    """Return a Dask worker of this process that has requests answered by a bench, not yet started.

    It offers the resources of the bench's machine and describes it. Without `trust_client` it
    refuses the calls by which clients have something executed; what this process unpickles is
    another matter (`refuse_code`).
    """
    distributed = dask_distributed()
    worker = distributed.Worker(
        address,
        name=name,
        nthreads=bench.machine.at_once,
        resources=bench.machine.resources,
        memory_limit=0,
        dashboard=False,
        extensions={},
        startup_information={"tensorir": lambda worker: bench.machine.as_json()},
        security=security,
    )
    worker.bench = bench
    if not trust_client:
        refuse_calls(worker, WORKER_CALLS)
    return worker


def serve(
    address: str,
    *,
    measuring: int = 1,
    name: str | None = None,
    trust_client: bool = False,
    security: Any = None,
    bench: Bench | None = None,
    say: Callable[[str], object] = logger.info,
) -> None:
    """Measure for the scheduler at an address until SIGINT or SIGTERM ends this process.

    `measuring` is the number of cores on which it measures at the same time, each for itself;
    `bench` takes the place of this machine.
    Without `trust_client` nothing is executed that a client sends, in the whole process. A
    scheduler that is not there is waited for. What it does is told to `say`, in sentences.
    TuningError if Dask is not installed, for an address that is none, and for too many cores.
    """
    distributed = dask_distributed()
    try:
        scheme, place = distributed.comm.parse_address(address)
        distributed.comm.registry.get_backend(scheme)
        distributed.comm.parse_host_port(place)
    except ValueError as error:
        raise TuningError(
            f"{address!r} is no address of a Dask scheduler, as in tcp://host:8786: {error}"
        ) from error
    if not trust_client:
        refuse_code()
    logging.getLogger("distributed").setLevel(logging.WARNING)
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    if bench is None:
        bench = LocalBench(measuring, name)
        bench.keep_off()
    say(f"{bench.machine}")
    try:
        bench.warm_up()
        with importlib.import_module("dask.config").set({"distributed.worker.http.routes": []}):
            asyncio.run(_stay(address, bench, name, trust_client, security, say))
    finally:
        bench.close()


async def _stay(
    address: str,
    bench: Bench,
    name: str,
    trust_client: bool,
    security: Any,
    say: Callable[[str], object],
) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    say(f"waiting for the scheduler {address}; Ctrl-C ends")
    with suppress(asyncio.CancelledError):
        while True:
            worker = measuring_worker(
                address, bench, name, trust_client=trust_client, security=security
            )
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
