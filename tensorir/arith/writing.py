"""Writing linear combinations as expressions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import gcd
from typing import Any, NamedTuple, TypeAlias

from tensorir.arith.linear import (
    Atom,
    Linear,
    Opaque,
    Piece,
    Product,
    Quotient,
    Remainder,
    Term,
    Terms,
    Wrapped,
    is_negative,
)
from tensorir.arith.pieces import pieces
from tensorir.arith.polynomial import factors, without
from tensorir.arith.terms import position_of
from tensorir.arith.wrapping import Bound, reduce_to_width
from tensorir.errors import IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr, Var, integer_limits
from tensorir.nodes.ops import (
    add,
    cast,
    const,
    floordiv,
    floormod,
    max_,
    min_,
    mul,
    sub,
    truncdiv,
    truncmod,
)


class NotRepresentableError(IRValueError):
    """A constant of a sum is out of the range of the dtype."""


class _Multiple(NamedTuple):
    """A term times a sum."""

    factor: Term
    times: Linear


Part: TypeAlias = tuple[int, Term | Piece | _Multiple]
Parts: TypeAlias = list[Part]


class Writer:
    """Writes linear combinations as expressions of one dtype.

    Terms keep the order in which they appear; with `order` they are sorted by their coefficients
    and by the positions of variables in `order`. With `wraps`, sums are computed exactly as they
    were read. `bound` returns the interval of a sum of indices.
    """

    __slots__ = ("_bound", "_dtype", "_order", "_wraps")

    def __init__(
        self,
        dtype: DataType,
        order: Mapping[Var, int] | None = None,
        wraps: bool = False,
        bound: Bound | None = None,
    ) -> None:
        self._dtype = dtype
        self._wraps = wraps
        self._bound = bound
        self._order = order

    def _const(self, value: int) -> PrimExpr:
        low, high = integer_limits(self._dtype)
        if not low <= value <= high:
            raise NotRepresentableError(f"{value} is out of the range of {self._dtype}")
        return const(value, self._dtype)

    def _negative(self, value: int) -> PrimExpr:
        """Return the factor -value in the dtype; unsigned types wrap it around."""
        return self._const((1 << self._dtype.bits) - value if self._dtype.is_uint else -value)

    def write(self, linear: Linear) -> PrimExpr:
        """Return `linear` as an expression; NotRepresentableError if its dtype is too narrow."""
        if not linear.terms:
            return self._const(linear.const)
        if Wrapped in map(type, linear.terms) and any(
            type(t) is Wrapped and t.dtype.bits >= self._dtype.bits for t in linear.terms
        ):
            # The final result may wrap although no intermediate result does.
            linear = reduce_to_width(linear, self._dtype)
        return self._sum(self._parts(linear), linear.rest)

    def write_sides(self, linear: Linear) -> tuple[PrimExpr, PrimExpr]:
        """Return the added and the subtracted part of `linear`; a remainder stays in one piece.

        The constant is alone on one side with its sign, or on the side where it is positive.
        """
        terms = self._parts(linear, one_sign=True)
        rest = linear.rest
        added = [(c, piece) for c, piece in terms if c > 0]
        taken = [(-c, piece) for c, piece in terms if c < 0]
        if not added or not taken:
            return (
                self._sum(added, 0) if added else self._const(rest),
                self._sum(taken, 0) if taken else self._const(-rest),
            )
        return self._sum(added, max(rest, 0)), self._sum(taken, max(-rest, 0))

    def _parts(self, linear: Linear, one_sign: bool = False) -> Parts:
        """Return the parts of a written sum, with common factors taken out if that is shorter.

        With `one_sign`, no factor multiplies a sum of both signs.
        """
        parts: Parts = [self._negate_divisor(part) for part in pieces(linear, not self._wraps)]
        shared = [f for _, part in parts if type(part) is Product for f in part.factors]
        for factor in dict.fromkeys(shared):
            places, scale, times = _group_by_factor(factor, parts)
            if len(places) < 2:
                continue
            cofactor = self._parts(times)
            if not times.rest and len(cofactor) == len(places):
                continue
            signs = [c > 0 for c, _ in cofactor] + ([times.rest > 0] if times.rest else [])
            if one_sign and any(signs) and not all(signs):
                continue
            if not any(signs):
                scale, times = -scale, times.times(-1)
            parts[places[0]] = scale, _Multiple(factor, times)
            parts = [part for place, part in enumerate(parts) if place not in places[1:]]
        return parts

    def _sum(self, terms: Parts, rest: int) -> PrimExpr:
        dtype = self._dtype
        result: PrimExpr | None = None
        negative: list[tuple[int, Any]] = []
        if self._order is not None and len(terms) > 1:
            terms = sorted(terms, key=lambda part: (-part[0], self._rank(part[1])))
        for coefficient, piece in terms:
            if coefficient < 0:
                negative.append((-coefficient, piece))
                continue
            part = self._piece(piece)
            if coefficient != 1:
                part = mul(part, self._const(coefficient))
            result = part if result is None else e.Add(result, part)
        if result is None and rest > 0:
            result, rest = self._const(rest), 0
        if result is None and negative:
            if (rest == 0 and len(negative) == 1) or rest < 0:
                coefficient, piece = negative.pop(0)
                result = mul(self._piece(piece), self._negative(coefficient))
            else:
                result = self._const(rest)
                rest = 0
        for coefficient, piece in negative:
            part = mul(self._piece(piece), self._const(coefficient))
            assert result is not None
            result = sub(result, part)
        if result is None:
            return self._const(rest)
        if rest > 0:
            return add(result, self._const(rest))
        if rest < 0 and rest == integer_limits(dtype)[0]:
            return e.Add(result, self._const(rest))  # its negative is out of the range of the type
        return sub(result, self._const(-rest)) if rest < 0 else result

    # -------------------------------------------------------------------- the domain of expressions

    def _negate_divisor(self, part: Part) -> Part:
        """Return a multiple of `-x % c` as a multiple of `x % -c` if `-x` may overflow."""
        c, piece = part
        if type(piece) is not Remainder or not piece.numbers or piece.divisor != 1:
            return part
        if not self._overflows(piece.index):
            return part
        return -c, Remainder(piece.index.times(-1), -piece.modulus, 1)

    def _overflows(self, value: Linear) -> bool:
        """Return True if all of a sum is subtracted, and it may exceed the maximum of its dtype."""
        if self._bound is None or not is_negative(value):
            return False
        return self._bound(value)[1] > integer_limits(self._dtype)[1]

    def _piece(self, piece: Term | Piece | _Multiple) -> PrimExpr:
        if isinstance(piece, _Multiple):
            return mul(self._piece(piece.factor), self.write(piece.times))
        if type(piece) is Quotient and self._overflows(piece.index):
            piece = Quotient(piece.index.times(-1), -piece.divisor)
        return cast(self._dtype, piece) if isinstance(piece, Var) else piece.evaluate(self)

    def of(self, value: Linear | int) -> PrimExpr:
        """Return a sum as an expression."""
        return self.write(value) if isinstance(value, Linear) else self._const(value)

    def quotient(self, a: PrimExpr, b: PrimExpr, floors: bool) -> PrimExpr:
        """Divide, rounding down or toward zero."""
        return floordiv(a, b) if floors else truncdiv(a, b)

    def remainder(self, a: PrimExpr, b: PrimExpr, floors: bool) -> PrimExpr:
        """Return the remainder of division that rounds down or toward zero."""
        return floormod(a, b) if floors else truncmod(a, b)

    def extremum(self, values: list[PrimExpr], largest: bool) -> PrimExpr:
        """Return the smallest or the largest of several expressions."""
        return reduce(max_ if largest else min_, values)

    def product(self, factors: tuple[Term, ...]) -> PrimExpr:
        """Multiply terms."""
        return reduce(mul, map(self._piece, factors))

    def wrapped(self, term: Wrapped) -> PrimExpr:
        """Return a sum computed in the dtype in which it wraps."""
        return cast(self._dtype, Writer(term.dtype, self._order, True).write(term.index))

    def opaque(self, term: Opaque) -> PrimExpr:
        """Return a nonlinear expression."""
        return cast(self._dtype, term.expr)

    # ------------------------------------------------------------------------------------- order

    def _rank(self, piece: Term | Piece | _Multiple) -> tuple[Any, ...]:
        """Return the position of a piece in the canonical order of terms."""
        assert self._order is not None
        if isinstance(piece, Var):
            order = self._order.get(piece)
            return (0, order) if order is not None else (1, piece.name)
        if isinstance(piece, _Multiple):
            return (Product.rank, (self._rank(piece.factor),))
        if isinstance(piece, Opaque):
            return (piece.rank, position_of(piece.key, self._order))
        if isinstance(piece, Product):
            return (piece.rank, tuple(map(self._rank, piece.factors)))
        return (piece.rank, *piece.numbers, tuple(map(self._ranks, piece.operands)))

    def _ranks(self, linear: Linear) -> tuple[Any, ...]:
        terms = pieces(linear, not self._wraps)
        return (linear.rest, *sorted((c, self._rank(p)) for c, p in terms))


def _group_by_factor(factor: Term, parts: Parts) -> tuple[list[int], int, Linear]:
    """Return the positions of the parts that contain a factor, a number and a sum.

    The product of factor, number and sum is the sum of these parts.
    """
    places: list[int] = []
    terms: Terms = {}
    const = 0
    for place, (c, part) in enumerate(parts):
        if not isinstance(part, (Var, Atom)) or (rest := without(factors(part), (factor,))) is None:
            continue
        places.append(place)
        if rest:
            terms[rest[0] if len(rest) == 1 else Product(rest)] = c
        else:
            const = c
    scale = gcd(*terms.values(), const) or 1
    return places, scale, Linear(terms, const).over(scale)
