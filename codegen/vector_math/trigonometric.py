"""sin, cos and tan.

The argument is reduced to `x = q * pi/2 + r` with |r| <= pi/4: in two to four parts of pi/2 for
arguments of usual size (in double precision for float32), by `large_reduction` for lanes beyond, a
path that is off the vector code and taken only where there are such lanes.
"""

from __future__ import annotations

from codegen.emit.lanes import Formula, Lane
from codegen.vector_math import coefficients as c
from codegen.vector_math.large_reduction import reduce_large_lanes

_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = tuple(
    map(float.fromhex, ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110"))
)
_HALF_PI_25 = tuple(
    map(float.fromhex, ("0x1.921fb5p+0", "0x1.110b46p-26", "0x1.1a62633145c07p-54"))
)
_HALF_PI_33 = tuple(
    map(
        float.fromhex,
        ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2ep-69", "0x1.b839a252049c1p-104"),
    )
)
"""pi/2 in parts of so few bits that products with a quotient of moderate size are exact."""
_LIMIT = {32: 2.0**27, 64: 2.0**19}


def _reduced(w: Formula, x: Lane) -> tuple[Lane, Lane]:
    """Return r and integer q (modulo 4 at least) with `x = q * pi/2 + r`."""
    if w.bits == 32:
        wide, double = w.widened(x)
        parts = _HALF_PI[:2] if w.has_fma else _HALF_PI_25
        remainder, quotient = _subtract_multiple(wide, double, parts)
        r, q = w.changed("fptrunc", remainder, "f"), w.changed("trunc", quotient, "i")
    else:
        r, q = _subtract_multiple(w, x, _HALF_PI if w.has_fma else _HALF_PI_33)
    return reduce_large_lanes(w, x, r, q, _LIMIT[w.bits])


def _subtract_multiple(w: Formula, x: Lane, parts: tuple[float, ...]) -> tuple[Lane, Lane]:
    n, quotient = w.nearest(x * _TWO_OVER_PI)
    for part in parts:
        x = w.fma(n, -part, x)
    return x, quotient


def _sin_cos(w: Formula, r: Lane) -> tuple[Lane, Lane]:
    """Return sine and cosine for |r| <= pi/4."""
    z = r * r
    sine = w.fma(r * z, w.polynomial(z, c.SIN[w.bits]), r)
    half = z * 0.5
    head = 1.0 - half
    tail = w.polynomial(z, c.COS[w.bits])
    cosine = head + w.fma(z * z, tail, 1.0 - head - half)
    return sine, cosine


def _of_quadrant(w: Formula, r: Lane, q: Lane) -> Lane:
    """Return sin(q * pi/2 + r)."""
    sine, cosine = _sin_cos(w, r)
    chosen = w.select((q & 1).equals(0), sine, cosine)
    sign = (q & 2) << (w.bits - 2)
    return w.float_of_bits(w.bits_of(chosen) ^ sign)


def sin(w: Formula, x: Lane) -> Lane:
    """Return the sine of an angle in radians."""
    r, q = _reduced(w, x)
    return w.select(x.equals(0.0), x, _of_quadrant(w, r, q))


def cos(w: Formula, x: Lane) -> Lane:
    """Return the cosine of an angle in radians."""
    r, q = _reduced(w, x)
    return _of_quadrant(w, r, q + 1)


def tan(w: Formula, x: Lane) -> Lane:
    """Return the tangent of an angle in radians."""
    r, q = _reduced(w, x)
    sine, cosine = _sin_cos(w, r)
    even = (q & 1).equals(0)
    quotient = w.select(even, sine, -cosine) / w.select(even, cosine, sine)
    return w.select(x.equals(0.0), x, quotient)
