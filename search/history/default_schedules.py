"""Default schedules for the kernels of a model, computed on all cores and cached."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from codegen import Target
from codegen.target import host
from search.builder.worker_pool import WorkerPool
from search.database.module_equality import ModuleIndex, StructuralEquality, unnamed
from search.database.target_key import target_key
from search.errors import WorkerError
from search.history.history import under_its_name
from search.history.sample_on_miss import default_schedule
from search.task import normalize_mod, with_num_cores
from tensorir.function import IRModule, PrimFunc

logger = logging.getLogger("tensorir.search")

_LIMIT: Final = 60.0
"""Seconds for one program, which then stays unscheduled."""


class DefaultSchedules:
    """Computes the schedules of `default_schedule`, and caches them.

    `codegen.vm_build` uses it for kernels without a record (`codegen.history`). Programs that are
    equal up to names are scheduled once. If a program cannot be scheduled, it is unchanged, and the
    log has the reason at debug level.
    """

    def __init__(self) -> None:
        self._known: dict[str, ModuleIndex[PrimFunc | None]] = {}

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> dict[str, PrimFunc]:
        """Return the functions that have default schedules, with them, by name."""
        chosen = with_num_cores(target)
        known = self._known.setdefault(target_key(chosen), ModuleIndex(StructuralEquality()))
        programs = {name: normalize_mod(func) for name, func in functions.items()}
        new: ModuleIndex[str] = ModuleIndex(StructuralEquality())
        wanted = {
            name: program
            for name, program in programs.items()
            if not known.like(unnamed(program)) and new.add_first(unnamed(program), name)
        }
        for name, scheduled in _made(wanted, chosen).items():
            known.add(unnamed(wanted[name]), scheduled)
        found = {name: known.like(unnamed(program))[0] for name, program in programs.items()}
        return {
            name: under_its_name(functions[name], scheduled)
            for name, scheduled in found.items()
            if scheduled is not None
        }


def _made(programs: Mapping[str, IRModule], target: Target) -> dict[str, PrimFunc | None]:
    """Return the schedule of each program, None if it cannot be scheduled.

    This process starts immediately, and others as soon as they are up.
    """
    todo = deque(programs)
    others = min(host.physical_cores(), len(programs)) - 1
    if others < 1:
        return {name: _here(name, programs[name], target) for name in programs}
    made: dict[str, PrimFunc | None] = {}
    pool = WorkerPool(others, loads=scheduled_by_default)

    def there() -> None:
        for name in _taken(todo.pop):
            job = (scheduled_by_default, (programs[name], target))
            try:
                made[name] = _logged(name, pool.submit(job, _LIMIT).result().value)
            except WorkerError as error:
                logger.warning("Schedules are made in one process only: %s", error)
                made[name] = _here(name, programs[name], target)
                return

    with contextlib.closing(pool), ThreadPoolExecutor(others) as threads:
        waiting = [threads.submit(there) for _ in range(others)]
        for name in _taken(todo.popleft):
            made[name] = _here(name, programs[name], target)
        for thread in waiting:
            thread.result()
    return {name: made[name] for name in programs}


def _taken(take: Callable[[], str]) -> Iterator[str]:
    """Yield names until none are left."""
    with contextlib.suppress(IndexError):
        while True:
            yield take()


def scheduled_by_default(program: IRModule, target: Target) -> PrimFunc | str:
    """Return the default schedule of a program of one function, or the error as a text."""
    try:
        return default_schedule(program, target).mod.prim_func("main")
    except Exception as error:  # noqa: BLE001  a model is built even if a rule fails
        return f"{type(error).__name__}: {error}"


def _here(name: str, program: IRModule, target: Target) -> PrimFunc | None:
    return _logged(name, scheduled_by_default(program, target))


def _logged(name: str, made: PrimFunc | str) -> PrimFunc | None:
    """Return the schedule; if it is an error, log that and return None."""
    if isinstance(made, PrimFunc):
        return made
    reason = made.partition("\n")[0]  # the rest of an error shows the program
    logger.debug('Function "%s" has no default schedule and is unchanged: %s', name, reason)
    return None
