"""Fusing sums of pieces of iterators into single iterators.

A sum is one iterator if, from the innermost term outwards, the scale of each term is the product of
the extents below it: `i * 32 + j * 4 + k` with j below 8 and k below 4. Terms that a predicate
constrains together have the constrained extent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorir.arith.iter_term import Group, IterMark, IterSplitExpr, IterSumExpr, NoIterMapError
from tensorir.arith.linear import ZERO
from tensorir.arith.size import (
    Size,
    at_most,
    is_positive,
    larger,
    linear_of,
    plus_size,
    size_rank,
    smaller,
)


class Fuser:
    """Fuses sums into single iterators; equal sums give the same iterator.

    With `strict`, the terms of a sum may not overlap.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._marks: dict[tuple[Any, ...], IterMark] = {}
        self.groups: list[Group] = []

    def single(self, value: IterSumExpr) -> IterSumExpr:
        """Return a sum as one piece and a base. Raises NoIterMapError if that is impossible."""
        if len(value.args) < 2 and not (value.args and self.groups):
            return value
        terms = merge_pieces(list(value.args))
        if len(terms) == 1 and not self.groups:
            return IterSumExpr(tuple(terms), value.base)
        order = self._order(terms)
        if len(terms) == 1 and not order.groups:
            return IterSumExpr(tuple(terms), value.base)
        scale = order.scale
        relative = [s.scaled(s.scale // scale) for s in order.terms] if scale != 1 else order.terms
        mark = self.mark(relative, order.extent, 0 - order.low, tuple(order.groups))
        piece = IterSplitExpr(mark, 1, order.extent, scale)
        return IterSumExpr((piece,), plus_size(value.base, order.low * scale))

    def mark(
        self, terms: list[IterSplitExpr], extent: Size, base: Size, groups: tuple[Group, ...] = ()
    ) -> IterMark:
        """Return the iterator for a sum of terms and a base."""
        key = (extent, base, *groups, *[(*s.key, s.scale) for s in terms])
        mark = self._marks.get(key)
        if mark is None:
            total = IterSumExpr(tuple(terms), linear_of(base) if base else ZERO)
            mark = self._marks[key] = IterMark(total, extent, groups=groups)
        return mark

    def constrain(self, value: IterSumExpr, low: Size | None, high: Size | None) -> None:
        """Constrain the terms of a sum to values from `low` to `high`.

        Raises NoIterMapError if there are provably no such values, or if none can be proved to
        exist.
        """
        terms = merge_pieces(list(value.args))
        if not terms:
            if (low is None or at_most(low, 0)) and (high is None or at_most(0, high)):
                return
            raise NoIterMapError("a predicate without iterators is not known to hold")
        order = self._order(terms)
        if order.scale != 1:
            raise NoIterMapError("a predicate constrains a scaled iterator")
        least, most = order.low, order.low + order.extent - 1
        first = least if low is None else larger(low, least)
        last = most if high is None else smaller(high, most)
        if first == least and last == most:
            return
        if at_most(last + 1, first):
            raise NoIterMapError("the predicate never holds")
        keys = {s.key for s in order.terms}
        for group in self.groups:
            known = {s.key for s in group.terms}
            if keys & known and not keys >= known:
                raise NoIterMapError("constraints overlap without being nested")
        self.groups.append(Group(order.terms, first, last - first + 1, tuple(order.groups)))

    def _order(self, terms: list[IterSplitExpr]) -> _OrderedTerms:
        """Return terms such that each scale is the extent of the terms below.

        Raises NoIterMapError if such an order does not exist.
        """
        left = _sort_innermost_first(terms)
        scale = left[0].scale
        if not is_positive(scale):
            if len(left) == 1:
                return _OrderedTerms(left, scale, left[0].extent, 0, [])
            raise NoIterMapError("iterators with negative scales are added")
        picked: list[IterSplitExpr] = []
        groups: list[Group] = []
        expected: Size = scale
        low: Size = 0
        total_overlap: Size = 0
        while left:
            term = left[0]
            if term.scale != expected:
                term, overlap = self._next_term(left, expected, scale)
                total_overlap = total_overlap + overlap
            group = self._group_ending_in(term, left) if self.groups else None
            if group is None:
                left.remove(term)
                picked.append(term)
                expected = term.extent * term.scale
            else:
                groups.append(group)
                keys = {s.key for s in group.terms}
                left = [s for s in left if s.key not in keys]
                picked.extend(s.scaled(s.scale * term.scale) for s in reversed(group.terms))
                low = low + group.low * term.scale // scale
                expected = group.extent * term.scale
        picked.reverse()
        return _OrderedTerms(picked, scale, expected // scale + total_overlap, low, groups)

    def _next_term(
        self, left: list[IterSplitExpr], expected: Size, base_scale: Size
    ) -> tuple[IterSplitExpr, Size]:
        """Return the next term, which has scale `expected` or overlaps, and its overlap."""
        for term in left:
            if term.scale == expected:
                return term, 0
        if not self._strict and base_scale == 1:
            for term in reversed(left):
                if is_positive(term.scale) and at_most(term.scale, expected):
                    return term, expected - term.scale
        raise NoIterMapError("the scales of added iterators leave gaps")

    def _group_ending_in(self, term: IterSplitExpr, left: list[IterSplitExpr]) -> Group | None:
        """Return the largest constrained group whose innermost term is `term`, if complete."""
        key = term.key
        for group in reversed(self.groups):
            if group.terms[-1].key != key:
                continue
            present = {s.key: s.scale for s in left}
            if all(present.get(s.key) == s.scale * term.scale for s in group.terms):
                return group
        return None


@dataclass(slots=True)
class _OrderedTerms:
    """Terms from the outermost to the innermost, and the range of their sum.

    The sum runs over `[low, low + extent)`, in units of the `scale` of the innermost term, if the
    sum of each of `groups` is constrained accordingly.
    """

    terms: list[IterSplitExpr]
    scale: Size
    extent: Size
    low: Size
    groups: list[Group]


def _sort_innermost_first(terms: list[IterSplitExpr]) -> list[IterSplitExpr]:
    """Return terms sorted from the innermost to the outermost.

    The first term is the unit of the sum: it has the smallest scale, or the fewest symbolic factors
    if no scale is constant. Among equal scales the last term comes first, but a term of a single
    value precedes the others.
    """
    left = terms[::-1]
    left.sort(key=lambda s: (size_rank(s.scale), s.extent != 1))
    return left


def merge_pieces(terms: list[IterSplitExpr]) -> list[IterSplitExpr]:
    """Join adjacent pieces of one iterator: `x // 4 * 4 + x % 4` is `x`."""
    merged = len(terms) > len({s.source for s in terms})
    while merged and len(terms) > 1:
        merged = False
        for high in terms:
            for low in terms:
                if (
                    high is not low
                    and high.source is low.source
                    and high.lower_factor == low.lower_factor * low.extent
                    and high.scale == low.scale * low.extent
                ):
                    joined = IterSplitExpr(
                        low.source, low.lower_factor, low.extent * high.extent, low.scale
                    )
                    terms = [joined if t is high else t for t in terms if t is not low]
                    merged = True
                    break
            if merged:
                break
    return terms
