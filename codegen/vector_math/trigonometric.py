"""sin, cos and tan.

The argument is reduced to `x = q * pi/2 + r` with |r| <= pi/4: with two to four parts of pi/2 for
arguments of usual size (in double precision for float32), and by Payne and Hanek's method for
larger ones. The latter is separate scalar code, which runs only if a lane needs it.
"""

from __future__ import annotations

from typing import Final

from codegen.abi import local_symbol
from codegen.emit.lanes import Formula, Lane
from codegen.emit.llvm_text import float64_text, global_name
from codegen.vector_math import coefficients as c

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


def _reduce_argument(w: Formula, x: Lane) -> tuple[Lane, Lane]:
    """Return r and integer q (modulo 4 at least) with `x = q * pi/2 + r`."""
    if w.bits == 32:
        wide, double = w.widened(x)
        parts = _HALF_PI[:2] if w.has_fma else _HALF_PI_25
        remainder, quotient = _subtract_multiple(wide, double, parts)
        r, q = w.convert("fptrunc", remainder, "f"), w.convert("trunc", quotient, "i")
    else:
        r, q = _subtract_multiple(w, x, _HALF_PI if w.has_fma else _HALF_PI_33)
    return reduce_large_lanes(w, x, r, q, _LIMIT[w.bits])


def _subtract_multiple(w: Formula, x: Lane, parts: tuple[float, ...]) -> tuple[Lane, Lane]:
    n, quotient = w.round_to_nearest(x * _TWO_OVER_PI)
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


def _sin_in_quadrant(w: Formula, r: Lane, q: Lane) -> Lane:
    """Return sin(q * pi/2 + r)."""
    sine, cosine = _sin_cos(w, r)
    chosen = w.select((q & 1).equals(0), sine, cosine)
    sign = (q & 2) << (w.bits - 2)
    return w.float_of_bits(w.bits_of(chosen) ^ sign)


def sin(w: Formula, x: Lane) -> Lane:
    """Return the sine of an angle in radians."""
    r, q = _reduce_argument(w, x)
    return w.select(x.equals(0.0), x, _sin_in_quadrant(w, r, q))


def cos(w: Formula, x: Lane) -> Lane:
    """Return the cosine of an angle in radians."""
    r, q = _reduce_argument(w, x)
    return _sin_in_quadrant(w, r, q + 1)


def tan(w: Formula, x: Lane) -> Lane:
    """Return the tangent of an angle in radians."""
    r, q = _reduce_argument(w, x)
    sine, cosine = _sin_cos(w, r)
    even = (q & 1).equals(0)
    quotient = w.select(even, sine, -cosine) / w.select(even, cosine, sine)
    return w.select(x.equals(0.0), x, quotient)


# ---------------------------------------------------------------------------------- large arguments
#
# Reducing large angles modulo pi/2, after Payne and Hanek (1983).
#
# The fraction of `x * 2/pi` needs only those bits of 2/pi that the exponent of x moves next to the
# binary point: 256 of them, starting where the product is a multiple of 4 above. One function per
# module computes it, lane by lane in integers of 320 bits; vector code calls it only if some lane
# is large. It is rare, so it is not optimised, which would be slow.


_TWO_OVER_PI_BITS: Final = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea"
    "09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b"
    "1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f7"
    "8a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
"""The first 1280 bits of 2/pi, as an integer."""
_WORDS: Final = 20


def reduce_large_lanes(w: Formula, x: Lane, r: Lane, q: Lane, limit: float) -> tuple[Lane, Lane]:
    """Return remainder and quotient, with the lanes replaced where `limit <= |x| < infinity`."""
    f = w.f
    size = w.abs(x)
    large = size >= limit
    if w.lanes == 1:
        some = large.text
    else:
        mask = w.types["m"]
        some = f.call_intrinsic(f"llvm.vector.reduce.or.v{w.lanes}i1", "i1", [(mask, large.text)])
    slots = [f.stack(w.types[kind], 64) for kind in ("f", "f", "i")]
    repair, done, origin = f.new_label("large"), f.new_label("reduced"), f.block
    f.branch_if(some, repair, done)
    f.start(repair)
    for slot, lane in zip(slots, (x, r, q), strict=True):
        f.do(f"store {w.types[lane.kind]} {lane.text}, ptr {slot}")
    name = _function(w, limit)
    f.do(f"call void {name}(ptr {slots[0]}, ptr {slots[1]}, ptr {slots[2]}, i64 {w.lanes})")
    new_r = f.op(f"load {w.types['f']}, ptr {slots[1]}")
    new_q = f.op(f"load {w.types['i']}, ptr {slots[2]}")
    f.branch(done)
    f.start(done)
    merged_r = f.op(f"phi {w.types['f']} [{r.text}, %{origin}], [{new_r}, %{repair}]")
    merged_q = f.op(f"phi {w.types['i']} [{q.text}, %{origin}], [{new_q}, %{repair}]")
    return w.value(merged_r), w.value(merged_q, "i")


def _function(w: Formula, limit: float) -> str:
    text = w.f.module.text
    table = global_name(local_symbol("two_over_pi"))
    text.declare(
        table,
        f"{table} = private unnamed_addr constant i{64 * _WORDS} {_TWO_OVER_PI_BITS}, align 64",
    )
    name = global_name(local_symbol(f"reduce_large.f{w.bits}"))
    for intrinsic, kind, operands in (
        ("ctlz.i256", "i256", "i256, i1"),
        ("fma.f64", "double", "double, double, double"),
        ("fabs.f64", "double", "double"),
    ):
        text.declare(f"llvm.{intrinsic}", f"declare {kind} @llvm.{intrinsic}({operands})")
    text.declare(name, _definition(name, w.bits, limit, table))
    return name


def _definition(name: str, bits: int, limit: float, table: str) -> str:
    kind = "float" if bits == 32 else "double"
    widen = "fpext float %x.n to double" if bits == 32 else "fadd double %x.n, -0.0"
    store_r = "fptrunc double %r.signed to float" if bits == 32 else "fadd double %r.signed, -0.0"
    store_q = "trunc i64 %q.signed to i32" if bits == 32 else "add i64 %q.signed, 0"
    half_pi = [
        float64_text(float.fromhex(h)) for h in ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54")
    ]
    header = f"define internal void {name}(ptr %x, ptr %r, ptr %q, i64 %lanes)"
    return f"""{header} noinline optnone cold nounwind {{
entry:
  br label %lane
lane:
  %k = phi i64 [0, %entry], [%k.next, %next]
  %x.at = getelementptr {kind}, ptr %x, i64 %k
  %x.n = load {kind}, ptr %x.at
  %v = {widen}
  %size = call double @llvm.fabs.f64(double %v)
  %large = fcmp oge double %size, {float64_text(limit)}
  %finite = fcmp olt double %size, {float64_text(float("inf"))}
  %needed = and i1 %large, %finite
  br i1 %needed, label %reduce, label %next
reduce:
  %bits = bitcast double %size to i64
  %biased = lshr i64 %bits, 52
  %exponent = sub i64 %biased, 1075
  %fraction = and i64 %bits, 4503599627370495
  %mantissa = or i64 %fraction, 4503599627370496
  ; Words of 2/pi above `skip` contribute multiples of 4.
  %above = sub i64 %exponent, 2
  %words = ashr i64 %above, 6
  %negative.skip = icmp slt i64 %words, 0
  %skip = select i1 %negative.skip, i64 0, i64 %words
  %word = sub i64 {_WORDS - 4}, %skip
  %window.at = getelementptr i64, ptr {table}, i64 %word
  %window = load i256, ptr %window.at, align 8
  %window.wide = zext i256 %window to i320
  %mantissa.wide = zext i64 %mantissa to i320
  %product = mul i320 %window.wide, %mantissa.wide
  %skipped = shl i64 %skip, 6
  %shift = sub i64 %exponent, %skipped
  %left = icmp sge i64 %shift, 0
  %shift.right = sub i64 0, %shift
  %amount = select i1 %left, i64 %shift, i64 %shift.right
  %amount.wide = zext i64 %amount to i320
  %moved.left = shl i320 %product, %amount.wide
  %moved.right = lshr i320 %product, %amount.wide
  %turns = select i1 %left, i320 %moved.left, i320 %moved.right
  %part = trunc i320 %turns to i256
  %whole.wide = lshr i320 %turns, 256
  %whole = trunc i320 %whole.wide to i64
  %round.up = icmp slt i256 %part, 0
  %one = zext i1 %round.up to i64
  %quotient = add i64 %whole, %one
  %part.negated = sub i256 0, %part
  %rest = select i1 %round.up, i256 %part.negated, i256 %part
  %zeros = call i256 @llvm.ctlz.i256(i256 %rest, i1 false)
  %normal = shl i256 %rest, %zeros
  %high.wide = lshr i256 %normal, 203
  %high.bits = trunc i256 %high.wide to i64
  %low.wide = lshr i256 %normal, 150
  %low.mixed = trunc i256 %low.wide to i64
  %low.bits = and i64 %low.mixed, 9007199254740991
  %high.int = uitofp i64 %high.bits to double
  %low.int = uitofp i64 %low.bits to double
  %high = fmul double %high.int, {float64_text(2.0**-53)}
  %low = fmul double %low.int, {float64_text(2.0**-106)}
  %main = fmul double %high, {half_pi[0]}
  %main.neg = fneg double %main
  %error = call double @llvm.fma.f64(double %high, double {half_pi[0]}, double %main.neg)
  %second = fmul double %high, {half_pi[1]}
  %third = fmul double %low, {half_pi[0]}
  %small = fadd double %second, %third
  %correction = fadd double %error, %small
  %unscaled = fadd double %main, %correction
  %zeros.small = trunc i256 %zeros to i64
  %scale.biased = sub i64 1023, %zeros.small
  %scale.bits = shl i64 %scale.biased, 52
  %scale = bitcast i64 %scale.bits to double
  %r.plain = fmul double %unscaled, %scale
  %r.neg = fneg double %r.plain
  %x.negative = fcmp olt double %v, 0.0
  %flip = xor i1 %x.negative, %round.up
  %r.signed = select i1 %flip, double %r.neg, double %r.plain
  %q.neg = sub i64 0, %quotient
  %q.signed = select i1 %x.negative, i64 %q.neg, i64 %quotient
  %r.out = {store_r}
  %q.out = {store_q}
  %r.at = getelementptr {kind}, ptr %r, i64 %k
  %q.at = getelementptr i{bits}, ptr %q, i64 %k
  store {kind} %r.out, ptr %r.at
  store i{bits} %q.out, ptr %q.at
  br label %next
next:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %lanes
  br i1 %more, label %lane, label %end
end:
  ret void
}}"""
