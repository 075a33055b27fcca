"""LLVM in a worker process: what a back end for GPUs cannot compile ends the process."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from functools import cache, partial
from multiprocessing.connection import Pipe
from typing import Final, Literal, TypeAlias

from codegen.emit.optimize import binding, needs_new_process
from codegen.errors import CodegenError
from codegen.kernel import Unit
from codegen.worker_pool import WorkerPool

Form: TypeAlias = Literal["made", "optimized", "assembly"]
"""The method of a unit that the worker calls."""
_Answer: TypeAlias = tuple[bytes | str | None, str | None]
"""The form, or why LLVM rejects the code."""
_LIMIT: Final = 3600.0
"""The maximum seconds for one unit."""


def form_of(unit: Unit, form: Form) -> bytes | str:
    """Return a form of a unit; CodegenError for what LLVM rejects or ends because of."""
    outcome = _pool(os.getpid()).submit((_answer, (unit, form)), _LIMIT).result()
    if outcome.status == "value":
        made, problem = outcome.value
        if problem is None:
            return made  # type: ignore[no-any-return]
        raise CodegenError(problem)
    said = str(outcome.value).splitlines()
    reason = next((x for x in said if "LLVM ERROR" in x), said[-1])
    raise CodegenError(
        f"LLVM cannot compile the kernel for {unit.target.kind} and ended its process: {reason}"
    )


@cache
def _pool(owner: int) -> WorkerPool:
    """Return the pool of the process with this number: a fork starts a worker of its own."""
    return WorkerPool(1, loads=_answer)


def _answer(unit: Unit, form: Form) -> _Answer:
    """Answer in the worker; a code generator that keeps state runs in a fork of it."""
    answer = partial(_answer_here, unit, form)
    return _in_fork(answer) if needs_new_process(unit.target) else answer()


def _answer_here(unit: Unit, form: Form) -> _Answer:
    try:
        return getattr(unit, form)(), None
    except CodegenError as problem:
        return None, str(problem)


def _in_fork(work: Callable[[], _Answer]) -> _Answer:
    """Return what `work` returns in a fork of this process; end this one if it ends the fork."""
    binding()
    reader, writer = Pipe(duplex=False)
    if os.fork() == 0:
        try:
            writer.send(work())
        except Exception:  # noqa: BLE001  the worker shows what ended its fork
            traceback.print_exc()
        finally:
            os._exit(0)
    writer.close()
    try:
        return reader.recv()  # type: ignore[no-any-return]
    except EOFError:
        os._exit(1)
    finally:
        os.wait()
