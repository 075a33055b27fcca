"""The warnings of a database that has no schedule for a program, or one for other cores."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from codegen.target import as_target
from search.context import normalize_mod, with_num_cores
from search.database.keyed_database import KeyedDatabase
from search.database.records import Workload
from search.database.target_key import same_target, target_key
from tensorir.comparison.structural_hash import structural_hash

if TYPE_CHECKING:
    from codegen import Target
    from search.database import Database
    from search.dispatch.find_schedule import FoundSchedule
    from tensorir.function import IRModule, PrimFunc

logger = logging.getLogger("tensorir.search")

_MOST_NAMED: Final = 3
_MOST_COMPARED: Final = 200
"""Among so many programs those are looked for that are like the one that was asked for."""


def say_if_missing(
    database: Database,
    mod: IRModule | PrimFunc,
    target: str | Target | None,
    name: str,
    found: FoundSchedule | None,
) -> None:
    """Warn that a function has no schedule, or one that was found for another number of cores.

    The warning says what the database has instead, and what to do. It comes once for each program
    and target. A database that holds no records, a function say, is not talked of.
    """
    program = normalize_mod(mod)
    wanted = with_num_cores(as_target(target))
    members = database.members()
    is_own = found is not None and same_target(found.record.target, wanted)
    if not members or is_own or (found is not None and found.how == "sampled"):
        return
    if not database.is_first_time(str(structural_hash(program)), target_key(wanted)):
        return
    if found is not None:
        logger.warning(
            'Function "%s": its schedule was found for %s, as there is no record for %s; it '
            "computes the same there, and may be slower than one that is tuned for that",
            name,
            found.record.target,
            wanted,
        )
        return
    holdings = "; ".join(_holdings(member, program, wanted) for member in members)
    logger.warning('Function "%s": no schedule for %s: %s', name, wanted, holdings)


def _holdings(database: Database, program: IRModule, wanted: Target) -> str:
    """Return a text on the contents of a database without a record of a program, with a remedy."""
    place = database.place
    count = len(database)
    if not count:
        return f"{place} has no records; see that this is the database that was tuned into"
    own = database.tuning_records_of(Workload(program))
    if any(same_target(record.target, wanted) for record in own):
        return (
            f"{place} has {len(own)} record(s) of it, none of which succeeded and applies; tune it "
            "for longer"
        )
    if own:
        targets = Counter(str(record.target) for record in own).most_common(_MOST_NAMED)
        named = ", ".join(f"{target} ({number})" for target, number in targets)
        return (
            f"{place} has records of it for {named}; code for another CPU is not used: tune it for "
            "this target, or build for that one"
        )
    return f"{place} has {count} record(s), all of other programs{_near(database, program)}"


def _near(database: Database, program: IRModule) -> str:
    """Return a text on the programs of a database that are like one, with a remedy."""
    if not isinstance(database, KeyedDatabase) or len(database.workloads()) > _MOST_COMPARED:
        return "; tune this one"
    for equality, likeness, option in (
        ("ignore-lengths", "but for its lengths", "include_compatible=True"),
        ("anchor-block", "around the same reduction", 'module_equality="anchor-block"'),
    ):
        like = database.workloads_like(program, equality)
        if like:
            shapes = ", ".join(_shapes(workload.mod) for _, workload in like[:_MOST_NAMED])
            more = ", ..." if len(like) > _MOST_NAMED else ""
            return (
                f", the same {likeness} for {shapes}{more}; tune this one, or see whether "
                f"{option} makes a schedule of theirs fit"
            )
    return "; tune this one"


def _shapes(mod: IRModule) -> str:
    """Return the shapes of the parameters of a program of one function."""
    (func,) = mod.prim_funcs().values()
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    shapes = ("x".join(map(str, buffer.shape)) or "scalar" for buffer in buffers)
    return f"({', '.join(shapes)})"
