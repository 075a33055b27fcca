"""Padding iterators so that divisions come out even.

`i // 4` and `i % 4` over `i < 14` are the pieces of an iterator over 16 values, the last two of
which do not occur; `(i + 1) // 4` needs one more value on the left. How far an iterator must be
padded is known only after all divisions of it were seen, so indices are rewritten again until
nothing changes any more; usually twice.
"""

from __future__ import annotations

from tensorir.arith.iter_expr import IterMark, IterSplitExpr, IterSumExpr, NotAffineError
from tensorir.arith.iter_write import normalize_iter_map_to_expr
from tensorir.arith.scalar import Scalar, ScalarMath, as_index
from tensorir.expr import EQ, GE, LT, NE, PrimExpr
from tensorir.ops import FALSE, compare, floordiv, floormod, logical_and, logical_or


class Padding:
    """How an iterator is padded: `left` values before it, and up to a multiple of `factor`."""

    __slots__ = ("factor", "is_needed", "left", "mark", "padded")

    def __init__(self, mark: IterMark) -> None:
        self.mark = mark
        self.factor: Scalar = 1
        self.left = 0
        self.is_needed = False
        self.padded: IterMark | None = None

    def wider(self, math: ScalarMath) -> IterMark:
        """Return the padded iterator."""
        if self.padded is None:
            parts = math.ceil_quotient(self.mark.extent + self.left, self.factor)
            source = IterSumExpr((IterSplitExpr(self.mark),), self.left)
            self.padded = IterMark(source, parts * self.factor)
        return self.padded

    def predicate(self, math: ScalarMath) -> PrimExpr:
        """Return the condition under which a value of the padded iterator is padding.

        It is written with quotients and remainders by the factor, which the indices are made of.
        """
        value = normalize_iter_map_to_expr(self.wider(math), math=math)
        dtype = value.dtype
        factor = as_index(self.factor, dtype)
        outer, inner = floordiv(value, factor), floormod(value, factor)
        before: PrimExpr = FALSE
        if self.left:
            before = logical_and(compare(EQ, outer, 0), compare(LT, inner, self.left))
        end = self.mark.extent + self.left
        rest = as_index(math.remainder(end, self.factor), dtype)
        last = as_index(math.quotient(end, self.factor), dtype)
        after = logical_and(compare(EQ, outer, last), compare(GE, inner, rest))
        return logical_or(before, logical_and(compare(NE, rest, 0), after))


class Padder:
    """Widens pieces of iterators for division, and keeps what every iterator needs."""

    def __init__(self, math: ScalarMath, exact: bool) -> None:
        self._math = math
        self._exact = exact
        """Whether padding is refused."""
        self._paddings: dict[IterMark, Padding] = {}
        self._origin: dict[IterMark, Padding] = {}
        self._wrapped: dict[tuple[IterMark, Scalar, Scalar], IterMark] = {}
        self._is_first_pass = True
        self.has_changed = False
        """Whether an iterator turned out to need more than it got in this pass."""

    def begin_pass(self) -> None:
        """Start rewriting all indices again, with what is known by now."""
        self.has_changed = False
        self._is_first_pass = False
        self._origin.clear()

    def of(self, mark: IterMark) -> Padding | None:
        """Return what `mark` is the padded form of, None if it is no padded iterator."""
        return self._origin.get(mark)

    def predicate(self) -> PrimExpr:
        """Return the condition under which any padded iterator is in its padding."""
        result: PrimExpr = FALSE
        for padding in self._origin.values():
            result = logical_or(result, padding.predicate(self._math))
        return result

    def wrap(self, split: IterSplitExpr) -> IterSplitExpr:
        """Return a piece of scale 1 as an iterator of its own."""
        key = (split.source, split.lower_factor, split.extent)
        mark = self._wrapped.get(key)
        if mark is None:
            mark = IterMark(IterSumExpr((split,)), split.extent)
            self._wrapped[key] = mark
        return IterSplitExpr(mark)

    def is_outermost(self, split: IterSplitExpr) -> bool:
        """Say whether the piece reaches to the end of its iterator."""
        reached = split.lower_factor * split.extent
        return self._math.at_least(reached, split.source.extent)

    def pad(
        self, split: IterSplitExpr, base: Scalar, divisor: Scalar
    ) -> tuple[IterSplitExpr, Scalar]:
        """Prepare `split + base`, with a split of scale 1, for division by `divisor`.

        Returns a split and a base with the same sum; the base is a multiple of the divisor and, if
        padding is allowed, so is the extent of the split. Raises NotAffineError where that cannot
        be had.
        """
        math = self._math
        left = math.remainder(base, divisor)
        if type(left) is not int:
            raise NotAffineError("the offset of a divided iterator is not a known multiple", base)
        if self._exact:
            if left:
                raise NotAffineError("a bijective map would need padding")
            return split, base
        right = math.remainder(0 - (split.extent + left), divisor)
        fits = left == 0 and type(right) is int and right == 0
        if not fits and not self.is_outermost(split):
            split = self.wrap(split)
        mark = split.source
        widened = self._origin.get(mark)
        if widened is not None:
            return self._pad_again(widened, split, base, divisor, fits)
        padding = self._paddings.get(mark)
        if padding is None:
            padding = self._paddings[mark] = Padding(mark)
        usable = padding.is_needed and not self._is_first_pass
        self._require(padding, split.lower_factor * divisor, left, split.lower_factor, fits)
        if usable and not self.has_changed:
            return self._padded(padding, split, base, divisor)
        if fits:
            return split, base
        extent = math.ceil_quotient(split.extent + left, divisor) * divisor
        return IterSplitExpr(mark, split.lower_factor, extent), base - left

    def _require(
        self, padding: Padding, unit: Scalar, left: int, lower: Scalar, fits: bool
    ) -> None:
        factor = self._math.common_multiple(padding.factor, unit)
        grows = not self._math.equal(factor, padding.factor)
        padding.factor = factor
        if left:
            if type(lower) is not int:
                raise NotAffineError("a piece of symbolic size would need padding on the left")
            grows = grows or left * lower > padding.left
            padding.left = max(padding.left, left * lower)
        if not fits and not padding.is_needed:
            padding.is_needed = grows = True
        if padding.is_needed and grows:
            padding.padded = None
            self.has_changed = True

    def _padded(
        self, padding: Padding, split: IterSplitExpr, base: Scalar, divisor: Scalar
    ) -> tuple[IterSplitExpr, Scalar]:
        """Return the piece of the padded iterator, all of which it is, and the shifted base."""
        shifted = base - padding.left
        whole = split.lower_factor == 1 and self._math.equal(split.extent, padding.mark.extent)
        if not whole or not self._math.divides(divisor, shifted):
            raise NotAffineError("an iterator would need padding of two sizes on the left")
        mark = padding.wider(self._math)
        self._origin[mark] = padding
        return IterSplitExpr(mark), shifted

    def _pad_again(
        self, padding: Padding, split: IterSplitExpr, base: Scalar, divisor: Scalar, fits: bool
    ) -> tuple[IterSplitExpr, Scalar]:
        """Divide a piece of a padded iterator, which is padded further in the next pass if needed."""
        left = self._math.remainder(base, divisor)
        if left != 0:
            raise NotAffineError("a quotient would need padding on the left")
        self._require(padding, split.lower_factor * divisor, 0, split.lower_factor, fits)
        if fits:
            return split, base
        extent = self._math.ceil_quotient(split.extent, divisor) * divisor
        return IterSplitExpr(split.source, split.lower_factor, extent), base
