"""The forms of dtypes in LLVM IR: in a register, in memory, and as constants.

float16 and bfloat16 travel as the 16-bit integers that hold their bits, because arithmetic on them
is done in float32 with explicit rounding; a bool is `i1` in a register and a byte in memory.
"""

from __future__ import annotations

import struct
from functools import cache

from codegen.errors import CodegenError
from tensorir.nodes.dtype import FLOAT32, DataType
from tensorir.semantics import rounding, to_bits

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


def parameter_type(dtype: DataType) -> str:
    """Return how a value of `dtype` is passed to a function, `register_type` with attributes."""
    kind = register_type(dtype)
    return f"{kind} zeroext" if kind == "i1" else kind


def integer_text(dtype: DataType, value: int) -> str:
    """Return an integer constant (of one lane) as an operand."""
    if dtype.is_bool:
        return "true" if value else "false"
    wrapped = value & ((1 << dtype.bits) - 1)
    return str(wrapped - (1 << dtype.bits) if wrapped >> (dtype.bits - 1) else wrapped)


def float_text(dtype: DataType, value: float) -> str:
    """Return a floating point constant (of one lane) as an operand, rounded to `dtype`."""
    rounded = rounding(dtype)(value)
    if is_half(dtype):
        return integer_text(DataType("int16"), to_bits(rounded, dtype))
    return float64_text(rounded)


def float32_text(value: float) -> str:
    """Return `value` rounded to float32; LLVM wants it spelled as the double of equal value."""
    return float64_text(rounding(FLOAT32)(value))


def float64_text(value: float) -> str:
    """Return the bits of `value` as LLVM spells a double."""
    # Not cached: 0.0 and -0.0 are equal keys.
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
