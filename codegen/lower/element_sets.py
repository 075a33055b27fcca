"""The elements that an access reaches, written out for all values of the variables around it.

Loops over threads have constant extents, and so do most loops inside of them. What two accesses
reach is then compared element by element, however quotients and remainders of the variables make
up the indices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorir.arith.linear import Linear, Terms
from tensorir.arith.linearize import Linearizer
from tensorir.arith.terms import reads_memory, variables_of
from tensorir.errors import IRTypeError
from tensorir.indices.index_values import index_values
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.stmt import For
from tensorir.rewriting.visit import collect_vars

MOST_POINTS: Final = 1 << 20
"""The most values of variables that are written out."""

Ints = NDArray[np.int64]
Grid = dict[Var, Ints]
"""The values of each variable; each variable has another dimension of the arrays."""


class Unknown(Exception):  # noqa: N818 - the caller assumes the worst
    """The values of an expression cannot be written out."""


def values(node: PrimExpr, grid: Mapping[Var, Ints]) -> Any:
    """Return the values of an integer expression or condition; Unknown for other expressions."""
    try:
        with np.errstate(divide="raise"):
            return index_values(node, grid)
    except (IRTypeError, FloatingPointError):
        raise Unknown from None


def constant_ranges(loops: Iterable[For]) -> dict[Var, range]:
    """Return the values of the variables of those loops whose bounds are constant."""
    return {
        loop.loop_var: range(loop.min.value, loop.min.value + loop.extent.value)
        for loop in loops
        if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)
    }


class Place(NamedTuple):
    """The indices of an access: a part that is written out, and one that is a symbol."""

    written_out: tuple[PrimExpr, ...]
    rest: tuple[Linear, ...]


def place_of(indices: Sequence[PrimExpr], variables: Collection[Var], linear: Linearizer) -> Place:
    """Return indices split into the terms of some variables and others; Unknown if they mix."""
    inner, outer = [], []
    for index in indices:
        if index.dtype.lanes > 1:
            raise Unknown
        read = linear(index)
        own: Terms = {}
        other: Terms = {}
        for term, coefficient in read.terms.items():
            used = [var in variables for var in variables_of(term)]
            if (any(used) and not all(used)) or reads_memory(term):
                raise Unknown
            (own if any(used) else other)[term] = coefficient
        inner.append(linear.write(Linear(own, 0), INT64))
        outer.append(Linear(other, read.const))
    return Place(tuple(inner), tuple(outer))


def distance(a: Place, b: Place) -> tuple[int, ...]:
    """Return by how much the second place is further on; Unknown if it depends on a symbol."""
    steps = [y.plus(x, -1) for x, y in zip(a.rest, b.rest, strict=True)]
    if any(step.terms for step in steps):
        raise Unknown
    return tuple(step.const for step in steps)


def grid_over(ranges: Mapping[Var, range], used: Sequence[PrimExpr]) -> Grid:
    """Return the values of the variables that expressions use; Unknown for too many."""
    variables = dict.fromkeys(var for node in used for var in collect_vars(node))
    grid, points = {}, 1
    for k, var in enumerate(variables):
        numbers = ranges.get(var)
        if numbers is None:
            raise Unknown
        points *= len(numbers)
        if points > MOST_POINTS:
            raise Unknown
        shape = [1] * len(variables)
        shape[k] = len(numbers)
        grid[var] = np.arange(numbers.start, numbers.stop, dtype=np.int64).reshape(shape)
    return grid


def restriction(conditions: Sequence[PrimExpr], grid: Grid) -> Any:
    """Return where the conditions hold whose variables are written out."""
    taken: Any = True
    for condition in conditions:
        try:
            taken = np.logical_and(taken, values(condition, grid))
        except Unknown:
            continue
    return taken


def rows(parts: Sequence[Any], taken: Any) -> Ints:
    """Return values as columns, a row for each point that is taken."""
    *columns, mask = np.broadcast_arrays(*parts, taken)
    chosen = np.asarray(mask, bool).reshape(-1)
    return np.stack([np.asarray(c, np.int64).reshape(-1)[chosen] for c in columns], axis=1)


def keys(*tables: Ints) -> list[Ints]:
    """Return a number for each row, equal for equal rows of all tables."""
    together = np.concatenate(tables)
    if not len(together):
        return [np.empty(0, np.int64) for _ in tables]
    low, high = together.min(axis=0), together.max(axis=0)
    found = []
    for table in tables:
        key = np.zeros(len(table), np.int64)
        for k in range(table.shape[1]):
            key = key * (high[k] - low[k] + 1) + table[:, k] - low[k]
        found.append(key)
    return found
