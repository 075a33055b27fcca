"""Index maps as layouts: their inverses, and their padding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from schedule.analysis.bindings import analyzer_with_ranges
from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import NE, IntImm, PrimExpr, Var
from tensorir.nodes.ops import (
    FALSE,
    all_of,
    compare,
    const,
    is_const_int,
    logical_not,
    logical_or,
    mul,
)
from tensorir.rewriting.visit import substitute

WRONG_ARITY = Problem(
    "IndexMapNotApplicableToBlockIterError",
    "the index map takes {given} indices, but {0} has {count} axes",
    "take one parameter for each axis of the block",
)


def map_of_axes(index_map: IndexMap, block: StmtSRef) -> IndexMap:
    """Return an index map in the types of a block's axes; raise unless it takes all of them."""
    axes = block.block.iter_vars
    given, count = len(index_map.initial_indices), len(axes)
    check(given == count, WRONG_ARITY, block, given=given, count=count)
    return index_map.retyped([axis.var.dtype for axis in axes])


@dataclass(frozen=True)
class LayoutMap:
    """An injective index map on a box.

    `shape` are the extents of the target box, which starts at 0. `padding` is the condition, on
    `inverse.initial_indices`, for places that hold no element.
    """

    index_map: IndexMap
    shape: tuple[PrimExpr, ...]
    padding: PrimExpr
    find_inverse: Callable[[], IndexMap]

    @cached_property
    def inverse(self) -> IndexMap:
        """The map from a place back to its point."""
        return self.find_inverse()

    @property
    def has_padding(self) -> bool:
        """True if some places may hold no element."""
        return not is_const_int(self.padding, 0)


def analyze_layout(
    index_map: IndexMap, ranges: Sequence[Range], *, trusted: bool = False
) -> LayoutMap:
    """Return `index_map` as a layout of the points of a box.

    Raises IRValueError if the map is not proved injective, or does not map into a box that starts
    at 0. A `trusted` map is assumed to be bijective.
    """
    shuffled = None if trusted else _shuffle(index_map, ranges)
    if shuffled is not None:
        return shuffled

    def inverse() -> IndexMap:
        return index_map.inverse_index_map or index_map.non_surjective_inverse(ranges)[0]

    plain = None
    if not trusted and index_map.inverse_index_map is None:
        plain = index_map.bijective_ranges(ranges)
    fits = plain is not None and _same_size(plain, ranges)
    mapped = plain if plain is not None and fits else index_map.map_ranges(ranges)
    analyzer = Analyzer()
    for values in mapped:
        if not analyzer.can_prove_equal(values.min, const(0, values.min.dtype)):
            raise IRValueError(f"its results start at {values.min}, not at 0")
    shape = tuple(r.extent for r in mapped)
    if trusted or fits:
        return LayoutMap(index_map, shape, FALSE, inverse)
    known = check_injective(index_map, ranges)
    return LayoutMap(index_map, shape, _padding(index_map, known, ranges, mapped), lambda: known)


def check_injective(index_map: IndexMap, ranges: Sequence[Range]) -> IndexMap:
    """Return the inverse of an index map that is injective on a box.

    Raises IRValueError if injectivity is not proved.
    """
    inverse = index_map.inverse_index_map or index_map.non_surjective_inverse(ranges)[0]
    _check_inverse(index_map, inverse, ranges)
    return inverse


def _shuffle(index_map: IndexMap, ranges: Sequence[Range]) -> LayoutMap | None:
    """Return the layout of a permutation of indices; None for any other map."""
    order = index_map.final_indices
    if len(order) != len(ranges) or set(order) != set(index_map.initial_indices):
        return None
    if not all(is_const_int(r.min, 0) for r in ranges):
        return None
    place = {v: k for k, v in enumerate(order)}
    outputs = [Var(f"axis{k}", v.dtype) for k, v in enumerate(order)]
    inverse = IndexMap(outputs, [outputs[place[v]] for v in index_map.initial_indices])
    extents = dict(zip(index_map.initial_indices, (r.extent for r in ranges), strict=True))
    shape = tuple(extents[v] for v in order if isinstance(v, Var))
    return LayoutMap(index_map, shape, FALSE, lambda: inverse)


def _check_inverse(index_map: IndexMap, inverse: IndexMap, ranges: Sequence[Range]) -> None:
    """Raise unless the inverse maps the image of every point of the box back to the point."""
    analyzer = analyzer_with_ranges(dict(zip(index_map.initial_indices, ranges, strict=True)))
    there = {
        place: index.astype(place.dtype)
        for place, index in zip(inverse.initial_indices, index_map.final_indices, strict=True)
    }
    for var, way in zip(index_map.initial_indices, inverse.final_indices, strict=True):
        value = substitute(way, there)
        if not analyzer.can_prove_equal(value, var):
            raise IRValueError(
                f"different values of {var.name} may be mapped to one place: the inverse gives "
                f"`{analyzer.simplify(value)}`"
            )


def _padding(
    index_map: IndexMap, inverse: IndexMap, ranges: Sequence[Range], mapped: Sequence[Range]
) -> PrimExpr:
    """Return the condition on places to which no point of the box is mapped."""
    if _same_size(mapped, ranges):
        return FALSE
    analyzer = analyzer_with_ranges(dict(zip(inverse.initial_indices, mapped, strict=True)))
    padding: PrimExpr = FALSE
    inside: list[PrimExpr] = []
    for value, limits in zip(inverse.final_indices, ranges, strict=True):
        end = limits.min + limits.extent
        for outside in (value < limits.min, value >= end):
            padding = logical_or(padding, analyzer.simplify(outside))
        inside += [value >= limits.min, value < end]
    there = dict(zip(index_map.initial_indices, inverse.final_indices, strict=True))
    for place, final in zip(inverse.initial_indices, index_map.final_indices, strict=True):
        elsewhere = compare(NE, substitute(final, there), place)
        with analyzer.constraint_scope(all_of(inside)):
            if analyzer.can_prove(logical_not(elsewhere)):
                continue
        padding = logical_or(padding, analyzer.simplify(elsewhere))
    return padding


def _same_size(a: Sequence[Range], b: Sequence[Range]) -> bool:
    """Return True if two boxes provably have the same number of points."""
    sizes = _size(a), _size(b)
    if sizes != (None, None):
        return sizes[0] == sizes[1]
    products = (reduce(mul, (r.extent for r in box)) for box in (a, b))
    return Analyzer().can_prove_equal(*products)


def _size(ranges: Sequence[Range]) -> int | None:
    """Return the number of points of a box, None if it is not constant."""
    extents = [r.extent for r in ranges]
    known = [n.value for n in extents if isinstance(n, IntImm)]
    return math.prod(known) if len(known) == len(extents) else None
