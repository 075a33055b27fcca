"""The worker processes of a build, which choose schedules and run LLVM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from typing import Final

from codegen.target import host
from codegen.worker_pool import WorkerPool
from tensorir.extensions import SCHEDULES, extension

_open: Final[ContextVar[WorkerPool | None]] = ContextVar("_open", default=None)


@contextlib.contextmanager
def build_workers(count: int) -> Iterator[WorkerPool | None]:
    """Yield a pool with a worker for each physical core but one, of which `count` start now.

    Inside another `build_workers` the pool is that of the outer one, so that all steps of a build
    share the processes. None if no process is wanted, or if there is one core only.
    """
    pool, most = _open.get(), host.physical_cores() - 1
    if pool is not None or min(count, most) < 1:
        yield pool
        return
    with contextlib.closing(WorkerPool(most, initializer=partial(extension, SCHEDULES))) as pool:
        pool.start(count)
        token = _open.set(pool)
        try:
            yield pool
        finally:
            _open.reset(token)
