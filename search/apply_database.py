"""Putting the schedules of a database in the place of the functions of a module."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codegen.history import IS_SCHEDULED, can_be_scheduled, set_history
from search.database import Database, MemoryDatabase
from search.find_schedule import FoundSchedule, find_schedule
from tensorir.errors import IRTypeError, IRValueError

if TYPE_CHECKING:
    from codegen import Target
    from tensorir.function import IRModule, PrimFunc

logger = logging.getLogger("tvm.meta_schedule")


def apply_database(
    mod: IRModule,
    database: Database,
    target: str | Target | None = None,
    *,
    module_equality: str | None = None,
) -> IRModule:
    """Return a module in which each function that a database has a schedule of is scheduled.

    The functions keep their names, parameters and attributes, and get `tir.is_scheduled`. Those
    without a record, those scheduled already, and those of a graph stay as they are, and so does
    `mod`. A line of the log says of each function how it was found; `find_schedules` returns that.

    `module_equality` takes the place of that of the database: with `"anchor-block"` a function
    without a record of its own gets the schedule of another one around the same anchor block.

    A schedule of a function with `layout_free_buffers` may pack weights in the function itself;
    `transform.SplitLayoutRewritePreproc` takes that out, and `codegen.vm_build` runs it.
    """
    found = find_schedules(mod, database, target, module_equality=module_equality)
    result = mod.clone()
    for name, schedule in found.items():
        if schedule is not None:
            result[name] = under_its_name(mod.prim_funcs()[name], schedule.func)
    return result


def find_schedules(
    mod: IRModule,
    database: Database,
    target: str | Target | None = None,
    *,
    module_equality: str | None = None,
) -> dict[str, FoundSchedule | None]:
    """Return by name what a database has of each function that can be scheduled, None for nothing.

    For the arguments see `apply_database`.
    """
    if module_equality is not None:
        database = _under(database, module_equality)
    return {
        name: _found(name, func, database, target)
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
    name: str, func: PrimFunc, database: Database, target: str | Target | None
) -> FoundSchedule | None:
    found = find_schedule(database, func, target, name)
    if found is not None:
        try:
            under_its_name(func, found.func)
        except (IRValueError, IRTypeError) as error:
            logger.warning(
                'Function "%s": the schedule that was found changes its parameters, and is not '
                "applied: %s",
                name,
                error,
            )
            return None
    logger.info('Function "%s": %s', name, found or "no schedule was found")
    return found


def _under(database: Database, module_equality: str) -> Database:
    """Return the best records of a database in one that tells programs apart otherwise."""
    other = MemoryDatabase(module_equality)
    database.dump_pruned(other, keep=4)
    return other


def _of_current(name: str, func: PrimFunc, target: Target) -> PrimFunc | None:
    """Return the scheduled form of a function that the current database has, None without one."""
    database = Database.current()
    if database is None:
        return None
    found = _found(name, func, database, target)
    return None if found is None else under_its_name(func, found.func)


set_history(_of_current)
