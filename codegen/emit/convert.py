"""Conversions between dtypes, 16-bit floats included.

Every conversion to a float rounds once, to nearest even. A float becomes an integer by truncation;
one that does not fit gives the nearest integer that does, and NaN gives 0. A number becomes a bool
by comparison with 0. Conversions that the processor lacks (bfloat16; float16 without F16C; doubles
to 16 bits) are spelled out in integer arithmetic, because LLVM would call a support library that
is not there.
"""

from __future__ import annotations

from codegen.emit.context import FunctionEmitter, emits, mangled
from codegen.emit.llvm_types import float32_text, is_half, register_type
from tensorir.nodes.dtype import FLOAT32, FLOAT64, DataType
from tensorir.nodes.expr import Cast


@emits(Cast)
def _cast(f: FunctionEmitter, node: Cast) -> str:
    return convert(f, f.expr(node.value), node.value.dtype, node.dtype)


def convert(f: FunctionEmitter, value: str, source: DataType, target: DataType) -> str:
    """Write the conversion of `value`; both dtypes have the same lanes."""
    if source is target:
        return value
    if source.is_handle or target.is_handle:
        f.fail(f"{source} cannot be cast to {target}")
    if is_half(source):
        single = FLOAT32.with_lanes(source.lanes)
        return convert(f, half_to_float32(f, value, source), single, target)
    if is_half(target):
        return _to_half(f, value, source, target)
    from_type, to_type = register_type(source), register_type(target)
    if source.is_integral and target.is_integral:
        return _between_integers(f, value, source, target)
    if source.is_integral:
        convert_int = "sitofp" if source.is_int else "uitofp"
        return f.op(f"{convert_int} {from_type} {value} to {to_type}")
    if target.is_bool:
        return f.op(f"fcmp une {from_type} {value}, zeroinitializer")
    if target.is_integral:
        name = "fptosi" if target.is_int else "fptoui"
        return f.call_intrinsic(
            f"llvm.{name}.sat.{mangled(target)}.{mangled(source)}", to_type, [(from_type, value)]
        )
    widen = "fpext" if target.bits > source.bits else "fptrunc"
    return f.op(f"{widen} {from_type} {value} to {to_type}")


def _between_integers(f: FunctionEmitter, value: str, source: DataType, target: DataType) -> str:
    from_type, to_type = register_type(source), register_type(target)
    if target.is_bool:
        return f.op(f"icmp ne {from_type} {value}, zeroinitializer")
    if target.bits == source.bits:
        return value
    if target.bits < source.bits:
        return f.op(f"trunc {from_type} {value} to {to_type}")
    extend = "sext" if source.is_int else "zext"
    return f.op(f"{extend} {from_type} {value} to {to_type}")


def _to_half(f: FunctionEmitter, value: str, source: DataType, target: DataType) -> str:
    single, double = FLOAT32.with_lanes(source.lanes), FLOAT64.with_lanes(source.lanes)
    if source.is_integral and (source.bits <= 16 or target.code == "float"):
        # Either float32 holds the integer, or it is so large that float16 overflows in any case.
        return float32_to_half(f, convert(f, value, source, single), target)
    if source.is_integral:
        if source.bits == 64:
            value = _with_sticky_bit(f, value, source)
        value, source = convert(f, value, source, double), double
    if source.bits == 64:
        value = _float64_to_float32_odd(f, value, source)
    return float32_to_half(f, value, target)


def _with_sticky_bit(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    """Fold the low bits of a large 64-bit integer into one, so that a double holds it exactly.

    The result lies on the same side of every bfloat16 and of every middle between two.
    """
    kind = register_type(dtype)
    low = f.op(f"and {kind} {value}, {_splat(f, 'i64', 0x7FF, dtype)}")
    some = f.op(f"add {kind} {low}, {_splat(f, 'i64', 0x7FF, dtype)}")
    sticky = f.op(f"or {kind} {value}, {some}")
    rounded = f.op(f"and {kind} {sticky}, {_splat(f, 'i64', ~0x7FF, dtype)}")
    magnitude = value
    if dtype.is_int:
        magnitude = f.call_intrinsic(
            f"llvm.abs.{mangled(dtype)}", kind, [(kind, value), ("i1", "false")]
        )
    mask = "i1" if dtype.lanes == 1 else f"<{dtype.lanes} x i1>"
    large = f.op(f"icmp uge {kind} {magnitude}, {_splat(f, 'i64', 1 << 53, dtype)}")
    return f.op(f"select {mask} {large}, {kind} {rounded}, {kind} {value}")


def _splat(f: FunctionEmitter, element: str, value: int | str, dtype: DataType) -> str:
    return f.splat(str(value), element, dtype.lanes)


def _float64_to_float32_odd(f: FunctionEmitter, value: str, source: DataType) -> str:
    """Round doubles to float32 so that a second rounding to 16 bits is as good as one.

    An inexact result gets its last bit set (round to odd), which says "a bit more" or "a bit less"
    to the rounding that follows.
    """
    lanes = source.lanes
    mask = "i1" if lanes == 1 else f"<{lanes} x i1>"
    double, single = register_type(source), register_type(FLOAT32.with_lanes(lanes))
    bits_type = register_type(DataType("int32").with_lanes(lanes))
    one = _splat(f, "i32", 1, source)
    near = f.op(f"fptrunc {double} {value} to {single}")
    back = f.op(f"fpext {single} {near} to {double}")
    bits = f.op(f"bitcast {single} {near} to {bits_type}")
    inexact = f.op(f"fcmp one {double} {back}, {value}")
    low = f.op(f"trunc {bits_type} {bits} to {mask}")
    even = f.op(f"xor {mask} {low}, {_splat(f, 'i1', 'true', source)}")
    fix = f.op(f"and {mask} {inexact}, {even}")
    magnitude = f.math_intrinsic("fabs", source, value)
    magnitude_back = f.math_intrinsic("fabs", source, back)
    below = f.op(f"fcmp olt {double} {magnitude_back}, {magnitude}")
    step = f.op(
        f"select {mask} {below}, {bits_type} {one}, {bits_type} {_splat(f, 'i32', -1, source)}"
    )
    moved = f.op(f"add {bits_type} {bits}, {step}")
    chosen = f.op(f"select {mask} {fix}, {bits_type} {moved}, {bits_type} {bits}")
    return f.op(f"bitcast {bits_type} {chosen} to {single}")


def half_to_float32(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    """Write the exact conversion of float16 or bfloat16 bits to float32."""
    lanes = dtype.lanes
    short, bits_type = register_type(dtype), register_type(DataType("int32").with_lanes(lanes))
    single = register_type(FLOAT32.with_lanes(lanes))
    if dtype.code == "float" and "f16c" in f.module.features:
        half = "half" if lanes == 1 else f"<{lanes} x half>"
        return f.op(f"fpext {half} {f.op(f'bitcast {short} {value} to {half}')} to {single}")
    bits = f.op(f"zext {short} {value} to {bits_type}")
    if dtype.code == "bfloat":
        high = f.op(f"shl {bits_type} {bits}, {_splat(f, 'i32', 16, dtype)}")
        return f.op(f"bitcast {bits_type} {high} to {single}")
    # Scaling by a power of two moves the exponent and makes subnormals normal at once.
    magnitude = f.op(f"and {bits_type} {bits}, {_splat(f, 'i32', 0x7FFF, dtype)}")
    placed = f.op(f"shl {bits_type} {magnitude}, {_splat(f, 'i32', 13, dtype)}")
    small = f.op(f"bitcast {bits_type} {placed} to {single}")
    scale = f.splat(float32_text(2.0**112), "float", lanes)
    scaled = f.op(f"bitcast {single} {f.op(f'fmul {single} {small}, {scale}')} to {bits_type}")
    mask = "i1" if lanes == 1 else f"<{lanes} x i1>"
    special = f.op(f"icmp uge {bits_type} {magnitude}, {_splat(f, 'i32', 0x7C00, dtype)}")
    infinite = f.op(f"or {bits_type} {scaled}, {_splat(f, 'i32', 0x7F800000, dtype)}")
    chosen = f.op(f"select {mask} {special}, {bits_type} {infinite}, {bits_type} {scaled}")
    sign_bit = f.op(f"and {bits_type} {bits}, {_splat(f, 'i32', 0x8000, dtype)}")
    sign = f.op(f"shl {bits_type} {sign_bit}, {_splat(f, 'i32', 16, dtype)}")
    return f.op(f"bitcast {bits_type} {f.op(f'or {bits_type} {chosen}, {sign}')} to {single}")


def half_to_float32_lanes(f: FunctionEmitter, value: str, dtype: DataType, lanes: int) -> str:
    """Write the exact conversion of one float16 or bfloat16 to float32 in each of some lanes."""
    if dtype.code == "float":
        return half_to_float32(f, f.splat(value, "i16", lanes), dtype.with_lanes(lanes))
    # Of two copies of it in a lane, one is shifted out.
    bits, pairs = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    both = f.pure(f"bitcast {pairs} {f.splat(value, 'i16', 2 * lanes)} to {bits}")
    high = f.pure(f"shl {bits} {both}, splat (i32 16)")
    return f.pure(f"bitcast {bits} {high} to <{lanes} x float>")


def float32_to_half(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    """Write the conversion of float32 to the bits of float16 or bfloat16, nearest even."""
    lanes = dtype.lanes
    short, bits_type = register_type(dtype), register_type(DataType("int32").with_lanes(lanes))
    single = register_type(FLOAT32.with_lanes(lanes))
    if dtype.code == "float" and "f16c" in f.module.features:
        half = "half" if lanes == 1 else f"<{lanes} x half>"
        return f.op(f"bitcast {half} {f.op(f'fptrunc {single} {value} to {half}')} to {short}")
    bits = f.op(f"bitcast {single} {value} to {bits_type}")
    narrow = _float32_to_bfloat16 if dtype.code == "bfloat" else _float32_to_float16
    return f.op(f"trunc {bits_type} {narrow(f, value, bits, dtype)} to {short}")


def _float32_to_bfloat16(f: FunctionEmitter, value: str, bits: str, dtype: DataType) -> str:
    lanes = dtype.lanes
    kind, single = (
        register_type(DataType("int32").with_lanes(lanes)),
        register_type(FLOAT32.with_lanes(lanes)),
    )
    mask = "i1" if lanes == 1 else f"<{lanes} x i1>"
    high = f.op(f"lshr {kind} {bits}, {_splat(f, 'i32', 16, dtype)}")
    odd = f.op(f"and {kind} {high}, {_splat(f, 'i32', 1, dtype)}")
    biased = f.op(f"add {kind} {bits}, {_splat(f, 'i32', 0x7FFF, dtype)}")
    rounded = f.op(
        f"lshr {kind} {f.op(f'add {kind} {biased}, {odd}')}, {_splat(f, 'i32', 16, dtype)}"
    )
    quiet = f.op(f"or {kind} {high}, {_splat(f, 'i32', 0x40, dtype)}")
    is_nan = f.op(f"fcmp uno {single} {value}, {value}")
    return f.op(f"select {mask} {is_nan}, {kind} {quiet}, {kind} {rounded}")


def _float32_to_float16(f: FunctionEmitter, value: str, bits: str, dtype: DataType) -> str:
    lanes = dtype.lanes
    kind, single = (
        register_type(DataType("int32").with_lanes(lanes)),
        register_type(FLOAT32.with_lanes(lanes)),
    )
    mask = "i1" if lanes == 1 else f"<{lanes} x i1>"

    def const(number: int) -> str:
        return _splat(f, "i32", number, dtype)

    magnitude = f.op(f"and {kind} {bits}, {const(0x7FFFFFFF)}")
    # Normal results: rebias the exponent and round at bit 13.
    odd = f.op(f"and {kind} {f.op(f'lshr {kind} {magnitude}, {const(13)}')}, {const(1)}")
    biased = f.op(f"add {kind} {magnitude}, {const(0xFFF - (112 << 23))}")
    normal = f.op(f"lshr {kind} {f.op(f'add {kind} {biased}, {odd}')}, {const(13)}")
    # Subnormal results: adding 0.5 makes the float unit round at the place of the last bit.
    absolute = f.op(f"bitcast {kind} {magnitude} to {single}")
    half = f.splat(float32_text(0.5), "float", lanes)
    shifted = f.op(f"bitcast {single} {f.op(f'fadd {single} {absolute}, {half}')} to {kind}")
    subnormal = f.op(f"sub {kind} {shifted}, {const(0x3F000000)}")
    is_small = f.op(f"icmp ult {kind} {magnitude}, {const(0x38800000)}")
    finite = f.op(f"select {mask} {is_small}, {kind} {subnormal}, {kind} {normal}")
    is_nan = f.op(f"fcmp uno {single} {value}, {value}")
    special = f.op(f"select {mask} {is_nan}, {kind} {const(0x7E00)}, {kind} {const(0x7C00)}")
    is_large = f.op(f"icmp uge {kind} {magnitude}, {const(0x47800000)}")
    result = f.op(f"select {mask} {is_large}, {kind} {special}, {kind} {finite}")
    sign = f.op(f"and {kind} {f.op(f'lshr {kind} {bits}, {const(16)}')}, {const(0x8000)}")
    return f.op(f"or {kind} {result}, {sign}")
