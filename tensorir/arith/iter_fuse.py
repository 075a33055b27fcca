"""Fusing a sum of pieces to one iterator.

`i * 12 + j * 4 + k` with `j < 3`, `k < 4` takes every value from 0 to `12 * extent(i) - 1` exactly
once: it is itself an iterator. The terms fit if, starting from the smallest scale, the scale of
each is the extent times the scale of the one before. A predicate such as `j * 4 + k < 10` makes a
*group* of terms whose joint extent is smaller than the product of their extents; a sum that
contains the terms takes the group as a whole.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tensorir.arith.iter_term import IterMark, IterSplitExpr, IterSumExpr, NotAffineError
from tensorir.arith.scalar import Scalar, ScalarMath
from tensorir.expr import Mul, PrimExpr

Key: TypeAlias = tuple[Any, ...]


class FusedSum:
    """An iterator that stands for a sum: `flat`, outermost first, is `mark + offset`."""

    __slots__ = ("flat", "mark", "offset")

    def __init__(self, flat: tuple[IterSplitExpr, ...], mark: IterMark, offset: Scalar) -> None:
        self.flat = flat
        self.mark = mark
        self.offset = offset

    def constrain(self, low: Scalar | None, high: Scalar | None, math: ScalarMath) -> None:
        """Keep only the values from `low` to below `high`; None for no limit.

        Raises NotAffineError if no value is left.
        """
        first: Scalar = self.offset
        end: Scalar = first + self.mark.extent
        if low is not None:
            first = math.larger(low, first)
        if high is not None:
            end = math.smaller(high, end)
        extent = math.tidy(end - first)
        if type(extent) is int and extent <= 0:
            raise NotAffineError("the predicate never holds")
        source = self.mark.source
        assert isinstance(source, IterSumExpr)
        self.mark = IterMark(IterSumExpr(source.args, math.tidy(0 - first)), extent)
        self.offset = first


class SumFuser:
    """Fuses sums; equal sums become the same iterator."""

    def __init__(self, math: ScalarMath, exact: bool) -> None:
        self._math = math
        self._exact = exact
        """Whether terms must not overlap."""
        self._fused: dict[Key, FusedSum] = {}
        self.groups: list[FusedSum] = []
        """Sums that a predicate constrains."""

    def fuse(self, terms: list[IterSplitExpr], base: Scalar) -> tuple[IterSplitExpr, Scalar]:
        """Return a sum as a piece of one iterator and a base; there is at least one term.

        Raises NotAffineError where the terms do not fit together.
        """
        if len(terms) == 1 and not self.groups:
            return terms[0], base
        fused, scale, offset = self._fuse(self.combine(terms))
        if fused is None:
            return terms[0], base
        if type(offset) is not int or offset != 0:
            base = self._math.tidy(base + offset)
        return IterSplitExpr(fused.mark, 1, fused.mark.extent, scale), base

    def constrain(
        self, terms: list[IterSplitExpr], low: Scalar | None, high: Scalar | None
    ) -> None:
        """Take into account that a sum lies in `[low, high)`; None stands for no limit.

        Raises NotAffineError where the sum is not one iterator of scale 1, or where constraints
        share terms without being nested.
        """
        fused, scale, _ = self._fuse(self.combine(terms), single=True)
        if fused is None or not self._math.equal(scale, 1):
            raise NotAffineError("a predicate constrains a scaled iterator")
        own = {(s.source, s.lower_factor, s.extent) for s in fused.flat}
        for group in self.groups:
            other = {(s.source, s.lower_factor, s.extent) for s in group.flat}
            if group is not fused and own & other and not own > other:
                raise NotAffineError("predicates constrain sums that share terms")
        fused.constrain(low, high, self._math)
        if fused not in self.groups:
            self.groups.append(fused)

    # ------------------------------------------------------------------------ pieces of one iterator

    def combine(self, terms: list[IterSplitExpr]) -> list[IterSplitExpr]:
        """Join neighbouring pieces of one iterator: `x // 4 * 4 + x % 4` is `x`.

        The joined piece stands where the last of its parts stood.
        """
        if len(terms) == 1 or len({t.source for t in terms}) == len(terms):
            return terms
        left = list(terms)
        kept: list[IterSplitExpr] = []
        while left:
            piece = left[-1]
            alike = [t for t in left if t.source is piece.source]
            if len(alike) == 1:
                kept.append(left.pop())
                continue
            piece = alike[self._base_position(alike)]
            left.remove(piece)
            found: IterSplitExpr | None = piece
            while found is not None:
                found = self._upper_neighbour(piece, left)
                if found is not None:
                    left.remove(found)
                    extent = self._math.tidy(piece.extent * found.extent)
                    piece = IterSplitExpr(piece.source, piece.lower_factor, extent, piece.scale)
            kept.append(piece)
        kept.reverse()
        return kept

    def _upper_neighbour(
        self, piece: IterSplitExpr, left: list[IterSplitExpr]
    ) -> IterSplitExpr | None:
        scale = piece.scale * piece.extent
        lower = piece.lower_factor * piece.extent
        equal = self._math.equal
        for term in reversed(left):
            if (
                term.source is piece.source
                and equal(term.scale, scale)
                and equal(term.lower_factor, lower)
            ):
                return term
        return None

    # --------------------------------------------------------------------------------------- fusing

    def _fuse(
        self, terms: list[IterSplitExpr], single: bool = False
    ) -> tuple[FusedSum | None, Scalar, Scalar]:
        """Return the iterator that a sum is, its scale, and the constant that it leaves out.

        A sum of one term that no predicate constrains is left alone unless `single`.
        """
        math = self._math
        left = list(terms)
        start = self._base_position(left)
        base_scale = left[start].scale
        expected: Scalar = base_scale
        slack: Scalar = 0
        offset: Scalar = 0
        flat: list[IterSplitExpr] = []
        nested: list[IterSplitExpr] = []
        while left:
            position = start if not nested else self._position_of_scale(left, expected)
            if position is None:
                position = self._position_of_overlap(left, expected, base_scale)
                slack = slack + (expected - left[position].scale)
            term = left[position]
            group = self._group_ending_in(term) if self.groups else None
            if group is None:
                if len(terms) == 1 and not single:
                    return None, base_scale, 0
                del left[position]
                piece = self._relative(term, base_scale)
                flat.append(piece)
                nested.append(piece)
                expected = term.scale * term.extent
                continue
            for member in reversed(group.flat):
                flat.append(self._relative(self._take(left, member, term.scale), base_scale))
            scale = math.quotient(term.scale, base_scale)
            nested.append(IterSplitExpr(group.mark, 1, group.mark.extent, scale))
            offset = offset + group.offset * term.scale
            expected = term.scale * group.mark.extent
        flat.reverse()
        nested.reverse()
        extent = expected if type(base_scale) is int and base_scale == 1 else None
        if extent is None:
            extent = math.quotient(expected, base_scale)
        return self._intern(flat, nested, math.tidy(extent + slack)), base_scale, offset

    def _intern(
        self, flat: list[IterSplitExpr], nested: list[IterSplitExpr], extent: Scalar
    ) -> FusedSum:
        parts: list[Any] = []
        for s in flat:
            parts += (s.source, s.lower_factor, s.extent, s.scale)
        key = tuple(parts)
        known = self._fused.get(key)
        if known is None:
            known = FusedSum(tuple(flat), IterMark(IterSumExpr(nested), extent), 0)
            self._fused[key] = known
        return known

    def _relative(self, term: IterSplitExpr, base_scale: Scalar) -> IterSplitExpr:
        """Return `term` with its scale in units of `base_scale`."""
        if type(base_scale) is int and base_scale == 1:
            return term
        return term.scaled(self._math.quotient(term.scale, base_scale))

    def _base_position(self, terms: list[IterSplitExpr]) -> int:
        """Return where the innermost term is: the one with the smallest scale.

        The last of several, but one of extent 1 if there is any; where no scale is constant, the
        one with the fewest factors.
        """
        best = -1
        least = 0
        for position in range(len(terms) - 1, -1, -1):
            scale = terms[position].scale
            if type(scale) is int:
                size = abs(scale)
                if best < 0 or size < least:
                    best, least = position, size
                elif size == least and _is_unit(terms[position]) and not _is_unit(terms[best]):
                    best = position
        if best >= 0:
            return best
        counts = [_factor_count(t.scale) for t in terms]
        least = min(counts)
        return len(counts) - 1 - counts[::-1].index(least)

    def _position_of_scale(self, terms: list[IterSplitExpr], scale: Scalar) -> int | None:
        """Return where the term is that continues at `scale`.

        The last of several, but one of extent 1 if there is any.
        """
        found: int | None = None
        for position in range(len(terms) - 1, -1, -1):
            term = terms[position]
            if self._math.equal(term.scale, scale):
                if _is_unit(term):
                    return position
                if found is None:
                    found = position
        return found

    def _position_of_overlap(
        self, terms: list[IterSplitExpr], expected: Scalar, base_scale: Scalar
    ) -> int:
        """Return where the term is that leaves no gap although its scale is below `expected`.

        In `x * 7 + y` with `y < 8` some sums occur twice, but none from 0 to the largest is left
        out. Raises NotAffineError if there is no such term or overlaps are not allowed.
        """
        best: int | None = None
        if not self._exact and type(base_scale) is int and base_scale == 1:
            largest = 0
            for position in range(len(terms) - 1, -1, -1):
                scale = terms[position].scale
                if type(scale) is int and scale > largest and self._math.at_least(expected, scale):
                    best, largest = position, scale
        if best is None:
            raise NotAffineError("the scales of added iterators leave gaps or overlap")
        return best

    # --------------------------------------------------------------------------------------- groups

    def _group_ending_in(self, term: IterSplitExpr) -> FusedSum | None:
        """Return the largest constrained sum whose innermost term is `term`."""
        best: FusedSum | None = None
        for group in self.groups:
            if group.flat[-1].is_same_piece(term) and (
                best is None or len(best.flat) < len(group.flat)
            ):
                best = group
        return best

    def _take(
        self, left: list[IterSplitExpr], member: IterSplitExpr, scale: Scalar
    ) -> IterSplitExpr:
        """Remove the term that is `member` at `scale` and return it."""
        for position, term in enumerate(left):
            if term.is_same_piece(member) and self._math.equal(term.scale, member.scale * scale):
                return left.pop(position)
        raise NotAffineError("a predicate constrains terms that do not occur together")


def _is_unit(term: IterSplitExpr) -> bool:
    return type(term.extent) is int and term.extent == 1


def _factor_count(scale: Scalar) -> int:
    if isinstance(scale, PrimExpr) and type(scale) is Mul:
        return _factor_count(scale.a) + _factor_count(scale.b)
    return 0 if type(scale) is int else 1
