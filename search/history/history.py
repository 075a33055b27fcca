"""The history in which builds and passes look functions up, and modules with what it finds."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypedDict, Unpack

from codegen import Target
from codegen.history import IS_SCHEDULED, can_be_scheduled, innermost, is_small
from search.database import Database, ModuleEquality, TuningRecord
from search.database.database import Entered
from search.database.keyed_database import MemoryDatabase
from search.database.module_equality import ModuleIndex, StructuralEquality, unnamed
from search.database.target_key import target_key
from search.history.find_schedule import (
    FoundSchedule,
    find_schedule,
    say_if_missing,
    say_which_are_missing,
)
from search.history.sample_on_miss import SampleOnMiss, Sampler
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule, PrimFunc

logger = logging.getLogger("tensorir.search")


class History(Entered):
    """A database, and what is done about programs that it does not have.

    Inside of `with History(database, ...):` builds take the schedules that it finds; `with
    database:` is the same without options, which are those of `find_schedule`. What is sampled is
    remembered here, also that nothing came of it, and not written to the database.
    """

    def __init__(
        self,
        database: Database,
        *,
        include_compatible: bool = False,
        sample_on_miss: Sampler | None = None,
        module_equality: str | ModuleEquality | None = None,
    ) -> None:
        self.database = database
        self.include_compatible = include_compatible
        self.sample_on_miss = None if sample_on_miss is None else _Remembered(sample_on_miss)
        self.module_equality = module_equality

    @staticmethod
    def current() -> History | None:
        """Return the history of the innermost `with`, None outside."""
        entered = innermost()
        if isinstance(entered, History):
            return entered
        return History(entered.as_database()) if isinstance(entered, Entered) else None

    def as_database(self) -> Database:
        """Return the database."""
        return self.database

    def scheduled(self, name: str, func: PrimFunc, target: Target) -> PrimFunc | None:
        """Return the scheduled form of a function that a schedule is found of, else None."""
        found = _found(name, func, self, target)
        return None if found is None else found[1]

    def find(
        self,
        mod: IRModule | PrimFunc,
        target: str | Target | None = None,
        workload_name: str = "main",
        *,
        warns: bool = True,
    ) -> FoundSchedule | None:
        """Return the best schedule of a program for a target, None if nothing is known of it.

        Of that, and of one that was found for another target, a warning says what there is instead,
        once for each program and target; none with `warns=False`.
        """
        found = find_schedule(
            self.database,
            mod,
            target,
            workload_name,
            include_compatible=self.include_compatible,
            sample_on_miss=self.sample_on_miss,
            module_equality=self.module_equality,
        )
        if warns:
            say_if_missing(self.database, mod, target, workload_name, found)
        return found

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> dict[str, PrimFunc]:
        """Return the scheduled forms of those functions that a schedule is found of, by name.

        One warning tells of all that have none for the same reason, but for small ones.
        """
        found = {
            name: _found(name, func, self, target, warns=False) for name, func in functions.items()
        }
        known = {name: schedule for name, schedule in found.items() if schedule is not None}
        large = {name: func for name, func in functions.items() if not is_small(func)}
        records = {name: known[name][0] if name in known else None for name in large}
        say_which_are_missing(self.database, large, target, records)
        return {name: scheduled for name, (_, scheduled) in known.items()}


class _Remembered(Sampler):
    """Samples each program once for each target."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._known: dict[str, ModuleIndex[TuningRecord | None]] = {}

    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return the sample of a program, which is made the first time that it is asked for."""
        key = target_key(target)
        known = self._known.setdefault(key, ModuleIndex(StructuralEquality()))
        for record in known.like(unnamed(mod)):
            return record
        record = self._sampler.sample(mod, target, task_name)
        known.add(unnamed(mod), record)
        return record


class HistoryOptions(TypedDict, total=False):
    """The options for functions that a database does not have; see `find_schedule`."""

    include_compatible: bool
    sample_on_miss: Sampler | None
    module_equality: str | ModuleEquality | None


def apply_database(
    mod: IRModule,
    database: Database,
    target: str | Target | None = None,
    **options: Unpack[HistoryOptions],
) -> IRModule:
    """Return a module in which each function that a schedule is known of is scheduled.

    The functions keep their names, parameters and attributes, and get `tir.is_scheduled`. Those
    without a schedule, those scheduled already, and those of a graph stay as they are, and so does
    `mod`. A line of the log says of each function how it was found; `find_schedules` returns that.

    A function that the database has no record of may get another schedule: with
    `include_compatible=True` that of a program with shorter loops, with
    `module_equality="anchor-block"` that of another one around the same anchor block, and with
    `sample_on_miss=SampleOnMiss(...)` one that is made up. `History` has the same options.

    A schedule of a function with `layout_free_buffers` may pack weights in the function itself;
    `transform.SplitLayoutRewritePreproc` takes that out, and `codegen.vm_build` runs it.
    """
    return apply_history(mod, History(database, **options), target)


def apply_default_schedules(mod: IRModule, target: str | Target | None = None) -> IRModule:
    """Return a module in which each function has the schedule that `default_schedule` gives it.

    Nothing is measured. Functions that cannot be sampled (with symbolic shapes, or with parameters
    that are numbers) stay as they are; otherwise as `apply_database` without any record.
    """
    return apply_database(mod, MemoryDatabase(), target, sample_on_miss=SampleOnMiss())


def apply_history(mod: IRModule, history: History, target: str | Target | None = None) -> IRModule:
    """Return a module with the schedules that a history finds; see `apply_database`."""
    result = mod.clone()
    for name, schedule in _found_in(mod, history, target).items():
        if schedule is not None:
            result[name] = schedule[1]
    return result


def find_schedules(
    mod: IRModule,
    database: Database,
    target: str | Target | None = None,
    **options: Unpack[HistoryOptions],
) -> dict[str, FoundSchedule | None]:
    """Return by name what is known of each function that can be scheduled, None for nothing.

    For the arguments see `apply_database`.
    """
    found = _found_in(mod, History(database, **options), target)
    return {name: schedule and schedule[0] for name, schedule in found.items()}


def _found_in(
    mod: IRModule, history: History, target: str | Target | None
) -> dict[str, tuple[FoundSchedule, PrimFunc] | None]:
    return {
        name: _found(name, func, history, target)
        for name, func in sorted(mod.prim_funcs().items())
        if can_be_scheduled(func)
    }


def under_its_name(func: PrimFunc, scheduled: PrimFunc) -> PrimFunc:
    """Return a function with the body of its scheduled form; all else is its own.

    IRValueError if the scheduled form takes other arguments.
    """
    ours, theirs = func.params, scheduled.params
    if len(ours) != len(theirs):
        raise IRValueError(
            f"its schedule was found for {len(theirs)} parameters, it has {len(ours)}"
        )
    renamed = scheduled.specialize(
        {old: func.buffer_map.get(new, new) for old, new in zip(theirs, ours, strict=True)}
    )
    return func.with_(body=renamed.body).with_attr(IS_SCHEDULED, True)


def _found(
    name: str,
    func: PrimFunc,
    history: History,
    target: str | Target | None,
    *,
    warns: bool = True,
) -> tuple[FoundSchedule, PrimFunc] | None:
    """Return what is known of a function, and the function so scheduled."""
    found = history.find(func, target, name, warns=warns)
    scheduled = None
    if found is not None:
        try:
            scheduled = under_its_name(func, found.func)
        except (IRValueError, IRTypeError) as error:
            logger.warning(
                'Function "%s": the schedule that was found changes its parameters, and is not '
                "applied: %s",
                name,
                error,
            )
            return None
    logger.info('Function "%s": %s', name, found or "no schedule was found")
    return None if found is None or scheduled is None else (found, scheduled)
