"""Pieces of iterators: the terms of the analysis of index expressions.

A *mark* is an iterator that takes every value of `[0, extent)`: a loop variable (less its minimum)
or a fused sum of pieces. A *split* is the piece `(mark // lower_factor) % extent * scale` of a
mark. A *sum* adds splits and a base that contains no iterator; a *group* is a sum that a predicate
bounds. Extents, factors and scales are sizes: ints, or expressions that contain no iterator.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.linear import Linear
from tensorir.arith.linearize import Linearizer
from tensorir.arith.size import Size, at_most, size_expr, times_size
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Add, IntImm, Mul, PrimExpr, Sub, Var
from tensorir.nodes.ops import add, const, floordiv, floormod, is_const_int, mul


class NoIterMapError(Exception):
    """Indices do not have the required form; caught inside the detection."""


class IterMark:
    """An iterator over `[0, extent)`.

    `source` is a variable, or the fused sum; `offset` is the variable's minimum, which the iterator
    excludes. The iterator is `padded` if a division rounds its extent up; the first `missing`
    values do not occur if it was padded on the left. `groups` are the constraints that limit the
    values of a sum.
    """

    __slots__ = ("depth", "extent", "groups", "missing", "offset", "padded", "source")

    missing: Size

    def __init__(
        self,
        source: Var | IterSumExpr,
        extent: Size,
        offset: Linear | None = None,
        groups: tuple[Group, ...] = (),
    ) -> None:
        self.source = source
        self.extent = extent
        self.offset = offset
        self.groups = groups
        self.padded = False
        self.missing = 0
        self.depth = 0
        if type(source) is IterSumExpr:
            self.depth = 1 + max([s.source.depth for s in source.args], default=0)

    @property
    def whole(self) -> IterSplitExpr:
        """The piece that is the whole iterator."""
        return IterSplitExpr(self, 1, self.extent, 1)


PieceKey: TypeAlias = "tuple[IterMark, Size, Size]"
"""The key of a piece of an iterator, independent of its scale."""


class IterSplitExpr:
    """The piece `(source // lower_factor) % extent * scale` of an iterator; immutable."""

    __slots__ = ("extent", "lower_factor", "scale", "source")

    def __init__(self, source: IterMark, lower_factor: Size, extent: Size, scale: Size) -> None:
        self.source = source
        self.lower_factor = lower_factor
        self.extent = extent
        self.scale = scale

    @property
    def key(self) -> PieceKey:
        """The source iterator and the position of the piece in it."""
        return self.source, self.lower_factor, self.extent

    def scaled(self, scale: Size) -> IterSplitExpr:
        """Return the same piece with another scale."""
        if scale == self.scale:
            return self
        return IterSplitExpr(self.source, self.lower_factor, self.extent, scale)

    @property
    def is_whole(self) -> bool:
        """True if the piece is all of its iterator."""
        return self.lower_factor == 1 and self.extent == self.source.extent

    @property
    def reaches_top(self) -> bool:
        """True if the piece provably is a plain quotient: `% extent` does not change it."""
        return at_most(self.source.extent, self.lower_factor * self.extent)


class Group:
    """Terms whose sum a predicate limits to `[low, low + extent)`.

    They are ordered from the outermost to the innermost, with scales relative to the innermost.
    `inner` are groups of some of the terms.
    """

    __slots__ = ("extent", "inner", "low", "terms")

    def __init__(
        self, terms: list[IterSplitExpr], low: Size, extent: Size, inner: tuple[Group, ...]
    ) -> None:
        self.terms = terms
        self.low = low
        self.extent = extent
        self.inner = inner


class IterSumExpr:
    """The sum of `args` and `base`; the base contains no iterator."""

    __slots__ = ("args", "base")

    def __init__(self, args: tuple[IterSplitExpr, ...], base: Linear) -> None:
        self.args = args
        self.base = base


class IterWriter:
    """Turns sums back into expressions, outermost terms first."""

    def __init__(self, analyzer: Analyzer | None, dtype: DataType) -> None:
        self._analyzer = analyzer
        self._dtype = dtype

    @cached_property
    def _linearizer(self) -> Linearizer:
        """The writer of parts without iterators.

        Created on first use, as most sums lack such parts.
        """
        return (self._analyzer or Analyzer()).linearizer

    def sum(self, value: IterSumExpr) -> PrimExpr:
        """Return a sum as an expression."""
        terms: list[PrimExpr] = []
        total = self._read(value, 1, terms)
        result: PrimExpr | None = None
        for term in terms:
            result = term if result is None else Add(result, term)
        if result is not None and not total.terms and not total.const:
            return result
        base = self._linearizer.write(total, self._dtype)
        if result is None:
            return base
        if isinstance(base, IntImm) and base.value < 0:
            return Sub(result, const(-base.value, self._dtype))
        return add(result, base)

    def _read(self, value: IterSumExpr, scale: Size, terms: list[PrimExpr]) -> Linear:
        """Add the terms of a multiple of a sum to a list, and return the remaining base.

        The returned base includes the bases of the whole fused iterators in the sum.
        """
        base = times_size(value.base, scale)
        for split in value.args:
            mark, factor = split.source, scale * split.scale
            if not split.is_whole:
                term = self._piece_expr(split, factor)
                if not is_const_int(term, 0):
                    terms.append(term)
                continue
            if isinstance(mark.source, IterSumExpr):
                inner = self._read(mark.source, factor, terms)
                base = base.plus(inner) if inner.terms or inner.const else base
                continue
            if mark.offset is not None:
                base = base.plus(times_size(mark.offset, factor), -1)
            var: PrimExpr = mark.source
            if var.dtype is not self._dtype:
                var = var.astype(self._dtype)
            if type(factor) is not int:
                var = mul(var, size_expr(factor, self._dtype))
            elif factor != 1:
                var = Mul(var, const(factor, self._dtype))
            terms.append(var)
        return base

    def _piece_expr(self, split: IterSplitExpr, scale: Size) -> PrimExpr:
        """Return a piece of an iterator, times a scale, as an expression."""
        mark, dtype = split.source, self._dtype
        if split.extent == 1 and at_most(mark.extent, split.lower_factor) and mark.extent != 1:
            return const(0, dtype)
        value = self._without_scale(split, widest(mark, dtype))
        return mul(value.astype(dtype), size_expr(scale, dtype))

    def _without_scale(self, split: IterSplitExpr, dtype: DataType) -> PrimExpr:
        """Return a split without its scale, in a dtype that holds the whole iterator."""
        mark = split.source
        if isinstance(mark.source, IterSumExpr):
            value = IterWriter(self._analyzer, dtype).sum(mark.source)
        else:
            value = mark.source.astype(dtype)
            if mark.offset is not None:
                value = value - self._linearizer.write(mark.offset, dtype)
        end = split.lower_factor * split.extent
        if not at_most(mark.extent, end):
            value = floormod(value, size_expr(end, dtype))
        return floordiv(value, size_expr(split.lower_factor, dtype))


def widest(mark: IterMark, dtype: DataType) -> DataType:
    """Return the widest of `dtype` and the dtypes of an iterator's variables."""
    if isinstance(mark.source, Var):
        own = mark.source.dtype
        return own if own.bits > dtype.bits else dtype
    for split in mark.source.args:
        dtype = widest(split.source, dtype)
    return dtype
