"""Warnings about functions without a schedule for their target, with the remedy."""

from __future__ import annotations

import logging
from collections import Counter
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
_MOST_COMPARED: Final = 200
"""A database with more programs is not searched for similar ones."""


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
            problem = _problem(database, program, wanted, known, in_detail=False)
            groups.setdefault(problem, []).append(name)
    for problem, (first, *others) in groups.items():
        if not others:
            program = normalize_mod(functions[first])
            problem = _problem(database, program, wanted, found[first], in_detail=True)
            logger.warning('Function "%s": %s', first, problem)
            continue
        names = [f'"{name}"' for name in (first, *others)[:_MOST_NAMED]]
        names += ["..."] * (len(others) >= _MOST_NAMED)
        logger.warning("%d functions (%s), each: %s", len(others) + 1, ", ".join(names), problem)


def _problem(
    database: Database,
    program: IRModule,
    wanted: Target,
    found: FoundSchedule | None,
    *,
    in_detail: bool,
) -> str:
    if found is not None:
        return (
            f"its schedule was found for {found.record.target}, as there is no record for "
            f"{wanted}; it computes the same there, and may be slower than one that is tuned for "
            "that"
        )
    contents = (_contents(member, program, wanted, in_detail) for member in database.members())
    return f"no schedule for {wanted}: {'; '.join(contents)}"


def _contents(database: Database, program: IRModule, wanted: Target, in_detail: bool) -> str:
    """Return the contents of a database without a usable record of a program, and the remedy.

    Without details the text is the same for many programs.
    """
    place = database.place
    count = len(database)
    if not count:
        return f"{place} has no records; check that this is the database of the search"
    own = database.tuning_records_of(Workload(program))
    if any(same_target(record.target, wanted) for record in own):
        return f"{place} has records of it, but none that succeeded and applies; tune it for longer"
    if own:
        targets = Counter(str(record.target) for record in own).most_common(_MOST_NAMED)
        named = ", ".join(f"{t} ({number})" if in_detail else t for t, number in targets)
        return (
            f"{place} has records of it for {named}; code for another CPU is not used: tune it for "
            "this target, or build for that one"
        )
    hint = _similar(database, program) if in_detail else ""
    return f"{place} has {count} record(s), all of other programs{hint}; tune it"


def _similar(database: Database, program: IRModule) -> str:
    """Return the option that finds records of similar programs, nothing without any."""
    if len(database.workloads()) > _MOST_COMPARED:
        return ""
    for equality, difference, option in (
        ("ignore-lengths", "other lengths", "include_compatible=True"),
        ("anchor-block", "the same reduction", 'module_equality="anchor-block"'),
    ):
        if database.records_like(program, None, equality):
            return f", of which one with {difference} may fit by {option}"
    return ""
