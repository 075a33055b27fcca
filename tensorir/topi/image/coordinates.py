"""The positions of the elements of a resized axis on the original axis, as exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Literal, TypeAlias

import numpy as np

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.dtype import FLOAT32
from tensorir.nodes.expr import EQ, IntImm, PrimExpr
from tensorir.nodes.ops import as_expr, cast, compare, const, div, floordiv, min_, select
from tensorir.topi.extents import extent_text, is_number

Transformation: TypeAlias = Literal[
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
]
Rounding: TypeAlias = Literal[
    "", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"
]


@dataclass(frozen=True)
class Coordinates:
    """Maps element `x` of the result to position `(x * step + start) / divisor` on an axis of
    `size`.

    The numbers are integers, possibly symbolic, so that rounding is exact.
    """

    size: PrimExpr
    step: PrimExpr
    start: PrimExpr
    divisor: PrimExpr
    scale: PrimExpr | Fraction
    """The ratio of the lengths of result and original."""

    @staticmethod
    def of(
        mode: str,
        size: PrimExpr,
        result: PrimExpr,
        scale: float | None = None,
        roi: tuple[float, float] | None = None,
    ) -> Coordinates:
        """Map an axis of `result` elements to an axis of `size`.

        `scale` is the ratio of lengths if it differs from the ratio of the (rounded) sizes.
        """
        p, q = _ratio(size, result, scale)
        one = const(1, size.dtype)
        if mode in ("align_corners", "tf_crop_and_resize"):
            # The length of the result is p / q * size, so `(length - 1) * q` is the following:
            length = p * size - q
            is_point = isinstance(length, IntImm) and length.value == 0
            if mode == "align_corners":
                if is_point:
                    return _reduced(size, one * 0, one * 0, one, p, q)
                return _reduced(size, (size - 1) * q, one * 0, length, p, q)
            if roi is None:
                raise IRValueError("tf_crop_and_resize needs roi, a start and an end for each axis")
            begin, end = (Fraction(r).limit_denominator(1 << 20) for r in roi)
            d = np.lcm(begin.denominator, end.denominator).item()
            b, w = int(begin * d), int((end - begin) * d)
            if is_point:
                return _reduced(size, one * 0, (size - 1) * (2 * b + w), one * (2 * d), p, q)
            return _reduced(size, (size - 1) * q * w, (size - 1) * length * b, length * d, p, q)
        if mode == "asymmetric":
            return _reduced(size, q, one * 0, p, p, q)
        if mode == "tf_half_pixel_for_nn":
            return _reduced(size, q * 2, q, p * 2, p, q)
        if mode == "half_pixel_symmetric":
            return _reduced(size, q * 2, (size - 1) * p + (one - result) * q, p * 2, p, q)
        if mode == "pytorch_half_pixel" and isinstance(result, IntImm) and result.value == 1:
            return _reduced(size, one * 0, -one, one * 2, p, q)
        is_open = not isinstance(result, IntImm) and not is_number(p - q, 0)
        if mode == "pytorch_half_pixel" and is_open:
            # A single element, with x = 0, is at -1/2.
            return _reduced(size, q * 2, min_(result - 1, one) * q - p, p * 2, p, q)
        if mode in ("half_pixel", "pytorch_half_pixel"):
            return _reduced(size, q * 2, q - p, p * 2, p, q)
        raise IRValueError(f"unknown coordinate transformation {mode!r}")

    @property
    def is_identity(self) -> bool:
        """True if each element keeps its position."""
        parts = (self.step, self.start, self.divisor)
        if not all(isinstance(part, IntImm) for part in parts):
            return False
        step, start, divisor = (part.value for part in parts if isinstance(part, IntImm))
        return start == 0 and step == divisor

    def numerator(self, x: PrimExpr) -> PrimExpr:
        """Return the position of an element times the divisor."""
        return x * self.step + self.start

    def whole(self, x: PrimExpr) -> PrimExpr:
        """Return the position of an element, rounded down."""
        return floordiv(self.numerator(x), self.divisor)

    def rest(self, x: PrimExpr, dtype: str) -> PrimExpr:
        """Return the distance of an element from the position rounded down, from 0 to 1."""
        number = self.numerator(x)
        rest = number - floordiv(number, self.divisor) * self.divisor
        return div(cast(dtype, rest), cast(dtype, self.divisor))

    def outside(self, x: PrimExpr) -> list[PrimExpr]:
        """Return conditions; at least one holds for an element beyond the ends."""
        number = self.numerator(x)
        return [number < 0, number > (self.size - 1) * self.divisor]

    def rounded(self, x: PrimExpr, rounding: str) -> PrimExpr:
        """Return the position of an element, rounded by the given rule."""
        number, divisor = self.numerator(x), self.divisor
        if rounding == "floor":
            return floordiv(number, divisor)
        if rounding == "ceil":
            return floordiv(number + divisor - 1, divisor)
        if rounding == "round_prefer_floor":
            return floordiv(number * 2 + divisor - 1, divisor * 2)
        if rounding in ("round", "round_prefer_ceil"):
            return floordiv(number * 2 + divisor, divisor * 2)
        raise IRValueError(f"unknown rounding {rounding!r}")


@dataclass(frozen=True)
class MeasuredCoordinates:
    """Maps element `x` of the result to position `place(x)`, a float32 number, on an axis of
    `size`.

    Used for scales that are known only at run time.
    """

    size: PrimExpr
    place: Callable[[PrimExpr], PrimExpr]
    scale: None = None
    is_identity: bool = False

    @staticmethod
    def of(
        mode: str,
        size: PrimExpr,
        result: PrimExpr,
        scale: PrimExpr | None,
        roi: tuple[PrimExpr, PrimExpr] | None,
    ) -> MeasuredCoordinates:
        """Map an axis of `result` elements to an axis of `size`; see `Coordinates.of`."""
        one, half, zero = (const(v, FLOAT32) for v in (1.0, 0.5, 0.0))
        n, m = cast(FLOAT32, size), cast(FLOAT32, result)
        length = m if scale is None else scale * n
        ratio = m / n if scale is None else scale

        def spread(x: PrimExpr, point: PrimExpr, span: PrimExpr) -> PrimExpr:
            """Return `x` scaled to a result that spans 0 to `span`.

            A single element is at `point`.
            """
            is_point = compare(EQ, length, one)
            return select(is_point, point, x * span / select(is_point, one, length - one))

        def cropped(x: PrimExpr) -> PrimExpr:
            if roi is None:
                raise IRValueError("tf_crop_and_resize needs roi, a start and an end for each axis")
            span = (roi[1] - roi[0]) * (n - one)
            return spread(x, span * half, span) + roi[0] * (n - one)

        def half_pixel(x: PrimExpr) -> PrimExpr:
            return (x + half) / ratio - half

        functions: dict[str, Callable[[PrimExpr], PrimExpr]] = {
            "half_pixel": half_pixel,
            "half_pixel_symmetric": lambda x: n * half * (one - m / length) + half_pixel(x),
            "pytorch_half_pixel": lambda x: select(compare(EQ, m, one), -half, half_pixel(x)),
            "tf_half_pixel_for_nn": lambda x: (x + half) / ratio,
            "align_corners": lambda x: spread(x, zero, n - one),
            "asymmetric": lambda x: x / ratio,
            "tf_crop_and_resize": cropped,
        }
        if mode not in functions:
            raise IRValueError(f"unknown coordinate transformation {mode!r}")
        return MeasuredCoordinates(size, lambda x: functions[mode](cast(FLOAT32, x)))

    def whole(self, x: PrimExpr) -> PrimExpr:
        """Return the position of an element, rounded down."""
        return cast(x.dtype, te.floor(self.place(x)))

    def rest(self, x: PrimExpr, dtype: str) -> PrimExpr:
        """Return the distance of an element from the position rounded down, from 0 to 1."""
        place = self.place(x)
        return cast(dtype, place - te.floor(place))

    def outside(self, x: PrimExpr) -> list[PrimExpr]:
        """Return conditions; at least one holds for an element beyond the ends."""
        place = self.place(x)
        return [place < const(0.0, FLOAT32), place > cast(FLOAT32, self.size - 1)]

    def rounded(self, x: PrimExpr, rounding: str) -> PrimExpr:
        """Return the position of an element, rounded by the given rule."""
        place, half = self.place(x), const(0.5, FLOAT32)
        functions: dict[str, Callable[[], PrimExpr]] = {
            "floor": lambda: te.floor(place),
            "ceil": lambda: te.ceil(place),
            "round_prefer_floor": lambda: te.ceil(place - half),
            "round_prefer_ceil": lambda: te.floor(place + half),
            "round": lambda: te.floor(place + half),
        }
        if rounding not in functions:
            raise IRValueError(f"unknown rounding {rounding!r}")
        return cast(x.dtype, functions[rounding]())


Places: TypeAlias = Coordinates | MeasuredCoordinates


def _reduced(
    size: PrimExpr, step: PrimExpr, start: PrimExpr, divisor: PrimExpr, p: PrimExpr, q: PrimExpr
) -> Coordinates:
    known = isinstance(p, IntImm) and isinstance(q, IntImm)
    scale = Fraction(p.value, q.value) if known else p  # type: ignore[attr-defined]
    if isinstance(step, IntImm) and isinstance(start, IntImm) and isinstance(divisor, IntImm):
        common = gcd(step.value, start.value, divisor.value) or 1
        step, start, divisor = (
            const(part.value // common, size.dtype) for part in (step, start, divisor)
        )
    return Coordinates(size, step, start, divisor, scale)


def _ratio(
    size: PrimExpr, result: PrimExpr, scale: float | None
) -> tuple[PrimExpr, PrimExpr]:  # fmt: skip
    """Return the ratio of the result's length to the original length as two integers.

    Raises IRValueError if the original is empty and the result is not.
    """
    if scale is not None:
        if not scale > 0:
            raise IRValueError(f"scales must be positive, got {scale}")
        ratio = _fraction(scale)
        return const(ratio.numerator, size.dtype), const(ratio.denominator, size.dtype)
    if is_number(size, 0) and not is_number(result, 0):
        raise IRValueError(
            f"an axis without elements cannot be resized to {extent_text(result)}; "
            "an empty axis stays empty"
        )
    if is_number(result, 0):  # avoid a divisor of 0 for an empty axis
        return const(1, size.dtype), const(2, size.dtype)
    if isinstance(size, IntImm) and isinstance(result, IntImm):
        exact = Fraction(result.value, size.value)
        return const(exact.numerator, size.dtype), const(exact.denominator, size.dtype)
    return as_expr(result), size


def _fraction(scale: float) -> Fraction:
    """Return the simplest fraction that rounds to the same float32 as a scale."""
    exact = Fraction(scale)
    for digits in range(1, 9):
        simple = exact.limit_denominator(10**digits)
        if np.float32(simple) == np.float32(scale):
            return simple
    return exact.limit_denominator(1 << 24)
