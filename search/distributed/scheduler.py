"""A Dask scheduler, where searches and the machines that measure for them find each other."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from search.distributed.credentials import Credentials
from search.distributed.dask_package import dask_distributed, server_class
from search.distributed.machine import this_release
from search.errors import TuningError

logger = logging.getLogger("tensorir.search")

LOOPBACK: Final = "127.0.0.1"
RELEASE: Final = "tensorir"
"""The name of the metadata of a scheduler that say which release it is of."""


def new_scheduler(host: str, port: int, credentials: Credentials) -> Any:
    """Return a scheduler of this process, not yet started; port 0 is one that is free."""
    scheduler = server_class("Scheduler")(
        host=host, port=port, protocol="tls", dashboard=False, security=credentials.security
    )
    scheduler.task_metadata[RELEASE] = this_release()
    return scheduler


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
    dask_distributed()
    logging.getLogger("distributed").setLevel(logging.WARNING)
    with importlib.import_module("dask.config").set({"distributed.scheduler.allowed-failures": 5}):
        asyncio.run(_stay(credentials, host, port, say))


async def _stay(
    credentials: Credentials, host: str, port: int, say: Callable[[str], object]
) -> None:
    scheduler = new_scheduler(host, port, credentials)
    try:
        await scheduler
    except (OSError, RuntimeError) as error:
        reason = error.__cause__ or error
        raise TuningError(f"there can be no scheduler at {host}:{port}: {reason}") from error
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    address = scheduler.address.replace("tls://", "dask://")
    say(f"scheduler at {address} for whoever has {credentials.place}; Ctrl-C ends")
    with suppress(asyncio.CancelledError):
        await scheduler.finished()
    await scheduler.close()
