"""Rewriting index expressions as sums of pieces of iterators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from tensorir.arith.iter_expr import IterMark, IterSplitExpr, IterSumExpr, NotAffineError
from tensorir.arith.iter_fuse import SumFuser
from tensorir.arith.iter_padding import Padder
from tensorir.arith.scalar import Scalar, ScalarMath, as_scalar
from tensorir.buffer import Range
from tensorir.dtype import INT32, INT64
from tensorir.expr import (
    Add,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    SizeVar,
    Sub,
    Var,
)
from tensorir.visit import uses_var

Terms: TypeAlias = list[IterSplitExpr]

_MAX_PASSES: Final = 6
"""Padding settles after two passes unless divisions of padded quotients nest."""


class IterRewriter:
    """Rewrites indices over one domain; equal pieces in different indices share their iterators."""

    def __init__(
        self,
        domain: Mapping[Var, Range],
        math: ScalarMath,
        *,
        exact: bool,
        simplify_trivial: bool,
    ) -> None:
        self.domain = domain
        self.math = math
        self.fuser = SumFuser(math, exact)
        self.padder = Padder(math, exact)
        self._simplify_trivial = simplify_trivial
        self._leaves: dict[Var, tuple[IterSplitExpr | None, Scalar]] = {}
        self._dividends: dict[PrimExpr, tuple[IterSplitExpr | None, Scalar]] = {}

    def rewrite_all(self, indices: Sequence[PrimExpr]) -> tuple[IterSumExpr, ...]:
        """Return each index as a sum of at most one piece and a base.

        Raises NotAffineError if an index has no such form.
        """
        for _ in range(_MAX_PASSES):
            found = tuple([self.rewrite(index) for index in indices])
            if not self.padder.has_changed:
                return found
            self.padder.begin_pass()
            self._dividends.clear()
        raise NotAffineError("nested divisions need more and more padding")

    def rewrite(self, index: PrimExpr) -> IterSumExpr:
        """Return an index as a sum of at most one piece and a base."""
        if index.dtype is not INT32 and index.dtype is not INT64:
            raise NotAffineError(f"an index has type {index.dtype}", index)
        terms: Terms = []
        base = self._collect(index, 1, terms)
        if not terms:
            return IterSumExpr((), base, index.dtype)
        split, base = self.fuser.fuse(terms, base)
        return IterSumExpr((split,), base, index.dtype)

    def constrain(self, expr: PrimExpr, low: Scalar | None, high: Scalar | None) -> None:
        """Take into account that `expr` lies in `[low, high)`; None stands for no limit."""
        terms: Terms = []
        base = self._collect(expr, 1, terms)
        if self.padder.has_changed:
            raise NotAffineError("a constrained expression divides unevenly", expr)
        if low is not None:
            low = self.math.tidy(low - base)
        if high is not None:
            high = self.math.tidy(high - base)
        if terms:
            self.fuser.constrain(terms, low, high)
            return
        always = (low is None or self.math.at_least(0, low)) and (
            high is None or self.math.less(0, high)
        )
        if not always:
            raise NotAffineError("the predicate depends on no iterator that varies", expr)

    def iterator(self, var: Var) -> IterSplitExpr | None:
        """Return the iterator of a variable that has been met, None if it is a constant."""
        leaf = self._leaves.get(var)
        return None if leaf is None else leaf[0]

    # -------------------------------------------------------------------------------------- iterators

    def _leaf(self, var: Var) -> tuple[IterSplitExpr | None, Scalar]:
        """Return a variable as an iterator (None for a constant) and a base."""
        values = self.domain.get(var)
        if values is None:
            leaf: tuple[IterSplitExpr | None, Scalar] = (None, var)
        else:
            low, extent = as_scalar(values.min), as_scalar(values.extent)
            if type(low) is not int or type(extent) is not int:
                if self.mentions_iterator(values.min) or self.mentions_iterator(values.extent):
                    raise NotAffineError("the range of an iterator depends on another one", var)
                low, extent = self.math.tidy(low), self.math.tidy(extent)
            if type(extent) is int and extent < 1:
                raise NotAffineError("an iterator has no values", var)
            if type(extent) is int and extent == 1 and self._simplify_trivial:
                leaf = (None, low)
            elif type(low) is int and low == 0:
                leaf = (IterSplitExpr(IterMark(var, extent)), 0)
            else:
                leaf = (IterSplitExpr(IterMark(Sub(var, values.min), extent)), low)
        self._leaves[var] = leaf
        return leaf

    def mentions_iterator(self, expr: PrimExpr) -> bool:
        """Say whether a variable of the domain occurs in `expr`."""
        kind = type(expr)
        if kind is IntImm:
            return False
        if kind is Var:
            return expr in self.domain
        return uses_var(expr, self.domain.__contains__)

    # ------------------------------------------------------------------------------------- rewriting

    def _collect(self, expr: PrimExpr, scale: Scalar, terms: Terms) -> Scalar:
        """Add `expr * scale` to `terms`, and return the part of it that contains no iterator."""
        node: Any = expr
        kind = type(expr)
        if kind is Var or kind is SizeVar:
            split, base = self._leaves.get(node) or self._leaf(node)
            if split is not None:
                self._add(split, scale, terms)
            return base if type(base) is int and base == 0 else base * scale
        if kind is IntImm:
            constant: Scalar = node.value * scale
            return constant
        if kind is Add:
            left = self._collect(node.a, scale, terms)
            return left + self._collect(node.b, scale, terms)
        if kind is Mul:
            return self._product(node, scale, terms)
        if kind is Sub:
            left = self._collect(node.a, scale, terms)
            return left + self._collect(node.b, 0 - scale, terms)
        if kind is FloorDiv or kind is FloorMod:
            return self._division(node, scale, terms)
        if self.mentions_iterator(expr):
            if kind is Cast and expr.dtype.is_int and node.value.dtype.is_int:
                return self._collect(node.value, scale, terms)
            raise NotAffineError("not made of sums, products and divisions of iterators", expr)
        return expr * scale

    def _add(self, split: IterSplitExpr, scale: Scalar, terms: Terms) -> None:
        """Add `split * scale` to a sum."""
        if type(scale) is not int or scale != 1:
            split = split.scaled(split.scale * scale)
        for position, known in enumerate(terms):
            if known.source is split.source and known.is_same_piece(split):
                total = self.math.tidy(known.scale + split.scale)
                if type(total) is int and total == 0:
                    del terms[position]
                else:
                    terms[position] = known.scaled(total)
                return
        if type(split.scale) is not int or split.scale != 0:
            terms.append(split)

    def _product(self, expr: Mul, scale: Scalar, terms: Terms) -> Scalar:
        a, b = expr.a, expr.b
        if type(b) is IntImm:
            return self._collect(a, scale * b.value, terms)
        if not self.mentions_iterator(b):
            return self._collect(a, self._symbolic_product(scale, b), terms)
        if not self.mentions_iterator(a):
            return self._collect(b, self._symbolic_product(scale, a), terms)
        inner: Terms = []
        constant = self._collect(a, 1, inner)
        if not inner:
            return self._collect(b, scale * constant, terms)
        inner = []
        constant = self._collect(b, 1, inner)
        if not inner:
            return self._collect(a, scale * constant, terms)
        raise NotAffineError("iterators are multiplied", expr)

    def _symbolic_product(self, scale: Scalar, factor: PrimExpr) -> Scalar:
        return self.math.tidy(as_scalar(factor) * scale)

    def _division(self, expr: FloorDiv | FloorMod, scale: Scalar, terms: Terms) -> Scalar:
        if self.mentions_iterator(expr.b):
            inner: Terms = []
            divisor = self._collect(expr.b, 1, inner)
            if inner:
                raise NotAffineError("the divisor contains an iterator", expr)
        else:
            divisor = as_scalar(expr.b)
        if type(divisor) is int and divisor <= 0:
            raise NotAffineError("the divisor is not positive", expr)
        divisor = self.math.tidy(divisor)
        dividend = self._dividends.get(expr.a)
        if dividend is None:
            dividend = self._dividends[expr.a] = self._dividend(expr.a)
        split, base = dividend
        is_quotient = type(expr) is FloorDiv
        if split is None:
            divide = self.math.quotient if is_quotient else self.math.remainder
            return divide(base, divisor) * scale
        piece, base = (self._quotient if is_quotient else self._remainder)(split, base, divisor)
        if piece is not None:
            self._add(piece, scale, terms)
        return base * scale

    def _dividend(self, expr: PrimExpr) -> tuple[IterSplitExpr | None, Scalar]:
        terms: Terms = []
        base = self._collect(expr, 1, terms)
        return self.fuser.fuse(terms, base) if terms else (None, base)

    def _quotient(
        self, split: IterSplitExpr, base: Scalar, divisor: Scalar
    ) -> tuple[IterSplitExpr | None, Scalar]:
        """Return `(split + base) // divisor` as a piece (None for none) and a base."""
        math = self.math
        if type(divisor) is int and divisor == 1:
            return split, base
        scale = split.scale
        if type(scale) is not int or scale != 1:
            if math.divides(divisor, scale):
                # A multiple of the divisor does not carry, whatever the base is.
                return split.scaled(math.quotient(scale, divisor)), math.quotient(base, divisor)
            divisor, base = self._unscale(scale, base, divisor)
            split = split.scaled(1)
        split, base = self.padder.pad(split, base, divisor)
        lower, extent, mark = split.lower_factor, split.extent, split.source
        carried = math.quotient(base, divisor)
        if math.divides(divisor, extent):
            extent = math.quotient(extent, divisor)
        elif type(lower) is int and lower == 1 and math.equal(extent, mark.extent):
            extent = math.ceil_quotient(extent, divisor)
        else:
            split = self.padder.wrap(split)
            lower, mark = 1, split.source
            extent = math.ceil_quotient(extent, divisor)
        if type(extent) is int and extent == 1:
            return None, carried
        return IterSplitExpr(mark, math.tidy(lower * divisor), extent), carried

    def _remainder(
        self, split: IterSplitExpr, base: Scalar, divisor: Scalar
    ) -> tuple[IterSplitExpr | None, Scalar]:
        """Return `(split + base) % divisor` as a piece (None for none) and a base."""
        math = self.math
        if type(divisor) is int and divisor == 1:
            return None, 0
        scale = split.scale
        if type(scale) is not int or scale != 1:
            if math.divides(divisor, scale):
                return None, math.remainder(base, divisor)
            divisor, base = self._unscale(scale, base, divisor)
            split = split.scaled(1)
        split, base = self.padder.pad(split, base, divisor)
        if not math.divides(divisor, split.extent) and not self.padder.is_outermost(split):
            split = self.padder.wrap(split)
        return IterSplitExpr(split.source, split.lower_factor, divisor, scale), 0

    def _unscale(self, scale: Scalar, base: Scalar, divisor: Scalar) -> tuple[Scalar, Scalar]:
        """Return divisor and base of a scaled piece divided by its scale."""
        math = self.math
        positive = type(scale) is not int or scale > 0
        if positive and math.divides(scale, divisor) and math.divides(scale, base):
            return math.quotient(divisor, scale), math.quotient(base, scale)
        raise NotAffineError("a scaled iterator is divided by what its scale does not divide")
