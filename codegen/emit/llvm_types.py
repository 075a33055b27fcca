"""How dtypes look in LLVM IR: in a register, in memory, and as constants.

float16 and bfloat16 travel as the 16-bit integers that hold their bits, because arithmetic on them
is done in float32 with explicit rounding; a bool is `i1` in a register and a byte in memory.
"""

from __future__ import annotations

import math
import struct
from functools import cache

import numpy as np

from codegen.errors import CodegenError
from tensorir.dtype import DataType

_MEMORY_BITS = (8, 16, 32, 64)


@cache
def register_type(dtype: DataType) -> str:
    """Return the LLVM type of a value of `dtype`; CodegenError where there is none."""
    element = _element_type(dtype)
    return element if dtype.lanes == 1 else f"<{dtype.lanes} x {element}>"


@cache
def memory_type(dtype: DataType) -> str:
    """Return the LLVM type that `dtype` has in memory, with as many lanes."""
    element = "i8" if dtype.is_bool else _element_type(dtype)
    if element[0] == "i" and int(element[1:]) not in _MEMORY_BITS:
        raise CodegenError(f"dtype {dtype} cannot be stored: memory holds 8, 16, 32 or 64 bits")
    return element if dtype.lanes == 1 else f"<{dtype.lanes} x {element}>"


def is_half(dtype: DataType) -> bool:
    """Say whether `dtype` is a 16-bit float, which is computed in float32."""
    return dtype.bits == 16 and (dtype.code == "float" or dtype.code == "bfloat")


def _element_type(dtype: DataType) -> str:
    if dtype.is_integral:
        return f"i{dtype.bits}"
    if dtype.code == "float":
        return {16: "i16", 32: "float", 64: "double"}[dtype.bits]
    if dtype.code == "bfloat":
        return "i16"
    if dtype.is_handle and dtype.bits:
        return "ptr"
    raise CodegenError(f"dtype {dtype} has no arithmetic in compiled code")


def integer_text(dtype: DataType, value: int) -> str:
    """Return an integer constant (of one lane) as an operand."""
    if dtype.is_bool:
        return "true" if value else "false"
    wrapped = value & ((1 << dtype.bits) - 1)
    return str(wrapped - (1 << dtype.bits) if wrapped >> (dtype.bits - 1) else wrapped)


def float_text(dtype: DataType, value: float) -> str:
    """Return a floating point constant (of one lane) as an operand, rounded to `dtype`."""
    if dtype.code == "bfloat":
        return str(bfloat16_bits(value))
    if dtype.bits == 16:
        with np.errstate(over="ignore"):
            return str(int(np.float16(value).view(np.int16)))
    return float32_text(value) if dtype.bits == 32 else float64_text(value)


def float32_text(value: float) -> str:
    """Return `value` rounded to float32; LLVM wants it spelled as the double of equal value."""
    with np.errstate(over="ignore"):
        return float64_text(float(np.float32(value)))


def float64_text(value: float) -> str:
    """Return the bits of `value` as LLVM spells a double."""
    # Not cached: 0.0 and -0.0 are equal keys.
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def bfloat16_bits(value: float) -> int:
    """Return the bits of `value` rounded to bfloat16, nearest even, as a signed integer."""
    if abs(value) >= 2.0**128:
        value = math.copysign(math.inf, value)
    elif value and not math.isnan(value):
        last_place = max(math.frexp(value)[1] - 8, -133)
        value = math.ldexp(round(math.ldexp(value, -last_place)), last_place)
    with np.errstate(over="ignore"):
        return int(np.float32(value).view(np.int32)) >> 16


def splat(element_type: str, constant: str, lanes: int) -> str:
    """Return the constant with `constant` in each of `lanes` lanes, without its type."""
    return constant if lanes == 1 else f"splat ({element_type} {constant})"
