"""The test of whether a record of one workload serves another one: Ansor's rule, by their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.auto_scheduler.workload_registry import name_and_args


def compatible_factor(workload_key: str, recorded_key: str) -> float | None:
    """Return how many times the work of a recorded workload another one is, None if that is open.

    They are compatible if they have the same function and as many arguments, those within shapes
    counted, and each positive integer is a multiple of the recorded one, while all else is equal.
    The factor is the product of the ratios: shapes (8, 3, 224, 224) and (1, 3, 112, 112) give 32.

    The rule takes every integer for an extent. A stride is none, so a factor only orders records;
    whether a schedule fits a program is decided on the program, by `search.find_schedule`.
    """
    name, args = name_and_args(workload_key)
    recorded_name, recorded_args = name_and_args(recorded_key)
    wanted, recorded = list(_flat(args)), list(_flat(recorded_args))
    if name != recorded_name or len(wanted) != len(recorded):
        return None
    factor = 1.0
    for ours, theirs in zip(wanted, recorded, strict=True):
        if type(ours) is int and type(theirs) is int and ours > 0 and theirs > 0:
            if ours % theirs:
                return None
            factor *= ours // theirs
        elif type(ours) is not type(theirs) or ours != theirs:
            return None
    return factor


def _flat(value: Any) -> Iterator[Any]:
    """Yield the arguments and the elements of lists among them, in order."""
    for one in value:
        if isinstance(one, (list, tuple)):
            yield ("a list of", len(one))
            yield from _flat(one)
        else:
            yield one
