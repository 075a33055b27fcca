"""Compiling many kernels in this process, and concurrently in other processes if they are many."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import IO, Any, BinaryIO, Final, Literal, TypeAlias

from codegen.build_workers import build_workers
from codegen.emit.optimize import binding, needs_new_process
from codegen.errors import CodegenError, WorkerError
from codegen.kernel import Kernel, Unit
from codegen.worker_pool import WorkerPool

Form: TypeAlias = Literal["object_code", "made", "optimized", "assembly"]
"""The method of a unit that another process calls."""
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


# ---------------------------------------------------------------------------------- another process
#
# LLVM in a separate process for the kernels of GPUs: units in, objects out.
#
# The process is a fresh interpreter, because the threads of LLVM and OpenMP do not survive a fork.
# It exchanges pickled messages over pipes, and exits at the end of its input. Unlike a worker, it
# forks itself for a code generator that keeps state, and its output can be logged.


class LLVMProcess:
    """A process that compiles units; for use by one thread.

    What it prints, such as the reason why LLVM ended it, goes to `stderr`.
    """

    def __init__(self, stderr: IO[bytes] | None = None) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from codegen.compile_units import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C goes to the parent process, which ends this one
        )

    def object_code(self, unit: Unit) -> bytes | None:
        """Return the object of a unit, as `form` does."""
        return self.form(unit, "object_code")  # type: ignore[no-any-return]

    def form(self, unit: Unit, name: Form) -> Any:
        """Return a form of a unit, None if the process has ended.

        Raises CodegenError for code that LLVM rejects.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            pickle.dump((unit, name), stdin)
            stdin.flush()
            made, problem = pickle.load(stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        if problem is not None:
            raise CodegenError(problem)
        return made

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """Answer on the standard output until the standard input ends."""
    asked, told = sys.stdin.buffer, _private_output()
    while True:
        try:
            unit, form = pickle.load(asked)
        except EOFError:
            return
        if needs_new_process(unit.target):
            told.write(_in_fork(partial(_answer, unit, form)))
        else:
            told.write(_answer(unit, form))
        told.flush()


def _answer(unit: Unit, form: Form) -> bytes:
    answer: tuple[bytes | str | None, str | None]
    try:
        answer = getattr(unit, form)(), None
    except CodegenError as problem:
        answer = None, str(problem)
    return pickle.dumps(answer)


def _in_fork(work: Callable[[], bytes]) -> bytes:
    """Return what `work` returns in a fork of this process; end this one if it ends the fork."""
    binding()
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        with os.fdopen(writer, "wb") as out:
            out.write(work())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as result:
        answer = result.read()
    os.wait()
    if not answer:
        os._exit(1)
    return answer


def _private_output() -> BinaryIO:
    """Return the standard output, and redirect later prints to standard error."""
    told: Any = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return told  # type: ignore[no-any-return]
