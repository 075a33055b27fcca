"""Compiling many kernels at once: in this process, and in others where there is enough to do."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from codegen.kernel import Kernel, Unit
from codegen.llvm_process import LLVMProcess
from codegen.target import host

_WORTH_A_PROCESS: Final = 10
"""The kernels that take LLVM as long as a process takes to start, about half a second."""


def compiled(kernels: Iterable[Kernel], count: int) -> tuple[list[Kernel], list[dict[str, bytes]]]:
    """Return about `count` kernels, and their objects.

    LLVM works on kernels while the next ones are made, which is work of Python. Raises
    CodegenError for a kernel that LLVM rejects.
    """
    others = min(host.physical_cores() - 1, count // _WORTH_A_PROCESS)
    engines = _Engines()
    made: list[Kernel] = []
    with engines, ThreadPoolExecutor(1 + others, "llvm") as pool:
        futures: list[Future[dict[str, bytes]]] = []
        try:
            for kernel in kernels:
                made.append(kernel)
                futures.append(pool.submit(kernel.objects, engines.object_code))
            return made, [future.result() for future in futures]
        finally:
            pool.shutdown(cancel_futures=True)


class _Engines:
    """What threads compile units with: the first one with LLVM here, each other with a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here: int | None = None
        self._processes: dict[int, LLVMProcess] = {}

    def __enter__(self) -> _Engines:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.close()

    def object_code(self, unit: Unit) -> bytes:
        """Return the object of a unit."""
        thread = threading.get_ident()
        with self._lock:
            if self._here is None:
                self._here = thread
        if thread == self._here:
            return unit.made()
        if thread not in self._processes:
            self._processes[thread] = LLVMProcess()
        found = self._processes[thread].object_code(unit)
        return unit.made() if found is None else found
