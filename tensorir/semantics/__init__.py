"""The meaning of operations: the one statement of it, and its implementation in Python.

Constant folding, the simplifier, the interpreter and LLVM emission all follow it, so that a result
never depends on the target, the optimiser or the order of passes. A value is a Python `int` in the
range of its type, a `bool`, or a `float` that its type represents exactly (float16, bfloat16,
float32, float64; the 8-bit floats have no arithmetic). A vector is a tuple of lanes, and an
operation on vectors is the operation on each lane.

**Two kinds of integer arithmetic.** *Index arithmetic* is computed from loop variables, block axes,
variables of shapes and constants, in signed types of 32 bits or more. It does not overflow:
programs in which it could are refused. *Value arithmetic* is everything else: a load, a call, a
scalar parameter that is in no buffer's shape, a variable bound to such a value, or a narrow or
unsigned type. It wraps at its width, modulo 2**bits, and takes operands that are indices at that
width. `tensorir.nodes.index_arithmetic` tells them apart.

**Integers.** `bool` is the unsigned integer of 1 bit (`True + True` is `False`), except that a cast
to bool is `!= 0`.

| operation | meaning | edge |
| --- | --- | --- |
| `FloorDiv`, `FloorMod` | floor; the remainder has the divisor's sign | |
| `Div`, `Mod` | toward zero; the remainder has the dividend's sign | |
| smallest value by -1 | wraps to itself, remainder 0 | |
| divisor 0 | a constant is refused, the interpreter raises | compiled code gives any value |
| shifts | left fills zeros, right fills the sign (signed) or zeros | see below |
| `popcount`, `clz` | of the bits of the type; `clz` of 0 is their number | |
| `fabs` | magnitude | the smallest value wraps to itself |
| `Min`, `Max`, comparisons | by the type's signedness | |
| `q_multiply_shift(x, y, q, s)` | `x * y * 2**(s - q)`, rounded half up | in 64 bits that wrap |

A shift by an amount that is negative or not below the width shifts everything out, which leaves 0,
or all sign bits; `T.shift_left` and `T.shift_right` refuse such a constant.

**Floats.**

| operation | meaning |
| --- | --- |
| `+ - * /`, sqrt, fma | IEEE, rounded once to nearest even |
| `Max(a, b)`, `Min(a, b)` | `a > b ? a : b`, `a < b ? a : b`: b where one is NaN or a = b |
| comparisons | ordered; `!=` is true with a NaN |
| `Mod`, `fmod` | the remainder toward zero, with the dividend's sign |
| `FloorDiv`, `FloorMod` | `floor(a / b)`, `a - floor(a / b) * b`, every step rounded |
| float16, bfloat16 | the operation in float32, its result rounded to nearest even |
| `round`, `nearbyint` | the nearest integer, ties to even |
| `nextafter` | the next number of the operand's own type |
| `ldexp(x, n)` | `x * 2**n` rounded once; n is cast to int32 |
| real functions | within the error bounds that `codegen.vector_math` states; NaN in gives NaN out |

Where an expression adds a product, `a * b + c`, in float32 or float64, compiled code may round
once instead of twice; the function attribute `tir.no_contraction` forbids it. Nothing is
reassociated, and no law is used that fails for NaN, an infinity or -0.0. A NaN has no sign and no
payload that a program may rely on.

**Casts.** To a narrower integer: wraps; but index arithmetic cast to int32 is index arithmetic, and
refused where it could overflow. A cast of index arithmetic to more bits or to a float has its
value, however few bits its operand is written in. Float to integer: toward zero, the nearest value
of the type where that is out of range, NaN gives 0. Integer to float and float to narrower float:
rounded once to nearest even, overflow gives infinity. To bool: `!= 0`, hence NaN gives true.

**Evaluation.** `if_then_else` evaluates only the branch taken, `And` and `Or` the right operand
only if it decides, in vectors lane by lane; `Select` evaluates both values. A loop of extent 0 or
less runs nothing. Memory is undefined until written. A lane whose predicate is false loads 0 and
stores nothing. Where a function ends early, by `T.ret`, an assertion or a call that fails, all that
ran before has its effect; of a parallel loop other iterations may have theirs as well.

**Reductions.** The init of a block runs first in the step in which every reduction axis is at the
first value of its domain. The loops of a reduction are those that bind reduction axes of the block
and no other of its axes; they give the steps of one spatial instance, whose place the other loops
give. An instance without a step, because a loop of its reduction has extent 0 or because each step
is excluded by the block's predicate or a branch, runs the init alone, where the outermost loop of
the reduction is reached: an empty sum is 0, as in NumPy. A condition in which no variable of these
loops occurs excludes the instance itself, and its init. An instance that has steps, but not the
first one, runs no init. `tensorir.memory.empty_reductions` writes this out.
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
"""Operations that mean the same for every type of their operands."""


def evaluate(op: type | str, dtype: DataType, *values: Any) -> Any:
    """Return the value of an operation on values of the scalar type `dtype`.

    `op` is a node class or the name of an intrinsic. Raises IRValueError for a division of integers
    by 0, IRTypeError for an operation that the type does not have.
    """
    return operation(op, dtype)(*values)


def operation(op: type | str, dtype: DataType) -> Function:
    """Return the function that `evaluate` applies; see there."""
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
