"""Pieces of iterators: the terms in which index expressions are analysed.

A *mark* is an iterator that takes every value of `[0, extent)`: a loop variable (less its minimum)
or a fused sum of pieces. A *split* is the piece `(mark // lower_factor) % extent * scale` of one. A
*sum* adds splits and a base that contains no iterator.
"""

from __future__ import annotations

from tensorir.arith.linear import Linear
from tensorir.arith.linearize import Linearizer
from tensorir.dtype import DataType
from tensorir.expr import Add, PrimExpr, Var
from tensorir.ops import add, const, floordiv, floormod, is_const_int, mul


class IterMark:
    """An iterator over `[0, extent)`.

    `source` is a variable, or the sum that the iterator stands for; `offset` is the variable's
    minimum, which the iterator leaves out. `padded_extent` exceeds `extent` where divisions were
    rounded up.
    """

    __slots__ = ("depth", "extent", "offset", "padded_extent", "source")

    def __init__(
        self, source: Var | IterSumExpr, extent: int, offset: Linear | None = None
    ) -> None:
        self.source = source
        self.extent = extent
        self.offset = offset
        self.padded_extent = extent
        self.depth: int = (
            1 + max((s.source.depth for s in source.args), default=0)
            if isinstance(source, IterSumExpr)
            else 0
        )


class IterSplitExpr:
    """The piece `(source // lower_factor) % extent * scale` of an iterator."""

    __slots__ = ("extent", "lower_factor", "scale", "source")

    def __init__(self, source: IterMark, lower_factor: int, extent: int, scale: int) -> None:
        self.source = source
        self.lower_factor = lower_factor
        self.extent = extent
        self.scale = scale

    @property
    def key(self) -> tuple[int, int, int]:
        """Which piece of which iterator this is, whatever its scale."""
        return (id(self.source), self.lower_factor, self.extent)

    def scaled(self, scale: int) -> IterSplitExpr:
        """Return the same piece with another scale."""
        return IterSplitExpr(self.source, self.lower_factor, self.extent, scale)

    @property
    def is_whole(self) -> bool:
        """Whether the piece is all of its iterator."""
        return self.lower_factor == 1 and self.extent == self.source.extent


class IterSumExpr:
    """The sum of `args` and `base`; the base contains no iterator."""

    __slots__ = ("args", "base")

    def __init__(self, args: tuple[IterSplitExpr, ...], base: Linear) -> None:
        self.args = args
        self.base = base


class IterWriter:
    """Turns sums back into expressions, outermost terms first."""

    def __init__(self, linearizer: Linearizer, dtype: DataType) -> None:
        self._linearizer = linearizer
        self._dtype = dtype

    def sum(self, value: IterSumExpr) -> PrimExpr:
        """Return a sum as an expression."""
        result: PrimExpr = const(0, self._dtype)
        for term in self._terms(value, 1):
            result = term if is_const_int(result, 0) else Add(result, term)
        base = self._linearizer.write(self._base(value), self._dtype)
        return add(result, base)

    def _base(self, value: IterSumExpr) -> Linear:
        """Return the base, with the bases of whole fused iterators inside."""
        base = value.base
        for split in value.args:
            inner = split.source.source
            if isinstance(inner, IterSumExpr) and split.is_whole:
                base = base.plus(self._base(inner), split.scale)
            elif split.is_whole and split.source.offset is not None:
                base = base.plus(split.source.offset, -split.scale)
        return base

    def _terms(self, value: IterSumExpr, scale: int) -> list[PrimExpr]:
        terms: list[PrimExpr] = []
        for split in value.args:
            inner = split.source.source
            if isinstance(inner, IterSumExpr) and split.is_whole:
                terms.extend(self._terms(inner, scale * split.scale))
            else:
                terms.append(self._split(split, scale * split.scale))
        return [t for t in terms if not is_const_int(t, 0)]

    def _split(self, split: IterSplitExpr, scale: int) -> PrimExpr:
        mark, dtype = split.source, self._dtype
        if isinstance(mark.source, IterSumExpr):
            value = self.sum(mark.source)
        elif mark.offset is None or split.is_whole:
            value = mark.source.astype(dtype)
        else:
            value = mark.source.astype(dtype) - self._linearizer.write(mark.offset, dtype)
        if not split.is_whole:
            end = split.lower_factor * split.extent
            if end < mark.extent:
                value = floormod(value, const(end, dtype))
            elif split.extent == 1 and mark.extent != 1:
                return const(0, dtype)
            value = floordiv(value, const(split.lower_factor, dtype))
        return mul(value, const(scale, dtype))
