"""Expressions of vectors as expressions of one lane, and back.

An operation on vectors works lane by lane. So a vector is simplified as the scalar in one lane, and
the number of the lane is a variable: `Ramp(b, s, n)` is `b + lane * s` for lane in 0..n-1, and the
scalar analysis applies. Any other vector, such as a load, is represented by its element.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from tensorir.arith.linear import Key
from tensorir.arith.terms import expr_key
from tensorir.nodes import expr as e
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import add, cast, const, mul, sub
from tensorir.rewriting.visit import walk

Affine = tuple[PrimExpr, PrimExpr]
"""The base and the factor of `base + factor * lane`."""


class Lanes:
    """Converts vectors of integers and conditions to scalars, and back."""

    def __init__(self, lanes: int, simplify: Callable[[PrimExpr], PrimExpr]) -> None:
        self.lanes: Final = lanes
        self._simplify: Final = simplify
        self.lane: Final = Var("lane")
        """The number of the lane."""
        self.elements: Final[dict[Var, PrimExpr]] = {}
        """Variables for the elements of vectors."""
        self._known: dict[Key, Var] = {}

    def element(self, vector: PrimExpr) -> PrimExpr:
        """Return the element of a vector in a lane."""
        if vector.dtype.lanes == 1:
            return vector
        kind = type(vector)
        if isinstance(vector, e.Broadcast):
            return vector.value
        if isinstance(vector, e.Ramp):
            lane = cast(vector.dtype.element, self.lane)
            return e.Add(vector.base, e.Mul(lane, vector.stride))
        if isinstance(vector, e.BinaryOp):
            return kind(self.element(vector.a), self.element(vector.b))  # type: ignore[call-arg]
        if isinstance(vector, e.Not):
            return e.Not(self.element(vector.a))
        if isinstance(vector, e.Cast) and vector.value.dtype.is_integral:
            return e.Cast(vector.dtype.element, self.element(vector.value))
        if isinstance(vector, e.Select):
            parts = (vector.condition, vector.true_value, vector.false_value)
            return e.Select(*map(self.element, parts))
        if isinstance(vector, e.Cast):
            # Simplifying the vector as a whole would decompose it here again, without end.
            value = self._simplify(vector.value)
            simple: PrimExpr = vector if value is vector.value else e.Cast(vector.dtype, value)
        else:
            simple = self._simplify(vector)
        if type(simple) is not kind:
            return self.element(simple)
        key = expr_key(simple)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Var("element", vector.dtype.element)
            self.elements[known] = simple
        return known

    def vector(self, element: PrimExpr) -> PrimExpr:
        """Return the vector whose lanes have the value of `element`."""
        affine = self._affine(element)
        if affine is not None:
            base, stride = map(self._simplify, affine)
            if isinstance(stride, IntImm) and stride.value == 0:
                return e.Broadcast(base, self.lanes)
            return e.Ramp(base, stride, self.lanes)
        if isinstance(element, Var):
            return self.elements[element]
        if isinstance(element, (e.Add, e.Sub)):
            return self._sum(element)
        if isinstance(element, (e.Min, e.Max)):
            return self._extremum(element)
        if isinstance(element, e.BinaryOp):
            return type(element)(self.vector(element.a), self.vector(element.b))
        if isinstance(element, e.Not):
            return e.Not(self.vector(element.a))
        if isinstance(element, e.Cast):
            return e.Cast(element.dtype.with_lanes(self.lanes), self.vector(element.value))
        assert isinstance(element, e.Select)
        parts = (element.condition, element.true_value, element.false_value)
        return e.Select(*map(self.vector, parts))

    def _varies(self, element: PrimExpr) -> bool:
        return any(p is self.lane or p in self.elements for p in walk(element) if type(p) is Var)

    def _affine(self, element: PrimExpr) -> Affine | None:
        """Return an element as a scalar plus a multiple of the lane's number, if possible."""
        dtype = element.dtype
        if not self._varies(element):
            return element, const(0, dtype)
        if element is self.lane or (type(element) is e.Cast and element.value is self.lane):
            return const(0, dtype), const(1, dtype)
        if isinstance(element, (e.Add, e.Sub)):
            a, b = self._affine(element.a), self._affine(element.b)
            if a is None or b is None:
                return None
            combine = add if type(element) is e.Add else sub
            return combine(a[0], b[0]), combine(a[1], b[1])
        if isinstance(element, e.Mul):
            varying, factor = element.a, element.b
            if self._varies(factor):
                varying, factor = factor, varying
            a = None if self._varies(factor) else self._affine(varying)
            return None if a is None else (mul(a[0], factor), mul(a[1], factor))
        return None

    def _extremum(self, element: e.Min | e.Max) -> PrimExpr:
        """Return an extremum of vectors; operands that are equal in all lanes count as one."""
        kind = type(element)
        parts: list[PrimExpr] = []
        pending: list[PrimExpr] = [element]
        while pending:
            part = pending.pop()
            if type(part) is kind:
                pending += (part.b, part.a)
            else:
                parts.append(part)
        even = [part for part in parts if not self._varies(part)]
        if even:
            place = next(k for k, part in enumerate(parts) if part is even[0])
            varying = [part for part in parts if self._varies(part)]
            parts = [*varying[:place], reduce(kind, even), *varying[place:]]
        return reduce(kind, map(self.vector, parts))

    def _sum(self, element: PrimExpr) -> PrimExpr:
        """Return a sum of vectors, with its affine part as one ramp or broadcast."""
        terms: list[tuple[PrimExpr, bool]] = []

        def collect(part: PrimExpr, positive: bool) -> None:
            if isinstance(part, (e.Add, e.Sub)):
                collect(part.a, positive)
                collect(part.b, positive == (type(part) is e.Add))
            else:
                terms.append((part, positive))

        collect(element, True)
        plain = const(0, element.dtype)
        vectors: list[tuple[PrimExpr, bool]] = []
        place: int | None = None
        for part, positive in terms:
            if self._affine(part) is None:
                vectors.append((self.vector(part), positive))
                continue
            place = len(vectors) if place is None else place
            plain = (add if positive else sub)(plain, part)
        if place is not None:
            vectors.insert(place, (self.vector(plain), True))
        # The first term of a written sum must not be subtracted.
        result = vectors[0][0]
        for vector, positive in vectors[1:]:
            result = (e.Add if positive else e.Sub)(result, vector)
        return result
