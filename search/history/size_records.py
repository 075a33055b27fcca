"""The records in a database that serve a function with symbolic sizes: those of static programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import inf, prod
from typing import NamedTuple

from search.database import Database
from search.history.find_schedule import FoundSchedule
from search.history.symbolic_sizes import (
    MOST_VARIANTS,
    decisions,
    representative_sizes,
    sizes_in,
    with_sizes,
)
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import Var


class SizedSchedule(NamedTuple):
    """A schedule of a function with numbers for its symbolic sizes."""

    sizes: Mapping[Var, int]
    found: FoundSchedule


def find_schedules_of_sizes(
    database: Database, func: PrimFunc, find: Callable[[IRModule], FoundSchedule | None]
) -> list[SizedSchedule]:
    """Return the schedules that `find` finds of a function for numbers, smallest first.

    The numbers are those that a database has records of, else the representative sizes. If there
    are more than four, of two similar sizes in the same case only the larger one is kept.
    """
    found = [
        SizedSchedule(sizes, one)
        for sizes in _recorded_sizes(database, func) or representative_sizes(func)
        if (one := find(with_sizes(func, sizes))) is not None
    ]
    found.sort(key=_size)
    while len(found) > MOST_VARIANTS:
        ratios = [_ratio(func, smaller.sizes, larger.sizes) for smaller, larger in pairwise(found)]
        del found[ratios.index(min(ratios))]
    return found


def _recorded_sizes(database: Database, func: PrimFunc) -> list[dict[Var, int]]:
    """Return the sizes for which a function has the shapes of a program of a database."""
    found: list[dict[Var, int]] = []
    for some in representative_sizes(func):
        for workload in database.workloads_like(with_sizes(func, some), "ignore-lengths"):
            static = list(workload.mod.prim_funcs().values())
            sizes = sizes_in(func, static[0]) if len(static) == 1 else None
            if sizes is not None and sizes not in found:
                found.append(sizes)
    return found


def _size(schedule: SizedSchedule) -> int:
    return prod(schedule.sizes.values())


def _ratio(func: PrimFunc, smaller: Mapping[Var, int], larger: Mapping[Var, int]) -> float:
    """Return how much larger some sizes are; infinity for those of other cases."""
    if decisions(func, smaller) != decisions(func, larger):
        return inf
    return prod(larger.values()) / prod(smaller.values())
