"""Functions of a real variable, as vector code.

Error bounds in units in the last place (ULP), which `tests/codegen/test_vector_math.py` checks by
sweeps over all arguments (with fused multiply-add; without it up to 0.75 ULP more):

| function | float32 | float64 |
| --- | --- | --- |
| exp, exp10 | 1 | 1.1 |
| exp2 | 1 | 1 |
| log, log2, log10 | 1 | 1 |
| log1p | 1.5 | 1.5 |
| tanh, sigmoid | 2.5 | 2.5 |
| erf | 2 | 2 |
| sin, cos | 1.5 | 1.5 |
| tan | 3 | 3 |
| pow | 0.51 | 1.25 |
| rsqrt | 1.5 | 1.5 |
| sqrt, fabs, floor, ceil, trunc, round, fma | 0.5 | 0.5 |

Results for NaN, infinities, zeros and subnormals are those of the C library. A scalar call runs the
same instructions as one lane of a vector call. The other functions (sinh, cosh, asin, acos, atan,
asinh, acosh, atanh, atan2, hypot, fmod, ldexp; pow of float64 on a CPU without fused multiply-add)
call the C library once per lane. float16 and bfloat16 are computed in float32 and rounded, except
for nextafter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from codegen.emit.context import FunctionEmitter, emits_call
from codegen.emit.convert import convert, float32_to_half, half_to_float32
from codegen.emit.lanes import Formula, Lane
from codegen.emit.llvm_text import is_half, register_type
from codegen.vector_math import exponential, trigonometric
from codegen.vector_math.exponential import power
from tensorir.nodes.dtype import FLOAT32, INT32, DataType
from tensorir.nodes.expr import Call
from tensorir.nodes.intrin import Op
from tensorir.semantics import to_bits

_FORMULAS: Final[dict[str, Callable[[Formula, Lane], Lane]]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "exp10": exponential.exp10,
    "tanh": exponential.tanh,
    "sigmoid": exponential.sigmoid,
    "log": exponential.log,
    "log2": exponential.log2,
    "log10": exponential.log10,
    "log1p": exponential.log1p,
    "erf": exponential.erf,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "rsqrt": lambda w, x: 1.0 / w.intrinsic("sqrt", x),
}
_INSTRUCTIONS: Final = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "roundeven",
    "nearbyint": "roundeven",
    "fabs": "fabs",
    "copysign": "copysign",
    "fma": "fma",
}
"""Functions for which LLVM has instructions; `round` rounds halves to even, as NumPy does."""
_LIBRARY: Final = "sinh cosh asin acos atan asinh acosh atanh atan2 hypot fmod"
_INTEGERS_UNCHANGED: Final = frozenset({"floor", "ceil", "trunc", "round", "nearbyint"})


@emits_call(*_FORMULAS, *_INSTRUCTIONS, *_LIBRARY.split(), "pow")
def _function(f: FunctionEmitter, node: Call) -> str:
    assert isinstance(node.op, Op)
    name, dtype = node.op.short_name, node.dtype
    operands = [f.expr(arg) for arg in node.args]
    if dtype.is_integral:
        return _emit_for_integers(f, name, dtype, operands)
    if not is_half(dtype):
        return _emit_for_floats(f, name, dtype, operands)
    single = FLOAT32.with_lanes(dtype.lanes)
    widened = [half_to_float32(f, value, dtype) for value in operands]
    return float32_to_half(f, _emit_for_floats(f, name, single, widened), dtype)


def _emit_for_integers(f: FunctionEmitter, name: str, dtype: DataType, operands: list[str]) -> str:
    if name in _INTEGERS_UNCHANGED or (name == "fabs" and dtype.is_uint):
        return operands[0]
    if name == "fabs":
        kind = register_type(dtype)
        negated = f.op(f"sub {kind} zeroinitializer, {operands[0]}")
        return f.math_intrinsic("smax", dtype, operands[0], negated)
    f.fail(f"T.{name} needs floats, but its operand is {dtype}; cast it first")


def _emit_for_floats(f: FunctionEmitter, name: str, dtype: DataType, operands: list[str]) -> str:
    register_type(dtype)
    w = Formula(f, dtype.bits, dtype.lanes)
    lanes = [w.value(text) for text in operands]
    formula = _FORMULAS.get(name)
    if formula is not None and name not in f.module.dialect.library_functions:
        return formula(w, lanes[0]).text
    if name in _INSTRUCTIONS:
        return w.intrinsic(_INSTRUCTIONS[name], *lanes).text
    if name == "pow" and (w.bits == 32 or w.has_fma):
        return power(w, *lanes).text
    called = [(w.types["f"], a.text) for a in lanes]
    return f.module.dialect.call_library(f, name, w.bits, w.lanes, called)


@emits_call("nextafter")
def _next_after(f: FunctionEmitter, node: Call) -> str:
    """Write nextafter: the bits of a float plus or minus one."""
    dtype = node.dtype
    x, y = f.expr(node.args[0]), f.expr(node.args[1])
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


@emits_call("ldexp")
def _ldexp(f: FunctionEmitter, node: Call) -> str:
    x, n = node.args
    exponents = INT32.with_lanes(n.dtype.lanes)
    value, exponent = f.expr(x), convert(f, f.expr(n), n.dtype, exponents)
    if not is_half(x.dtype):
        return _scaled(f, value, exponent, x.dtype, exponents)
    single = FLOAT32.with_lanes(x.dtype.lanes)
    wide = _scaled(f, half_to_float32(f, value, x.dtype), exponent, single, exponents)
    return float32_to_half(f, wide, x.dtype)


def _scaled(f: FunctionEmitter, x: str, n: str, dtype: DataType, exponent: DataType) -> str:
    """Write x * 2**n for an integer n."""
    operands = [(register_type(dtype), x), (register_type(exponent), n)]
    if dtype.lanes > 1 or "ldexp" in f.module.dialect.library_functions:
        return f.module.dialect.call_library(f, "ldexp", dtype.bits, dtype.lanes, operands)
    short = "f32" if dtype.bits == 32 else "f64"
    return f.call_intrinsic(f"llvm.ldexp.{short}.i32", operands[0][0], operands)
