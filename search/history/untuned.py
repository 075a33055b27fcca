"""Warnings about functions without a schedule for their target, with the remedy."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from codegen import Target
from codegen.target import as_target
from search.database.database import Database
from search.database.records import Workload
from search.database.target_key import same_target, target_key
from search.history.find_schedule import FoundSchedule
from search.task import normalize_mod, with_num_cores
from tensorir.comparison.structural_hash import structural_hash
from tensorir.function import IRModule, PrimFunc

logger = logging.getLogger("tensorir.search")

_MOST_NAMED: Final = 3


def warn_if_untuned(
    database: Database,
    functions: Mapping[str, IRModule | PrimFunc],
    target: str | Target | None,
    found: Mapping[str, FoundSchedule | None],
) -> None:
    """Warn about functions without a schedule, or with one for another number of cores.

    The warning has the contents of the database and the remedy. It comes once for each program and
    target, in one line for all functions with the same problem. A database without records, such as
    a function, gives no warning.
    """
    wanted = with_num_cores(as_target(target))
    groups: dict[str, list[str]] = {}
    for name, func in functions.items():
        program, known = normalize_mod(func), found[name]
        is_tuned = known is not None and (
            known.how == "sampled" or same_target(known.record.target, wanted)
        )
        if is_tuned or not database.members():
            continue
        if database.should_warn(str(structural_hash(program)), target_key(wanted)):
            groups.setdefault(_problem(database, program, wanted, known), []).append(name)
    for problem, names in groups.items():
        if len(names) == 1:
            logger.warning('Function "%s": %s', names[0], problem)
            continue
        named = [f'"{name}"' for name in names[:_MOST_NAMED]]
        named += ["..."] * (len(names) > _MOST_NAMED)
        logger.warning("%d functions (%s), each: %s", len(names), ", ".join(named), problem)


def _problem(
    database: Database, program: IRModule, wanted: Target, found: FoundSchedule | None
) -> str:
    if found is not None:
        return (
            f"its schedule was found for {found.record.target}, as there is no record for "
            f"{wanted}; it computes the same there, and may be slower than one that is tuned for "
            "that"
        )
    contents = (_contents(member, program, wanted) for member in database.members())
    return f"no schedule for {wanted}: {'; '.join(contents)}"


def _contents(database: Database, program: IRModule, wanted: Target) -> str:
    """Return the contents of a database without a usable record of a program, and the remedy."""
    place = database.place
    count = len(database)
    if not count:
        return f"{place} has no records; check that this is the database of the search"
    own = database.tuning_records_of(Workload(program))
    if any(same_target(record.target, wanted) for record in own):
        return f"{place} has records of it, but none that succeeded and applies; tune it for longer"
    if own:
        targets = list(dict.fromkeys(str(record.target) for record in own))
        return (
            f"{place} has records of it for {', '.join(targets[:_MOST_NAMED])}; code for another "
            "CPU is not used: tune it for this target, or build for that one"
        )
    return f"{place} has {count} record(s), all of other programs; tune it"
