"""Fusing sums of pieces of iterators into single iterators.

A sum is one iterator if, from the innermost term outwards, the scale of each term is what all terms
below it count up to: `i * 32 + j * 4 + k` with j below 8 and k below 4. Terms that a predicate
constrains together count as far as it lets them.
"""

from __future__ import annotations

from typing import Any

from tensorir.arith.iter_term import IterMark, IterSplitExpr, IterSumExpr, NoIterMapError
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


class Group:
    """Terms that a predicate constrains together: they run over `extent` values from `low`."""

    __slots__ = ("extent", "low", "met", "terms")

    def __init__(self, terms: list[IterSplitExpr], low: Size, extent: Size) -> None:
        self.terms = terms
        self.met = False
        """Whether an index contains the terms as a whole."""
        self.low = low
        self.extent = extent


class Fuser:
    """Makes single iterators of sums; equal sums give the same iterator.

    With `strict`, the terms of a sum may not overlap.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._marks: dict[tuple[Any, ...], IterMark] = {}
        self.groups: list[Group] = []

    @property
    def marks(self) -> list[IterMark]:
        """The iterators made so far."""
        return list(self._marks.values())

    def single(self, value: IterSumExpr) -> IterSumExpr:
        """Return a sum as one piece and a base; NoIterMapError if it is none."""
        if not value.args or (len(value.args) == 1 and not self.groups):
            return value
        terms = _merge_pieces(list(value.args))
        if len(terms) == 1 and not self.groups:
            return IterSumExpr(tuple(terms), value.base)
        ordered, base_scale, extent, low = self._order(terms)
        if len(ordered) == 1 and extent == ordered[0].extent:
            return IterSumExpr((ordered[0],), value.base)
        relative = [s.scaled(s.scale // base_scale) for s in ordered]
        mark = self.mark(relative, extent, 0 - low)
        piece = IterSplitExpr(mark, 1, extent, base_scale)
        return IterSumExpr((piece,), plus_size(value.base, low * base_scale))

    def mark(self, terms: list[IterSplitExpr], extent: Size, base: Size) -> IterMark:
        """Return the iterator that stands for a sum of terms and a base."""
        key = (extent, base, *((*s.key, s.scale) for s in terms))
        mark = self._marks.get(key)
        if mark is None:
            mark = IterMark(IterSumExpr(tuple(terms), linear_of(base) if base else ZERO), extent)
            self._marks[key] = mark
        return mark

    def constrain(self, value: IterSumExpr, low: Size | None, high: Size | None) -> None:
        """Note that the terms of a sum only take values from `low` to `high`."""
        terms = _merge_pieces(list(value.args))
        if not terms:
            return
        ordered, scale, extent, least = self._order(terms)
        if scale != 1:
            raise NoIterMapError("a predicate constrains a scaled iterator")
        most = least + extent - 1
        first = least if low is None else larger(low, least)
        last = most if high is None else smaller(high, most)
        if at_most(last + 1, first):
            raise NoIterMapError("the predicate never holds")
        keys = {s.key for s in ordered}
        for group in self.groups:
            known = {s.key for s in group.terms}
            if keys & known and not keys >= known:
                raise NoIterMapError("constraints overlap without being nested")
        self.groups.append(Group(ordered, first, last - first + 1))

    def _order(self, terms: list[IterSplitExpr]) -> tuple[list[IterSplitExpr], Size, Size, Size]:
        """Return terms from the outermost to the innermost, their scale, extent and least value.

        The extent and the least value are in units of the innermost term's scale.
        """
        left = list(terms)
        start = _innermost(left)
        base_scale = left[start].scale
        if not is_positive(base_scale):
            if len(left) == 1:
                return left, base_scale, left[0].extent, 0
            raise NoIterMapError("iterators with negative scales are added")
        picked: list[IterSplitExpr] = []
        expected: Size = base_scale
        low: Size = 0
        slack: Size = 0
        first = True
        while left:
            following = start if first else _next(left, expected)
            overlap: Size = 0
            if following is None:
                following, overlap = self._overlapping(left, expected, base_scale)
            first = False
            term = left[following]
            slack = slack + overlap
            group = self._group_ending_in(term, left) if self.groups else None
            if group is None:
                left.pop(following)
                picked.append(term)
                expected = term.extent * term.scale
            else:
                group.met = True
                factor = term.scale
                keys = {s.key for s in group.terms}
                taken = [s for s in left if s.key in keys]
                taken.sort(key=lambda s: size_rank(s.scale))
                left = [s for s in left if s.key not in keys]
                picked.extend(taken)
                low = low + group.low * factor // base_scale
                expected = group.extent * factor
        picked.reverse()
        return picked, base_scale, expected // base_scale + slack, low

    def _overlapping(
        self, left: list[IterSplitExpr], expected: Size, base_scale: Size
    ) -> tuple[int, Size]:
        """Return a term whose values overlap with those of the terms below, and by how much."""
        if not self._strict and base_scale == 1:
            candidates = [
                k for k, s in enumerate(left) if is_positive(s.scale) and at_most(s.scale, expected)
            ]
            if candidates:
                k = max(candidates, key=lambda c: size_rank(left[c].scale))
                return k, expected - left[k].scale
        raise NoIterMapError("the scales of added iterators leave gaps")

    def _group_ending_in(self, term: IterSplitExpr, left: list[IterSplitExpr]) -> Group | None:
        """Return the largest constrained group whose innermost term is `term`, if all are there."""
        key = term.key
        for group in reversed(self.groups):
            if group.terms[-1].key != key:
                continue
            present = {s.key: s.scale for s in left}
            if all(present.get(s.key) == s.scale * term.scale for s in group.terms):
                return group
        return None


def _innermost(terms: list[IterSplitExpr]) -> int:
    """Return the position of the term that a sum counts in units of.

    That is the one of the smallest scale, or of the fewest symbolic factors if no scale is
    constant; of equal ones the last, but one of a single value before others.
    """
    start = len(terms) - 1
    if start == 0:
        return 0
    least = size_rank(terms[start].scale)
    for k in range(start - 1, -1, -1):
        rank = size_rank(terms[k].scale)
        if rank < least or (rank == least and terms[k].extent == 1 != terms[start].extent):
            start, least = k, rank
    return start


def _next(left: list[IterSplitExpr], expected: Size) -> int | None:
    """Return the position of the term that continues at scale `expected`."""
    found: int | None = None
    for k in range(len(left) - 1, -1, -1):
        if left[k].scale != expected:
            continue
        if left[k].extent == 1:
            return k
        if found is None:
            found = k
    return found


def _merge_pieces(terms: list[IterSplitExpr]) -> list[IterSplitExpr]:
    """Join neighbouring pieces of one iterator: `x // 4 * 4 + x % 4` is `x`."""
    merged = True
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
