"""Dividing index expressions between an outer and an inner part of a loop nest.

If some of the loops are to become a separate space, each index must be
`outer * extent + inner`: `inner` takes the values `[0, extent)` over the inner loops alone, and
`outer` does not use them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.iter_independence import IterMapLevel
from tensorir.arith.iter_map import detect_iter_map
from tensorir.arith.iter_term import Group, IterMark, IterSplitExpr, IterSumExpr
from tensorir.arith.linear import ZERO, Linear
from tensorir.arith.size import Size, at_most
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import And, PrimExpr, Var
from tensorir.nodes.ops import TRUE, as_expr, logical_and
from tensorir.rewriting.visit import collect_vars

_NOTHING = IterSumExpr((), ZERO)


@dataclass(frozen=True, slots=True)
class DividedIndex:
    """An index as `outer * inner_extent + inner + base`."""

    outer: IterSumExpr
    outer_extent: Size
    inner: IterSumExpr
    inner_extent: Size
    base: Linear


@dataclass(frozen=True, slots=True)
class SubspaceDivision:
    """The indices divided, and the conditions on each of the two parts."""

    parts: tuple[DividedIndex, ...]
    outer_predicate: PrimExpr
    inner_predicate: PrimExpr


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    sub_iters: Collection[Var],
    predicate: PrimExpr | bool = TRUE,
    check_level: IterMapLevel | str = IterMapLevel.SURJECTIVE,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> SubspaceDivision | None:
    """Divide indices over `input_iters` into parts over `sub_iters` and over the other iterators.

    Returns None if the indices are not independent pieces of the iteration space, if one
    interleaves the two parts, or if a conjunct of the predicate relates them.
    """
    inside = frozenset(sub_iters)
    outside = [var for var in input_iters if var not in inside]
    predicate = as_expr(predicate)
    sides = divide_predicate(predicate, outside, inside)
    if sides is None:
        return None
    found = detect_iter_map(
        bindings, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer
    )
    if len(found.indices) != len(bindings):
        return None
    parts = []
    for index in found.indices:
        part = _divide_index(index, inside)
        if part is None:
            return None
        parts.append(part)
    return SubspaceDivision(tuple(parts), *sides)


def divide_predicate(
    predicate: PrimExpr, outer: Collection[Var], inner: Collection[Var]
) -> tuple[PrimExpr, PrimExpr] | None:
    """Return the conjuncts on outer and on inner iterators.

    Return None if a conjunct contains both kinds.
    """
    if isinstance(predicate, And):
        first = divide_predicate(predicate.a, outer, inner)
        second = divide_predicate(predicate.b, outer, inner)
        if first is None or second is None:
            return None
        return logical_and(first[0], second[0]), logical_and(first[1], second[1])
    used = collect_vars(predicate)
    on_outer = any(var in outer for var in used)
    on_inner = any(var in inner for var in used)
    if on_outer and on_inner:
        return None
    return (TRUE, predicate) if on_inner else (predicate, TRUE)


def _divide_index(index: IterSumExpr, inside: Collection[Var]) -> DividedIndex | None:
    if not index.args:
        return DividedIndex(_NOTHING, 1, _NOTHING, 1, index.base)
    (piece,) = index.args
    if piece.scale != 1:
        return None
    divided = _divide_piece(piece, inside)
    if divided is None:
        return None
    (outer, outer_extent), (inner, inner_extent) = divided
    return DividedIndex(outer, outer_extent, inner, inner_extent, index.base)


_Part = tuple[IterSumExpr, Size]
"""A sum that takes the values 0 to n - 1, and n."""


def _divide_piece(piece: IterSplitExpr, inside: Collection[Var]) -> tuple[_Part, _Part] | None:
    """Divide `(mark // lower) % extent`, for any scale."""
    whole = (IterSumExpr((piece.scaled(1),), ZERO), piece.extent)
    used = _iterators(piece.source)
    if not any(var in inside for var in used):
        return whole, (_NOTHING, 1)
    if all(var in inside for var in used):
        return (_NOTHING, 1), whole
    divided = _divide_mark(piece.source, inside)
    if divided is None:
        return None
    if piece.is_whole:
        return divided
    (outer, outer_extent), (inner, inner_extent) = divided
    lower, end = piece.lower_factor, piece.lower_factor * piece.extent
    if inner_extent % end == 0:
        return (_NOTHING, 1), (
            _extract_piece(inner, inner_extent, lower, piece.extent),
            piece.extent,
        )
    if lower % inner_extent == 0:
        taken = _extract_piece(outer, outer_extent, lower // inner_extent, piece.extent)
        return (taken, piece.extent), (_NOTHING, 1)
    reaches_top = at_most(piece.source.extent, end)
    if inner_extent % lower != 0 or (end % inner_extent != 0 and not reaches_top):
        return None
    above = outer_extent if reaches_top else end // inner_extent
    below = inner_extent // lower
    return (
        (_extract_piece(outer, outer_extent, 1, above), above),
        (_extract_piece(inner, inner_extent, lower, below), below),
    )


def _extract_piece(value: IterSumExpr, extent: Size, lower: Size, count: Size) -> IterSumExpr:
    """Return `(value // lower) % count` for a value in `[0, extent)`."""
    if lower == 1 and count == extent:
        return value
    return IterSumExpr((IterSplitExpr(IterMark(value, extent), lower, count, 1),), ZERO)


def _divide_mark(mark: IterMark, inside: Collection[Var]) -> tuple[_Part, _Part] | None:
    """Divide a fused sum that uses iterators of both parts.

    Terms that a predicate constrains together must be in one part.
    """
    source = mark.source
    assert isinstance(source, IterSumExpr)
    if source.base.terms or source.base.const:
        return None
    grouped = {term.key: group for group in mark.groups for term in group.terms}
    outer: list[IterSplitExpr] = []
    inner: list[IterSplitExpr] = []
    inner_extent: Size = 1
    count: Size = 1
    left = list(source.args)
    while left:
        term = left.pop()
        group = grouped.get(term.key)
        if group is None:
            divided = _divide_piece(term, inside)
            count = count * term.extent
        else:
            divided = _as_one_side(group, inside)
            count = count * group.extent
            left = [other for other in left if grouped.get(other.key) is not group]
        if divided is None:
            return None
        (above, _), (below, below_extent) = divided
        if below.args:
            if outer or term.scale != inner_extent:
                return None
            inner[:0] = [s.scaled(s.scale * term.scale) for s in below.args]
            inner_extent = inner_extent * below_extent
        if above.args:
            scale = term.scale * below_extent
            if scale % inner_extent != 0:
                return None
            scale = scale // inner_extent
            outer[:0] = [s.scaled(s.scale * scale) for s in above.args]
    if count != mark.extent or mark.extent % inner_extent != 0:
        return None  # The terms overlap, or a predicate constrains them all together.
    outer_extent = mark.extent // inner_extent
    return (
        (IterSumExpr(tuple(outer), ZERO), outer_extent),
        (IterSumExpr(tuple(inner), ZERO), inner_extent),
    )


def _as_one_side(group: Group, inside: Collection[Var]) -> tuple[_Part, _Part] | None:
    """Return the terms of a group as part of the side that contains them; None if both sides do."""
    sides = {var in inside for term in group.terms for var in _iterators(term.source)}
    if group.low != 0 or len(sides) > 1:
        return None
    whole = IterSumExpr(tuple(group.terms), ZERO), group.extent
    nothing = _NOTHING, 1
    return (nothing, whole) if sides == {True} else (whole, nothing)


def _iterators(mark: IterMark) -> list[Var]:
    if isinstance(mark.source, Var):
        return [mark.source]
    return [var for piece in mark.source.args for var in _iterators(piece.source)]
