"""The lookup of schedules in builds and passes, and modules with the schedules found."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TypedDict, Unpack

from codegen import Target
from codegen.history import IS_SCHEDULED, can_be_scheduled, innermost, is_small
from codegen.target import as_target
from search.database import Database, ModuleEquality, TuningRecord
from search.database.database import DatabaseScope
from search.database.keyed_database import MemoryDatabase
from search.database.module_equality import ModuleIndex, StructuralEquality, unnamed
from search.database.target_key import target_key
from search.history.find_schedule import FoundSchedule, find_schedule, warn_if_untuned
from search.history.sample_on_miss import SampleOnMiss, Sampler
from search.history.size_dispatch import dispatch_on_sizes
from search.history.size_records import find_schedules_of_sizes
from search.history.symbolic_sizes import open_sizes, representative_sizes, with_sizes
from search.task import as_module, normalize_mod
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule, PrimFunc

logger = logging.getLogger("tensorir.search")


class History(DatabaseScope):
    """A database with options for programs without a record, which are those of `find_schedule`.

    Inside `with History(database, ...):` builds use the schedules that it finds; `with database:`
    is the same without options. Samples, also failed ones, are cached here, and not written to the
    database.
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
        self.sample_on_miss = None if sample_on_miss is None else _CachedSampler(sample_on_miss)
        self.module_equality = module_equality

    @staticmethod
    def current() -> History | None:
        """Return the history of the innermost `with` block, None outside."""
        entered = innermost()
        if isinstance(entered, History):
            return entered
        return History(entered.as_database()) if isinstance(entered, DatabaseScope) else None

    def as_database(self) -> Database:
        """Return the database."""
        return self.database

    def find(
        self,
        mod: IRModule | PrimFunc,
        target: str | Target | None = None,
        workload_name: str = "main",
    ) -> FoundSchedule | None:
        """Return the best schedule of a program for a target, None if none is found.

        A warning comes if there is none, or only one for another target: see `warn_if_untuned`.
        """
        found = self._find(mod, target, workload_name)
        warn_if_untuned(self.database, {workload_name: mod}, target, {workload_name: found})
        return found

    def _find(
        self, mod: IRModule | PrimFunc, target: str | Target | None, workload_name: str
    ) -> FoundSchedule | None:
        found = find_schedule(
            self.database,
            mod,
            target,
            workload_name,
            include_compatible=self.include_compatible,
            sample_on_miss=self.sample_on_miss,
            module_equality=self.module_equality,
        )
        # The usual case is no news: a check of a tuned model looks up all kernels several times.
        level = logging.DEBUG if found is not None and found.how == "exact" else logging.INFO
        logger.log(level, 'Function "%s": %s', workload_name, found or "no record")
        return found

    def scheduled(self, name: str, func: PrimFunc, target: Target) -> PrimFunc | None:
        """Return the scheduled form of a function, None if no schedule is found."""
        return self._schedules_of({name: func}, target, {name: func}).get(name)

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> dict[str, PrimFunc]:
        """Return the scheduled forms of the functions with a schedule, by name.

        Warnings come as by `find`, but not for small functions.
        """
        large = {name: func for name, func in functions.items() if not _is_small(func)}
        return self._schedules_of(functions, target, large)

    def _schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target, warned: Mapping[str, PrimFunc]
    ) -> dict[str, PrimFunc]:
        """Return the scheduled forms that exist; warn about some of the other functions."""
        found: dict[str, FoundSchedule | None] = {}
        applied: dict[str, PrimFunc | None] = {}
        for name, func in functions.items():
            if open_sizes(func):
                find = partial(self._find, target=target, workload_name=name)
                sized = find_schedules_of_sizes(self.database, func, find)
                found[name] = sized[-1].found if sized else None
                variants = [(sizes, one.schedule) for sizes, one in sized]
                scheduled = dispatch_on_sizes(normalize_mod(func), variants, target)
                applied[name] = _apply(name, func, scheduled)
            else:
                single = found[name] = self._find(func, target, name)
                applied[name] = _apply(name, func, None if single is None else single.func)
        warn_if_untuned(self.database, warned, target, found)
        return {name: func for name, func in applied.items() if func is not None}


def _is_small(func: PrimFunc) -> bool:
    """Return True if a function runs in some microseconds, for the sizes that are tuned."""
    if not open_sizes(func):
        return is_small(func)
    return is_small(with_sizes(func, representative_sizes(func)[-1]).prim_func("main"))


class _CachedSampler(Sampler):
    """Samples each program once for each target."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._known: dict[str, ModuleIndex[TuningRecord | None]] = {}

    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return the sample of a program, which is made by the first call."""
        key = target_key(target)
        known = self._known.setdefault(key, ModuleIndex(StructuralEquality()))
        for record in known.like(unnamed(mod)):
            return record
        record = self._sampler.sample(mod, target, task_name)
        known.add(unnamed(mod), record)
        return record


class HistoryOptions(TypedDict, total=False):
    """The options for functions without a record; see `find_schedule`."""

    include_compatible: bool
    sample_on_miss: Sampler | None
    module_equality: str | ModuleEquality | None


def apply_database(
    mod: IRModule,
    database: Database,
    target: str | Target | None = None,
    **options: Unpack[HistoryOptions],
) -> IRModule:
    """Return a module with the best schedules of its functions.

    The functions keep their names, parameters and attributes, and get `tir.is_scheduled`. Functions
    without a schedule, scheduled functions, and graph functions are unchanged, and so is `mod`. The
    log has a line for each function with the origin of its schedule (at the level DEBUG if it was
    recorded for the function itself), which `find_schedules`
    returns.

    A function without a record may get another schedule: with `include_compatible=True` that of a
    program with shorter loops, with `module_equality="anchor-block"` that of another program with
    the same anchor block, and with `sample_on_miss=SampleOnMiss(...)` a sampled one. `History` has
    the same options.

    A schedule of a function with `layout_free_buffers` may pack weights in the function itself;
    `transform.SplitLayoutRewritePreproc` moves that out, and `codegen.vm_build` runs it.
    """
    return apply_history(mod, History(database, **options), target)


def apply_default_schedules(mod: IRModule, target: str | Target | None = None) -> IRModule:
    """Return a module in which each function has the schedule of `default_schedule`.

    Nothing is measured. Functions with scalar parameters are unchanged; otherwise as
    `apply_database` without any record.
    """
    return apply_database(mod, MemoryDatabase(), target, sample_on_miss=SampleOnMiss())


def apply_history(mod: IRModule, history: History, target: str | Target | None = None) -> IRModule:
    """Return a module with the schedules that a history finds; see `apply_database`."""
    mod = as_module(mod)
    functions = {n: f for n, f in sorted(mod.prim_funcs().items()) if can_be_scheduled(f)}
    result = mod.clone()
    for name, func in functions.items():
        scheduled = history.scheduled(name, func, as_target(target))
        if scheduled is not None:
            result[name] = scheduled
    return result


def find_schedules(
    mod: IRModule,
    database: Database,
    target: str | Target | None = None,
    **options: Unpack[HistoryOptions],
) -> dict[str, FoundSchedule | None]:
    """Return the found schedule of each function that can be scheduled, by name, None without one.

    For the arguments see `apply_database`.
    """
    return _find_all(mod, History(database, **options), target)


def _find_all(
    mod: IRModule, history: History, target: str | Target | None
) -> dict[str, FoundSchedule | None]:
    functions = sorted(as_module(mod).prim_funcs().items())
    return {
        name: history.find(func, target, name) for name, func in functions if can_be_scheduled(func)
    }


def _apply(name: str, func: PrimFunc, scheduled: PrimFunc | None) -> PrimFunc | None:
    """Return a function with its found schedule, None if there is none or it does not fit."""
    if scheduled is None:
        return None
    try:
        return rename_to_original(func, scheduled)
    except (IRValueError, IRTypeError) as error:
        logger.warning(
            'Function "%s": its schedule is not applied, as it changes the parameters: %s',
            name,
            error,
        )
        return None


def rename_to_original(func: PrimFunc, scheduled: PrimFunc) -> PrimFunc:
    """Return a function with the body of its scheduled form, and its own parameters.

    Raises IRValueError if the scheduled form has other parameters.
    """
    ours, theirs = func.params, scheduled.params
    if len(ours) != len(theirs):
        raise IRValueError(f"its schedule has {len(theirs)} parameters, the function {len(ours)}")
    renamed = scheduled.specialize(
        {old: func.buffer_map.get(new, new) for old, new in zip(theirs, ours, strict=True)}
    )
    return func.with_(body=renamed.body).with_attr(IS_SCHEDULED, True)
