"""A Dask scheduler that passes requests on, and executes nothing that a client sends."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from search.distributed.dask_package import dask_distributed
from search.distributed.data_only import SCHEDULER_CALLS, refuse_calls, refuse_code
from search.errors import TuningError

logger = logging.getLogger("tensorir.search")


def schedule(
    *,
    host: str | None = None,
    port: int = 8786,
    security: Any = None,
    say: Callable[[str], object] = logger.info,
) -> None:
    """Be the scheduler of searches and workers until SIGINT or SIGTERM ends this process.

    It listens on all addresses of the machine, or at `host` only; port 0 is one that is free. A
    scheduler that `dask scheduler` starts does the same for those whom one lets execute code there.
    TuningError if Dask is not installed, or if the port is taken.
    """
    dask_distributed()
    refuse_code(graphs=True)
    logging.getLogger("distributed").setLevel(logging.WARNING)
    with importlib.import_module("dask.config").set(
        {"distributed.scheduler.http.routes": [], "distributed.scheduler.allowed-failures": 5}
    ):
        asyncio.run(_stay(host, port, security, say))


async def _stay(host: str | None, port: int, security: Any, say: Callable[[str], object]) -> None:
    scheduler = dask_distributed().Scheduler(
        host=host,
        port=port,
        protocol=None if security is None else "tls",
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        security=security,
    )
    refuse_calls(scheduler, SCHEDULER_CALLS)
    try:
        await scheduler
    except (OSError, RuntimeError) as error:
        reason = error.__cause__ or error
        raise TuningError(f"there can be no scheduler at port {port}: {reason}") from error
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    say(f"scheduler at {scheduler.address}; Ctrl-C ends")
    with suppress(asyncio.CancelledError):
        await scheduler.finished()
    await scheduler.close()
