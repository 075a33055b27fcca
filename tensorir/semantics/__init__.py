"""The semantics of operations: their specification, and its implementation in Python.

Constant folding, the simplifier, the interpreter and LLVM emission all follow this specification,
so a result never depends on the target, the optimiser or the order of passes. A value is a Python
`int` in the range of its type, a `bool`, or a `float` that its type represents exactly (float16,
bfloat16, float32, float64; the 8-bit floats lack arithmetic). A vector is a tuple of lanes; an
operation on vectors is applied to each lane.

**Two kinds of integer arithmetic.** *Index arithmetic* is computed from loop variables, block axes,
variables of shapes and constants, in signed types of 32 bits or more. It does not overflow:
programs in which it could overflow are rejected. *Value arithmetic* is all other arithmetic: on a
load, a call, a scalar parameter that is not in a buffer's shape, a variable bound to such a value,
or in a narrow or unsigned type. It wraps around at its width, modulo 2**bits; index operands are
reduced to that width. `tensorir.nodes.index_arithmetic` distinguishes the two.

**Integers.** `bool` is the unsigned integer of 1 bit (`True + True` is `False`), except that a cast
to bool is `!= 0`.

| operation | meaning | edge |
| --- | --- | --- |
| `FloorDiv`, `FloorMod` | floor; the remainder has the divisor's sign | |
| `Div`, `Mod` | toward zero; the remainder has the dividend's sign | |
| smallest value by -1 | wraps to itself, remainder 0 | |
| divisor 0 | a constant is rejected, the interpreter raises | compiled code returns any value |
| shifts | left fills zeros, right fills the sign (signed) or zeros | see below |
| `popcount`, `clz` | number of set bits, of leading zeros | `clz` of 0 is the width |
| `fabs` | magnitude | the smallest value wraps to itself |
| `Min`, `Max`, comparisons | by the type's signedness | |
| `q_multiply_shift(x, y, q, s)` | `x * y * 2**(s - q)`, rounded half up | in 64 bits that wrap |

A shift by a negative amount, or by at least the width, returns 0 or (signed right shift) only sign
bits; `T.shift_left` and `T.shift_right` reject such a constant.

**Floats.**

| operation | meaning |
| --- | --- |
| `+ - * /`, sqrt, fma | IEEE, rounded once to nearest even |
| `Max(a, b)`, `Min(a, b)` | `a > b ? a : b`, `a < b ? a : b`: b if either is NaN or a = b |
| comparisons | ordered; `!=` is true with a NaN |
| `Mod`, `fmod` | the remainder toward zero, with the dividend's sign |
| `FloorDiv`, `FloorMod` | `floor(a / b)`, `a - floor(a / b) * b`, every step rounded |
| float16, bfloat16 | the operation in float32, its result rounded to nearest even |
| `round`, `nearbyint` | the nearest integer, ties to even |
| `nextafter` | the next number of the operand's own type |
| `ldexp(x, n)` | `x * 2**n` rounded once; n is cast to int32 |
| real functions | within the error bounds in `codegen.vector_math`; NaN for a NaN |

If an expression adds a product, `a * b + c`, in float32 or float64, compiled code may round once
instead of twice; the function attribute `tir.no_contraction` forbids that. Expressions are not
reassociated, and no rewrite is used that fails for NaN, an infinity or -0.0. Programs must not
depend on the sign or payload of a NaN.

**Casts.** To a narrower integer: the value wraps around; but index arithmetic cast to int32 is
index arithmetic, and rejected if it could overflow. A cast of index arithmetic to more bits or to a
float has the exact value, regardless of the width of the operand. Float to integer: rounded toward
zero and saturated to the range of the type; NaN becomes 0. Integer to float and float to narrower
float: rounded once to nearest even; overflow becomes infinity. To bool: `!= 0`, so NaN becomes
true.

**Evaluation.** `if_then_else` evaluates only the selected value. `And` and `Or` evaluate the right
operand only if the left one does not decide the result, in vectors lane by lane. `Select` evaluates
both values. A loop of extent 0 or less does not run its body. Memory is undefined until it is
written. A lane whose predicate is false loads 0 and stores nothing. If a function ends early, by
`T.ret`, an assertion or a call that fails, earlier statements have had their effects; other
iterations of a parallel loop may have had theirs as well.

**Reductions.** In the step in which every reduction axis has the first value of its domain, the
init of the block runs first. The loops of a reduction are the loops that bind reduction axes of the
block and none of its other axes. They run the steps of one spatial instance; the other loops
determine the instance. An instance lacks steps if a loop of its reduction has extent 0, or if the
block's predicate or a branch excludes each step. Such an instance runs only the init, at the
position of the outermost loop of the reduction: an empty sum is 0, as in NumPy. A condition without
variables of these loops excludes the instance itself, including its init. An instance that has
steps, but not the first one, does not run the init. `tensorir.memory.empty_reductions` makes these
inits explicit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import INT32, DataType
from tensorir.semantics.conversions import conversion, convert, reinterpreted
from tensorir.semantics.floats import floating, from_bits, rounding, to_bits
from tensorir.semantics.integers import (
    COMPARISONS,
    DIVISIONS,
    EXACT,
    OF_BITS,
    multiply_shift,
    multiply_shift_per_axis,
    saturating,
    wrapping,
)

__all__ = [
    "COMPARISONS",
    "DIVISIONS",
    "EXACT",
    "conversion",
    "convert",
    "evaluate",
    "from_bits",
    "operation",
    "reinterpreted",
    "rounding",
    "saturating",
    "to_bits",
    "wrapping",
]

Function = Callable[..., Any]

_ALWAYS_THE_SAME: Final[dict[type | str, Function]] = {
    e.And: lambda a, b: a and b,
    e.Or: lambda a, b: a or b,
    e.Not: lambda a: not a,
    e.Select: lambda condition, yes, no: yes if condition else no,
    "isnan": lambda a: a != a,
    "q_multiply_shift": multiply_shift,
    "q_multiply_shift_per_axis": multiply_shift_per_axis,
    **COMPARISONS,
}
"""Operations with the same implementation for every type of operands."""


def evaluate(op: type | str, dtype: DataType, *values: Any) -> Any:
    """Return the result of an operation on values of the scalar type `dtype`.

    `op` is a node class or the name of an intrinsic. Raises IRValueError for a division of integers
    by 0. Raises IRTypeError for an operation that the type does not have.
    """
    return operation(op, dtype)(*values)


def operation(op: type | str, dtype: DataType) -> Function:
    """Return the function that computes an operation; see `evaluate`."""
    known = _OPERATIONS.get((op, dtype))
    if known is None:
        known = _OPERATIONS[op, dtype] = _operation(op, dtype)
    return known


_OPERATIONS: Final[dict[tuple[type | str, DataType], Function]] = {}


def _operation(op: type | str, dtype: DataType) -> Function:
    always = _ALWAYS_THE_SAME.get(op)
    if always is not None:
        return always
    if dtype.is_integral:
        found = _integral(op, dtype)
    else:
        found = floating(op, dtype)
        if op == "ldexp" and found is not None:
            scaled, to_exponent = found, wrapping(INT32)
            found = lambda x, n: scaled(x, to_exponent(n))  # noqa: E731
    if found is None:
        name = op if isinstance(op, str) else op.__name__
        raise IRTypeError(f"{name} is not defined for {dtype}")
    return found


def _integral(op: type | str, dtype: DataType) -> Function | None:
    wrap = wrapping(dtype)
    compute = EXACT.get(op)
    if compute is not None and isinstance(op, type):
        return lambda a, b: wrap(compute(a, b))
    if compute is not None:
        return lambda *values: wrap(compute(*values))
    count = OF_BITS.get(op)  # type: ignore[arg-type]
    if count is None:
        return None
    bits, mask = dtype.bits, (1 << dtype.bits) - 1
    return lambda value: wrapping(INT32)(count(value & mask, bits))
