"""Turning pieces of iterators back into expressions.

Terms come in the order they have, outermost first, and then the base. Constants that stand inside
a whole iterator (a loop's minimum, the offset of a constrained sum) are added to the base, where
they usually cancel.
"""

from __future__ import annotations

from tensorir.arith.iter_term import IterMark, IterSplitExpr, IterSumExpr
from tensorir.arith.scalar import Scalar, ScalarMath, as_index, as_scalar
from tensorir.dtype import DataType
from tensorir.expr import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Sub, Var
from tensorir.ops import add, cast, const, floordiv, floormod, mul, sub


def normalize_iter_map_to_expr(
    value: IterSumExpr | IterSplitExpr | IterMark,
    dtype: DataType | None = None,
    math: ScalarMath | None = None,
) -> PrimExpr:
    """Return a sum, a piece or an iterator as an expression, of its own type if not told otherwise.

    A piece is written `source * S` where it is the whole iterator, `source // L * S` where it
    reaches to the iterator's end, and `source % (L * E) // L * S` otherwise.
    """
    kind = dtype or value.dtype
    writer = _Writer(kind, math or ScalarMath())
    if isinstance(value, IterMark):
        value = IterSplitExpr(value)
    if isinstance(value, IterSplitExpr):
        value = IterSumExpr((value,))
    return writer.sum(value)


class _Writer:
    __slots__ = ("dtype", "math")

    def __init__(self, dtype: DataType, math: ScalarMath) -> None:
        self.dtype = dtype
        self.math = math

    def sum(self, value: IterSumExpr) -> PrimExpr:
        expr, base = self._parts(value)
        return self._with_base(expr, base)

    def _with_base(self, expr: PrimExpr | None, base: Scalar) -> PrimExpr:
        if expr is None:
            return as_index(base, self.dtype)
        if type(base) is int:
            if base == 0:
                return expr
            if base < 0:
                return Sub(expr, const(-base, self.dtype))
            if type(expr) is Mul and type(expr.b) is IntImm and expr.b.value < 0:
                return sub(const(base, self.dtype), mul(expr.a, -expr.b.value))
            return Add(expr, const(base, self.dtype))
        return add(expr, as_index(base, self.dtype))

    def _parts(self, value: IterSumExpr) -> tuple[PrimExpr | None, Scalar]:
        """Return the iterators of a sum as an expression (None for none) and what is constant."""
        expr: PrimExpr | None = None
        base = value.base
        for split in value.args:
            term, constant = self._split(split)
            if type(constant) is not int or constant != 0:
                base = self.math.tidy(base + constant)
            if term is None:
                continue
            if expr is None:
                expr = term
            elif type(term) is Mul and type(term.b) is IntImm and term.b.value < 0:
                expr = Sub(expr, mul(term.a, -term.b.value))
            else:
                expr = Add(expr, term)
        return expr, base

    def _split(self, split: IterSplitExpr) -> tuple[PrimExpr | None, Scalar]:
        """Return a piece as an expression (None for none) and a constant."""
        mark, scale = split.source, split.scale
        lower, extent = split.lower_factor, split.extent
        expr, constant = self._mark(mark)
        if type(lower) is int and lower == 1 and self.math.equal(extent, mark.extent):
            return None if expr is None else self._times(expr, scale), constant * scale
        if type(extent) is int and extent == 1:
            return None, 0
        value = self._with_base(expr, constant)
        end = lower * extent
        if not self.math.equal(mark.extent, end):
            value = self._remainder(value, end)
        return self._times(self._quotient(value, lower), scale), 0

    def _mark(self, mark: IterMark) -> tuple[PrimExpr | None, Scalar]:
        """Return an iterator as an expression (None for none) and a constant."""
        source = mark.source
        if isinstance(source, IterSumExpr):
            return self._parts(source)
        constant: Scalar = 0
        if type(source) is Sub and isinstance(source.a, Var):
            source, constant = source.a, 0 - as_scalar(source.b)
        return source if source.dtype is self.dtype else cast(self.dtype, source), constant

    def _times(self, expr: PrimExpr, scale: Scalar) -> PrimExpr:
        if type(scale) is not int or type(expr) is IntImm:
            return mul(expr, as_index(scale, self.dtype))
        return expr if scale == 1 else Mul(expr, const(scale, self.dtype))

    def _quotient(self, expr: PrimExpr, divisor: Scalar) -> PrimExpr:
        if type(divisor) is not int or type(expr) is IntImm:
            return floordiv(expr, as_index(divisor, self.dtype))
        return expr if divisor == 1 else FloorDiv(expr, const(divisor, self.dtype))

    def _remainder(self, expr: PrimExpr, divisor: Scalar) -> PrimExpr:
        if type(divisor) is not int or type(expr) is IntImm:
            return floormod(expr, as_index(divisor, self.dtype))
        return FloorMod(expr, const(divisor, self.dtype))
