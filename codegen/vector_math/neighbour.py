"""nextafter: the bits of a float, one up or down."""

from __future__ import annotations

from codegen.emit.context import FunctionEmitter
from codegen.emit.convert import half_to_float32
from codegen.emit.lanes import Formula
from codegen.emit.llvm_types import is_half
from tensorir.nodes.dtype import DataType
from tensorir.semantics import to_bits


def next_after(f: FunctionEmitter, x: str, y: str, dtype: DataType) -> str:
    """Write the number of `dtype` next to x in the direction of y."""
    w = number = Formula(f, dtype.bits, dtype.lanes)
    x_bits, y_bits = (w.value(v, "i") for v in (x, y))
    if is_half(dtype):
        number = Formula(f, 32, dtype.lanes)
        x, y = half_to_float32(f, x, dtype), half_to_float32(f, y, dtype)
    a, b = number.value(x), number.value(y)
    if number is w:
        x_bits, y_bits = w.bits_of(a), w.bits_of(b)
    shrinks = (a < b) ^ (a > 0)
    moved = x_bits + w.select(shrinks, w.operand(-1, "i"), 1)
    smallest = (y_bits & (1 << (dtype.bits - 1))) | 1
    beside = w.select(a.equals(0), smallest, moved)
    found = w.select(a.equals(b), y_bits, beside)
    nan = to_bits(float("nan"), dtype.element)
    result = w.select(a.compare("funo", b), w.operand(nan, "i"), found)
    return result.text if number is not w else w.float_of_bits(result).text
