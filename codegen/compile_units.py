"""Compiling many kernels in this process, and concurrently in other processes if they are many."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

from codegen.build_workers import build_workers
from codegen.errors import WorkerError
from codegen.kernel import Kernel, Unit
from codegen.worker_pool import WorkerPool

_WORTH_A_PROCESS: Final = 10
"""The number of kernels that LLVM compiles in about half a second, the start time of a process."""
_LIMIT: Final = 3600.0
"""The maximum seconds for one unit in another process."""

logger = logging.getLogger("tensorir.codegen")


def compiled(kernels: Iterable[Kernel], count: int) -> tuple[list[Kernel], list[dict[str, bytes]]]:
    """Return about `count` kernels, and their objects.

    LLVM compiles kernels while Python generates the next ones. Raises
    CodegenError for a kernel that LLVM rejects.
    """
    most = count // _WORTH_A_PROCESS
    made: list[Kernel] = []
    with build_workers(most) as workers:
        others = 0 if workers is None else min(workers.size, most)
        make = partial(_object_code, workers, threading.Lock())
        with ThreadPoolExecutor(1 + others, "llvm") as pool:
            futures: list[Future[dict[str, bytes]]] = []
            try:
                for kernel in kernels:
                    made.append(kernel)
                    futures.append(pool.submit(kernel.objects, make))
                return made, [future.result() for future in futures]
            finally:
                pool.shutdown(cancel_futures=True)


def _object_code(workers: WorkerPool | None, here: threading.Lock, unit: Unit) -> bytes:
    """Return the object of a unit, made by the LLVM of this process if the lock `here` is free.

    LLVM's Python binding lets one thread at a time into LLVM, so other threads use workers.
    """
    if here.acquire(blocking=False):
        try:
            return unit.made()
        finally:
            here.release()
    assert workers is not None
    try:
        outcome = workers.submit((Unit.made, (unit,)), _LIMIT).result()
    except WorkerError as error:
        logger.warning("Kernels are compiled in one process only: %s", error)
        return unit.made()
    return outcome.value if outcome.status == "value" else unit.made()
