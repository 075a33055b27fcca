"""nextafter: the bits of a float, one up or down."""

from __future__ import annotations

from codegen.emit.context import FunctionEmitter
from codegen.emit.convert import half_to_float32
from codegen.emit.llvm_types import float_text, integer_text, is_half, register_type
from tensorir.nodes.dtype import FLOAT32, DataType


def next_after(f: FunctionEmitter, x: str, y: str, dtype: DataType) -> str:
    """Write the number of `dtype` next to x in the direction of y."""
    lanes = dtype.lanes
    pattern = DataType(f"int{dtype.bits}").with_lanes(lanes)
    bits, element = register_type(pattern), register_type(pattern.element)
    mask = register_type(DataType("bool").with_lanes(lanes))
    kind = register_type(dtype)

    def constant(value: int) -> str:
        return f.splat(integer_text(pattern.element, value), element, lanes)

    if is_half(dtype):
        x_bits, y_bits = x, y
        a, b = half_to_float32(f, x, dtype), half_to_float32(f, y, dtype)
        number = register_type(FLOAT32.with_lanes(lanes))
    else:
        x_bits, y_bits = (f.op(f"bitcast {kind} {v} to {bits}") for v in (x, y))
        a, b, number = x, y, kind
    rises = f.op(f"fcmp olt {number} {a}, {b}")
    positive = f.op(f"fcmp ogt {number} {a}, zeroinitializer")
    shrinks = f.op(f"xor {mask} {rises}, {positive}")
    step = f.op(f"select {mask} {shrinks}, {bits} {constant(-1)}, {bits} {constant(1)}")
    moved = f.op(f"add {bits} {x_bits}, {step}")
    sign = f.op(f"and {bits} {y_bits}, {constant(1 << (dtype.bits - 1))}")
    smallest = f.op(f"or {bits} {sign}, {constant(1)}")
    is_zero = f.op(f"fcmp oeq {number} {a}, zeroinitializer")
    beside = f.op(f"select {mask} {is_zero}, {bits} {smallest}, {bits} {moved}")
    is_there = f.op(f"fcmp oeq {number} {a}, {b}")
    found = f.op(f"select {mask} {is_there}, {bits} {y_bits}, {bits} {beside}")
    result = found if is_half(dtype) else f.op(f"bitcast {bits} {found} to {kind}")
    nan = f.splat(float_text(dtype.element, float("nan")), register_type(dtype.element), lanes)
    is_nan = f.op(f"fcmp uno {number} {a}, {b}")
    return f.op(f"select {mask} {is_nan}, {kind} {nan}, {kind} {result}")
