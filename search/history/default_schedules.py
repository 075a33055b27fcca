"""Default schedules for the kernels of a model, chosen on all cores and kept on the disk."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from codegen import Target
from codegen.build_workers import build_workers
from codegen.errors import WorkerError
from codegen.kept_files import kept_files, sources_stamp
from codegen.worker_pool import WorkerPool
from schedule import Trace
from search.database.module_equality import unnamed
from search.database.target_key import target_key
from search.feature_extractor.machine import Machine, weights_are_cold
from search.history.adapted_replay import schedule_of
from search.history.default_designs import Choice, choose
from search.history.history import rename_to_original
from search.history.size_dispatch import check_lowering, dispatch_on_sizes
from search.history.symbolic_sizes import open_sizes, representative_sizes, with_sizes
from search.task import normalize_mod, with_num_cores
from tensorir.comparison.equal import structural_equal
from tensorir.comparison.structural_hash import structural_hash
from tensorir.errors import TensorIRError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import Var

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


_Key: TypeAlias = tuple[str, int]
"""The name of a function, and the number of its representative sizes."""


class DefaultSchedules:
    """Chooses the schedules of `default_schedule`, and keeps them.

    `codegen.vm_build` uses it for kernels without a record (`codegen.history`). Programs that are
    equal up to names are scheduled once. Of programs that differ in integers only, the first is
    searched; the others get its design space and structure, with other tile sizes. A
    function with symbolic sizes gets the schedules of its `representative_sizes`. The choices are
    kept on the disk for later processes on this machine (`TENSORIR_CACHE`). If a program cannot be
    scheduled, it is unchanged, and the log has the reason at debug level.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], dict[int, tuple[IRModule, PrimFunc | None]]] = {}
        """For each target, and cold weights or not, programs with their scheduled forms, by
        structural hash."""

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target, weight_bytes: int = 0
    ) -> dict[str, PrimFunc]:
        """Return the functions that have default schedules, with them, by name.

        They are part of a model with so many bytes of weights.
        """
        chosen = with_num_cores(target)
        cold = weights_are_cold(weight_bytes, chosen)
        known = self._known.setdefault((target_key(chosen), cold), {})
        programs = {name: normalize_mod(func) for name, func in functions.items()}
        plain = {name: unnamed(program) for name, program in programs.items()}
        keys = {name: structural_hash(program) for name, program in plain.items()}
        first = {key: name for name, key in reversed(keys.items()) if key not in known}
        wanted = {name: programs[name] for name, key in keys.items() if first.get(key) == name}
        sized = {name: _representatives(program) for name, program in wanted.items()}
        static = {
            (name, k): with_sizes(wanted[name].prim_func("main"), sizes)
            for name, all_sizes in sized.items()
            for k, sizes in reversed([*enumerate(all_sizes)])
        }
        made = _make_defaults(static, chosen, _Choices(chosen, cold))
        for name, program in wanted.items():
            parts = [(sizes, made[name, k]) for k, sizes in enumerate(sized[name])]
            known[keys[name]] = plain[name], _combined(program, parts, chosen)
        found = {name: known[key] for name, key in keys.items()}
        return {
            name: rename_to_original(functions[name], scheduled)
            for name, (program, scheduled) in found.items()
            if scheduled is not None and structural_equal(program, plain[name])
        }


def default_schedules_of(
    programs: Mapping[str, IRModule], target: Target, cold: bool
) -> dict[str, Scheduled]:
    """Return the programs of one function that have default schedules, with them, by name.

    These are the schedules that `codegen.vm_build` gives to functions without a record. The shapes
    are constant. With `cold`, weights are in no cache when a program begins.
    """
    chosen = with_num_cores(target)
    wanted = {(name, 0): normalize_mod(program) for name, program in programs.items()}
    made = _make_defaults(wanted, chosen, _Choices(chosen, cold))
    return {name: found for (name, _), found in made.items() if found is not None}


@dataclass(frozen=True)
class Scheduled:
    """A scheduled program of one function."""

    func: PrimFunc
    trace: Trace
    choice: Choice | None


def _representatives(program: IRModule) -> list[dict[Var, int]]:
    """Return the representative sizes of a program; of one without symbolic sizes no numbers."""
    func = program.prim_func("main")
    return representative_sizes(func) if open_sizes(func) else [{}]


def _combined(
    program: IRModule,
    parts: Sequence[tuple[dict[Var, int], Scheduled | None]],
    target: Target,
) -> PrimFunc | None:
    """Return the scheduled form of a program from those of its representative sizes."""
    func = program.prim_func("main")
    variants = []
    for sizes, made in parts:
        if made is None:
            continue
        if not sizes:
            return made.func
        sch = schedule_of(with_sizes(func, sizes))
        made.trace.apply_to_schedule(sch, remove_postproc=False)
        variants.append((sizes, sch))
    return dispatch_on_sizes(program, variants, target)


class _Choices:
    """The choices for a target, by the hash of a program or of its structure."""

    def __init__(self, target: Target, cold: bool) -> None:
        self.cold = cold
        """True if weights are in no cache when a program begins."""
        machine = Machine.of(target, cold) if target.gpu is None else target.gpu
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
    programs: Mapping[_Key, IRModule], target: Target, choices: _Choices
) -> dict[_Key, Scheduled | None]:
    """Return the schedule of each program, None if it cannot be scheduled.

    The first program of each structure is searched before the other programs of that structure.
    """
    jobs = {name: _Job.of(program, choices) for name, program in programs.items()}
    made: dict[_Key, Scheduled | None] = {}

    def note(name: _Key, job: _Job, found: Scheduled | str) -> None:
        scheduled = made[name] = _scheduled_or_none(name, found)
        if scheduled is not None and scheduled.choice is not None and not job.is_same:
            choices.put(job.key, scheduled.choice)
            if job.like is None:
                choices.put(job.structure, scheduled.choice)
        shown.update()

    searched = sum(not job.is_same for job in jobs.values())
    others = searched - 1 if searched >= _WORTH_A_PROCESS else 0
    with _progress(len(jobs)) as shown, build_workers(others) as workers:
        _run_jobs(_Queue(jobs, choices), target, choices.cold, workers, note)
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


class _Queue:
    """Jobs that several threads iterate over, each job for one of them.

    A search of each structure comes first. While it runs, other programs of the structure wait;
    then they get its choice.
    """

    def __init__(self, jobs: Mapping[_Key, _Job], choices: _Choices) -> None:
        first = {job.structure: name for name, job in reversed([*jobs.items()]) if job.like is None}
        ordered = sorted(jobs.items(), key=lambda item: first.get(item[1].structure) != item[0])
        self._todo = dict(ordered)
        self._choices = choices
        self._searched: set[int] = set()
        """The structures of running searches."""
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._todo)

    def __iter__(self) -> Iterator[tuple[_Key, _Job]]:
        while (taken := self._take()) is not None:
            try:
                yield taken
            finally:
                self._end(taken[1])

    def clear(self) -> None:
        """Drop the jobs that nobody has taken."""
        with self._changed:
            self._todo.clear()
            self._changed.notify_all()

    def _take(self) -> tuple[_Key, _Job] | None:
        """Wait for a job and return it with its choice; None if none is left."""
        with self._changed:
            while self._todo:
                for name, job in self._todo.items():
                    like = job.like or self._choices.get(job.structure)
                    if like is not None or job.structure not in self._searched:
                        del self._todo[name]
                        if like is None:
                            self._searched.add(job.structure)
                        return name, replace(job, like=like)
                self._changed.wait()
            return None

    def _end(self, job: _Job) -> None:
        if job.like is None:
            with self._changed:
                self._searched.remove(job.structure)
                self._changed.notify_all()


def _run_jobs(
    jobs: _Queue,
    target: Target,
    cold: bool,
    workers: WorkerPool | None,
    note: Callable[[_Key, _Job, Scheduled | str], None],
) -> None:
    """Run jobs and report their results.

    This process starts immediately, and others as soon as they are up.
    """

    def here(name: _Key, job: _Job) -> None:
        note(name, job, scheduled_by_default(job.program, target, job.like, job.is_same, cold))

    def there() -> None:
        assert workers is not None
        for name, job in jobs:
            args = (job.program, target, job.like, job.is_same, cold)
            try:
                found = workers.submit((scheduled_by_default, args), _LIMIT).result().value
            except WorkerError as error:
                logger.warning("Schedules are made in one process only: %s", error)
                here(name, job)
                return
            note(name, job, found)

    count = 0 if workers is None else min(workers.size, len(jobs) - 1)
    with ThreadPoolExecutor(max(1, count)) as threads:
        waiting = [threads.submit(there) for _ in range(count)]
        try:
            for name, job in jobs:
                here(name, job)
        finally:
            jobs.clear()
        for thread in waiting:
            thread.result()


def scheduled_by_default(
    program: IRModule,
    target: Target,
    like: Choice | None = None,
    is_same: bool = False,
    cold: bool = False,
) -> Scheduled | str:
    """Return the default schedule of a program of one function with its choice.

    If that fails, return the error as a text. For the other parameters see `choose`.
    """
    try:
        sch, choice = choose(program, target, like, is_same=is_same, cold=cold)
        func = sch.mod.prim_func("main")
        check_lowering(func, target)
        return Scheduled(func, sch.trace, choice)
    except Exception as error:  # noqa: BLE001  a model is built even if a rule fails
        return f"{type(error).__name__}: {error}"


def _scheduled_or_none(name: _Key, found: Scheduled | str) -> Scheduled | None:
    """Return a schedule as it is; log the text of an error and return None."""
    if not isinstance(found, str):
        return found
    reason = found.partition("\n")[0]  # the rest of an error shows the program
    logger.debug('Function "%s" has no default schedule and is unchanged: %s', name[0], reason)
    return None
