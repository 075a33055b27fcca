"""erf: a polynomial up to 1, `1 - exp(-p(|x|))` beyond."""

from __future__ import annotations

from codegen.emit.lanes import Formula, Lane
from codegen.vector_math import coefficients as c
from codegen.vector_math.exponential import exp_of_moderate


def erf(w: Formula, x: Lane) -> Lane:
    """Return the error function."""
    a = w.abs(x)
    inner = w.fma(a, w.polynomial(a * a, c.ERF_SMALL_32 if w.bits == 32 else c.ERF_SMALL_64), a)
    limit = 3.95 if w.bits == 32 else 5.95  # from here on the result rounds to 1
    t = w.at_most(a, limit) - 2.0
    tail = w.polynomial(t, c.ERF_TAIL_32 if w.bits == 32 else c.ERF_TAIL_64)
    # Below 1 the tail is not used, and far below it may be anything.
    outer = 1.0 - exp_of_moderate(w, -tail)
    return w.copysign(w.select(a < 1.0, inner, outer), x)
