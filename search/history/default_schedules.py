"""Default schedules for the kernels of a model, chosen on all cores and kept on the disk."""

from __future__ import annotations

import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from codegen import Target
from codegen.kept_files import kept_files, sources_stamp
from codegen.target import host
from search.builder.worker_pool import WorkerPool
from search.database.module_equality import ModuleIndex, StructuralEquality, unnamed
from search.database.target_key import target_key
from search.errors import WorkerError
from search.feature_extractor.machine import Machine
from search.history.default_designs import Choice, choose
from search.history.history import rename_to_original
from search.task import normalize_mod, with_num_cores
from tensorir.comparison.structural_hash import structural_hash
from tensorir.errors import TensorIRError
from tensorir.function import IRModule, PrimFunc

logger = logging.getLogger("tensorir.search")

_LIMIT: Final = 60.0
"""The maximum seconds for one program, which stays unscheduled if they do not suffice."""
_KEPT_BYTES: Final = 64 << 20
_SILENT_SECONDS: Final = 2.0
"""The progress of a longer choice is shown."""
_WORTH_A_PROCESS: Final = 4
"""The minimum number of programs per additional process: starting a process takes as long as two
searches.
"""


class DefaultSchedules:
    """Chooses the schedules of `default_schedule`, and keeps them.

    `codegen.vm_build` uses it for kernels without a record (`codegen.history`). Programs that are
    equal up to names are scheduled once. Of programs that differ in integers only, the first is
    searched; the others get its design space and structure, with other tile sizes. The
    choices are kept on the disk for later processes on this machine (`TENSORIR_CACHE`). If a
    program cannot be scheduled, it is unchanged, and the log has the reason at debug level.
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
        made = _make_defaults(wanted, chosen, _Choices(chosen))
        for name, scheduled in made.items():
            known.add(unnamed(wanted[name]), scheduled)
        found = {name: known.like(unnamed(program))[0] for name, program in programs.items()}
        return {
            name: rename_to_original(functions[name], scheduled)
            for name, scheduled in found.items()
            if scheduled is not None
        }


class _Choices:
    """The choices for a target, by the hash of a program or of its structure."""

    def __init__(self, target: Target) -> None:
        machine = Machine.of(target) if target.gpu is None else target.gpu
        self._prefix = f"{sources_stamp()}\n{target_key(target)}\n{machine}\n"
        self._files = kept_files("schedules", _KEPT_BYTES)
        self._known: dict[int, Choice | None] = {}

    def get(self, key: int) -> Choice | None:
        """Return a choice, None if there is none."""
        if key not in self._known:
            text = None if self._files is None else self._files.get(self._name(key))
            self._known[key] = None if text is None else _read(text)
        return self._known[key]

    def put(self, key: int, choice: Choice) -> None:
        """Store a choice."""
        self._known[key] = choice
        if self._files is not None:
            self._files.put(self._name(key), json.dumps(choice.as_json()).encode())

    def _name(self, key: int) -> bytes:
        return f"{self._prefix}{key}".encode()


def _read(text: memoryview) -> Choice | None:
    try:
        return Choice.from_json(json.loads(bytes(text)))
    except (TensorIRError, ValueError) as error:
        logger.info("A kept schedule is not used: %s", error)
        return None


@dataclass(frozen=True)
class _Job:
    """A program to schedule, with a stored choice for it or for a program of its structure."""

    program: IRModule
    key: int
    structure: int
    like: Choice | None = None
    is_same: bool = False

    @staticmethod
    def of(program: IRModule, choices: _Choices) -> _Job:
        """Return the job of a program, with a stored choice."""
        plain = unnamed(program)
        key, structure = structural_hash(plain), structural_hash(plain, ignore_integers=True)
        same = choices.get(key)
        return _Job(program, key, structure, same or choices.get(structure), same is not None)


def _make_defaults(
    programs: Mapping[str, IRModule], target: Target, choices: _Choices
) -> dict[str, PrimFunc | None]:
    """Return the schedule of each program, None if it cannot be scheduled.

    The first program of each structure is searched before the other programs of that structure.
    """
    jobs = {name: _Job.of(program, choices) for name, program in programs.items()}
    first: dict[int, str] = {}
    for name, job in jobs.items():
        if job.like is None:
            first.setdefault(job.structure, name)
    waiting = [n for n, job in jobs.items() if job.like is None and first[job.structure] != n]
    now = {name: job for name, job in jobs.items() if name not in waiting}
    made: dict[str, PrimFunc | None] = {}

    def note(name: str, found: tuple[PrimFunc, Choice | None] | str) -> None:
        func, choice = _log(name, found)
        made[name] = func
        job = jobs[name]
        if choice is not None and not job.is_same:
            choices.put(job.key, choice)
            if job.like is None:
                choices.put(job.structure, choice)
        shown.update()

    searched = sum(not job.is_same for job in jobs.values())
    others = host.physical_cores() - 1 if searched >= _WORTH_A_PROCESS else 0
    with _progress(len(jobs)) as shown, _workers(min(others, searched - 1)) as workers:
        _run_jobs(now, target, workers, note)
        later = {n: replace(jobs[n], like=choices.get(jobs[n].structure)) for n in waiting}
        _run_jobs(later, target, workers, note)
    return {name: made[name] for name in programs}


def _progress(count: int) -> Any:
    """Return a bar, which appears on a terminal after some seconds."""
    from tqdm import tqdm  # noqa: PLC0415 - a slow import

    return tqdm(
        total=count,
        desc="Scheduling kernels",
        unit="kernel",
        delay=_SILENT_SECONDS,
        leave=False,
        disable=None,
    )


@contextlib.contextmanager
def _workers(count: int) -> Iterator[WorkerPool | None]:
    """Yield a number of processes, None for none."""
    if count < 1:
        yield None
        return
    with contextlib.closing(WorkerPool(count, loads=scheduled_by_default)) as pool:
        pool.start()
        yield pool


def _run_jobs(
    jobs: Mapping[str, _Job],
    target: Target,
    workers: WorkerPool | None,
    note: Callable[[str, tuple[PrimFunc, Choice | None] | str], None],
) -> None:
    """Run jobs and report their results.

    This process starts immediately, and others as soon as they are up.
    """
    todo = deque(jobs)

    def here(name: str) -> None:
        job = jobs[name]
        note(name, scheduled_by_default(job.program, target, job.like, job.is_same))

    def there() -> None:
        assert workers is not None
        for name in _yield_names(todo.pop):
            job = jobs[name]
            args = (job.program, target, job.like, job.is_same)
            try:
                note(name, workers.submit((scheduled_by_default, args), _LIMIT).result().value)
            except WorkerError as error:
                logger.warning("Schedules are made in one process only: %s", error)
                here(name)
                return

    count = 0 if workers is None else workers.size
    with ThreadPoolExecutor(max(1, count)) as threads:
        waiting = [threads.submit(there) for _ in range(count)]
        for name in _yield_names(todo.popleft):
            here(name)
        for thread in waiting:
            thread.result()


def _yield_names(take: Callable[[], str]) -> Iterator[str]:
    """Yield names until none are left."""
    with contextlib.suppress(IndexError):
        while True:
            yield take()


def scheduled_by_default(
    program: IRModule, target: Target, like: Choice | None = None, is_same: bool = False
) -> tuple[PrimFunc, Choice | None] | str:
    """Return the default schedule of a program of one function with its choice.

    If that fails, return the error as a text. For `like` and `is_same` see `choose`.
    """
    try:
        sch, choice = choose(program, target, like, is_same=is_same)
        return sch.mod.prim_func("main"), choice
    except Exception as error:  # noqa: BLE001  a model is built even if a rule fails
        return f"{type(error).__name__}: {error}"


def _log(
    name: str, made: tuple[PrimFunc, Choice | None] | str
) -> tuple[PrimFunc | None, Choice | None]:
    """Return a made schedule; log an error and return None."""
    if not isinstance(made, str):
        return made
    reason = made.partition("\n")[0]  # the rest of an error shows the program
    logger.debug('Function "%s" has no default schedule and is unchanged: %s', name, reason)
    return None, None
