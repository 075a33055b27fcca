"""Conversions between dtypes, 16-bit floats included.

Every conversion to a float rounds once, to nearest even. A float becomes an integer by truncation;
a value out of range gives the nearest integer in range, and NaN gives 0. A number becomes a bool
by comparison with 0. Conversions that the processor lacks (bfloat16; float16 without F16C; doubles
to 16 bits) are written in integer arithmetic, because LLVM would call a support library that is not
linked.
"""

from __future__ import annotations

from codegen.emit.context import FunctionEmitter, emits, mangled
from codegen.emit.lanes import Formula, Lane
from codegen.emit.llvm_text import is_half, register_type
from tensorir.nodes.dtype import BOOL, FLOAT32, FLOAT64, DataType
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
        converted = f.call_intrinsic(
            f"llvm.{name}.sat.{mangled(target)}.{mangled(source)}", to_type, [(from_type, value)]
        )
        if f.module.dialect.converts_nan:
            return converted
        test = f.op(f"fcmp uno {from_type} {value}, {value}")
        mask = register_type(BOOL.with_lanes(source.lanes))
        return f.op(f"select {mask} {test}, {to_type} zeroinitializer, {to_type} {converted}")
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
        # Either float32 represents the integer exactly, or the integer is so large that float16
        # overflows.
        return float32_to_half(f, convert(f, value, source, single), target)
    if source.is_integral:
        if source.bits == 64:
            value = _with_sticky_bit(f, value, source)
        value, source = convert(f, value, source, double), double
    if source.bits == 64:
        value = _float64_to_float32_odd(f, value, source.lanes)
    return float32_to_half(f, value, target)


def _with_sticky_bit(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    """Fold the low bits of a large 64-bit integer into one, so that a double represents it exactly.

    The result is on the same side of every bfloat16 and of every midpoint between two.
    """
    w = Formula(f, 64, dtype.lanes)
    n = magnitude = w.value(value, "i")
    sticky = n | ((n & 0x7FF) + 0x7FF)
    rounded = sticky & ~0x7FF
    if dtype.is_int:
        operands = [(w.types["i"], value), ("i1", "false")]
        name = f"llvm.abs.{mangled(dtype)}"
        magnitude = w.value(f.call_intrinsic(name, w.types["i"], operands), "i")
    return w.select(magnitude.compare("iuge", 1 << 53), rounded, n).text


def _float64_to_float32_odd(f: FunctionEmitter, value: str, lanes: int) -> str:
    """Round doubles to float32 so that a second rounding to 16 bits is as good as one.

    An inexact result gets its last bit set (round to odd), so the second rounding knows on which
    side of the result the exact value is.
    """
    w, x = Formula(f, 32, lanes), Formula(f, 64, lanes).value(value)
    near = w.convert("fptrunc", x, "f")
    wide, back = w.widened(near)
    bits = w.bits_of(near)
    inexact = back.compare("fone", x)
    fix = inexact & ~w.convert("trunc", bits, "m")
    step = w.select(wide.abs(back) < wide.abs(x), w.operand(1, "i"), -1)
    return w.float_of_bits(w.select(fix, bits + step, bits)).text


def half_to_float32(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    """Write the exact conversion of float16 or bfloat16 bits to float32."""
    w, short = Formula(f, 32, dtype.lanes), register_type(dtype)
    if _is_converted_by_instruction(f, dtype):
        half = _half_type(dtype)
        return f.op(f"fpext {half} {f.op(f'bitcast {short} {value} to {half}')} to {w.types['f']}")
    bits = w.value(f.op(f"zext {short} {value} to {w.types['i']}"), "i")
    if dtype.code == "bfloat":
        return w.float_of_bits(bits << 16).text
    # Scaling by a power of two both moves the exponent and makes subnormals normal.
    magnitude = bits & 0x7FFF
    scaled = w.bits_of(w.float_of_bits(magnitude << 13) * 2.0**112)
    chosen = w.select(magnitude.compare("iuge", 0x7C00), scaled | 0x7F800000, scaled)
    return w.float_of_bits(chosen | ((bits & 0x8000) << 16)).text


def _is_converted_by_instruction(f: FunctionEmitter, dtype: DataType) -> bool:
    return dtype.code == "float" and "f16c" in f.module.target.features


def _half_type(dtype: DataType) -> str:
    return "half" if dtype.lanes == 1 else f"<{dtype.lanes} x half>"


def half_to_float32_lanes(f: FunctionEmitter, value: str, dtype: DataType, lanes: int) -> str:
    """Write the exact conversion of one float16 or bfloat16 to float32 in each of some lanes."""
    if dtype.code == "float":
        return half_to_float32(f, f.splat(value, "i16", lanes), dtype.with_lanes(lanes))
    # A 32-bit lane gets two copies of the number, and one of them is shifted out.
    bits, pairs = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    both = f.pure(f"bitcast {pairs} {f.splat(value, 'i16', 2 * lanes)} to {bits}")
    high = f.pure(f"shl {bits} {both}, splat (i32 16)")
    return f.pure(f"bitcast {bits} {high} to <{lanes} x float>")


def float32_to_half(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    """Write the conversion of float32 to the bits of float16 or bfloat16, nearest even."""
    w, short = Formula(f, 32, dtype.lanes), register_type(dtype)
    if _is_converted_by_instruction(f, dtype):
        half = _half_type(dtype)
        narrow = f.op(f"fptrunc {w.types['f']} {value} to {half}")
        return f.op(f"bitcast {half} {narrow} to {short}")
    convert = _float32_to_bfloat16 if dtype.code == "bfloat" else _float32_to_float16
    return f.op(f"trunc {w.types['i']} {convert(w, w.value(value)).text} to {short}")


def _float32_to_bfloat16(w: Formula, x: Lane) -> Lane:
    bits = w.bits_of(x)
    high = bits >> 16
    odd = high & 1
    rounded = (bits + 0x7FFF + odd) >> 16
    quiet = high | 0x40
    return w.select(x.is_nan(), quiet, rounded)


def _float32_to_float16(w: Formula, x: Lane) -> Lane:
    bits = w.bits_of(x)
    magnitude = bits & 0x7FFFFFFF
    # Normal results: rebias the exponent and round at bit 13.
    odd = (magnitude >> 13) & 1
    normal = (magnitude + (0xFFF - (112 << 23)) + odd) >> 13
    # Subnormal results: adding 0.5 makes the float unit round at the position of the last bit.
    subnormal = w.bits_of(w.float_of_bits(magnitude) + 0.5) - 0x3F000000
    finite = w.select(magnitude.compare("iult", 0x38800000), subnormal, normal)
    special = w.select(x.is_nan(), w.operand(0x7E00, "i"), 0x7C00)
    result = w.select(magnitude.compare("iuge", 0x47800000), special, finite)
    return result | ((bits >> 16) & 0x8000)
