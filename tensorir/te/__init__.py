"""Tensor expressions: programs written as formulas over tensors.

A formula defines each element of a tensor; `create_prim_func` writes the loops and blocks that
compute it, ready to be scheduled.

>>> from tensorir import te
>>> A = te.placeholder((8, 32), name="A")
>>> B = te.placeholder((32, 16), name="B")
>>> k = te.reduce_axis((0, 32), name="k")
>>> C = te.compute((8, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
>>> D = te.compute((8, 16), lambda i, j: te.max(C[i, j], 0.0), name="D")
>>> print(te.create_prim_func([A, B, D]).script())
from tensorir import T
<BLANKLINE>
@T.prim_func
def main(A: T.Buffer((8, 32), "float32"), B: T.Buffer((32, 16), "float32"), D: T.Buffer((8, 16), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    C = T.alloc_buffer((8, 16))
    for i, j, k in T.grid(8, 16, 32):
        with T.block("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            T.reads(A[v_i, v_k], B[v_k, v_j])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
    for i, j in T.grid(8, 16):
        with T.block("D"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(C[v_i, v_j])
            T.writes(D[v_i, v_j])
            D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))

Dimensions may be variables (`n = te.size_var("n")`); a call of the function determines them.
Functions of scalars have the same names as in scripts (`te.exp`, `te.if_then_else`, ...).
"""  # noqa: E501

from typing import NoReturn

from tensorir.nodes.expr import EQ, ExprLike, PrimExpr
from tensorir.nodes.ops import (
    FALSE,
    TRUE,
    add,
    as_expr,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceildiv,
    compare,
    const,
    div,
    floordiv,
    floormod,
    if_then_else,
    indexdiv,
    indexmod,
    infinity,
    logical_and,
    logical_not,
    max_value,
    min_value,
    mul,
    shift_left,
    shift_right,
    sub,
    truncdiv,
    truncmod,
)
from tensorir.script.namespace import T
from tensorir.te.compute import compute, tag_scope
from tensorir.te.create_prim_func import create_prim_func
from tensorir.te.extern import extern, extern_primfunc
from tensorir.te.reduction import (
    Reducer,
    all_,
    any_,
    comm_reducer,
    max_,
    min_,
    prod,
    reduce_axis,
    sum_,
)
from tensorir.te.tensor import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    Tensor,
    placeholder,
    size_var,
    var,
)

multiply, subtract = mul, sub
all, any, max, min, sum = all_, any_, max_, min_, sum_

# Functions of scalars, from the script dialect.
Select = T.Select
"""`Select(condition, a, b)`: `a` if the condition holds, else `b`; both may be evaluated."""
abs, ceil, floor, nearbyint, round, trunc = T.abs, T.ceil, T.floor, T.nearbyint, T.round, T.trunc
acos, acosh, asin, asinh, atan, atanh = T.acos, T.acosh, T.asin, T.asinh, T.atan, T.atanh
atan2, copysign, fma, fmod, hypot, ldexp, nextafter, power = (
    T.atan2, T.copysign, T.fma, T.fmod, T.hypot, T.ldexp, T.nextafter, T.pow
)  # fmt: skip
clz, isnan, likely, popcount, reinterpret = T.clz, T.isnan, T.likely, T.popcount, T.reinterpret
cos, cosh, sin, sinh, tan, tanh = T.cos, T.cosh, T.sin, T.sinh, T.tan, T.tanh
erf, exp, exp2, exp10, rsqrt, sigmoid, sqrt = (
    T.erf, T.exp, T.exp2, T.exp10, T.rsqrt, T.sigmoid, T.sqrt
)  # fmt: skip
log, log1p, log2, log10 = T.log, T.log1p, T.log2, T.log10

__all__ = [
    "ComputeOp",
    "ExternOp",
    "Operation",
    "PlaceholderOp",
    "Reducer",
    "Select",
    "Tensor",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "ceildiv",
    "clz",
    "comm_reducer",
    "compute",
    "const",
    "copysign",
    "cos",
    "cosh",
    "create_prim_func",
    "div",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "extern",
    "extern_primfunc",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fmod",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "likely",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "max_value",
    "min",
    "min_value",
    "multiply",
    "nearbyint",
    "nextafter",
    "placeholder",
    "popcount",
    "power",
    "prod",
    "reduce_axis",
    "reinterpret",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "size_var",
    "sqrt",
    "subtract",
    "sum",
    "tag_scope",
    "tan",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
    "var",
]


def isinf(value: ExprLike) -> PrimExpr:
    """Return True if a value is an infinity; False for integers."""
    x = as_expr(value)
    return compare(EQ, abs(x), infinity(x.dtype)) if x.dtype.is_floating else FALSE


def isfinite(value: ExprLike) -> PrimExpr:
    """Return True if a value is neither an infinity nor a NaN."""
    x = as_expr(value)
    return (
        logical_and(logical_not(isinf(x)), logical_not(isnan(x))) if x.dtype.is_floating else TRUE
    )


_ELSEWHERE = {
    "create_schedule": "schedule the function: schedule.Schedule(te.create_prim_func(...))",
    "hybrid": "write loops and branches in the script dialect and use te.extern_primfunc",
    "scan": "write the loop of a recurrence in the script dialect and use te.extern_primfunc",
    "thread_axis": "bind loops to threads by a schedule: Schedule.bind(loop, tag)",
}


def __getattr__(name: str) -> NoReturn:
    """Raise AttributeError, with the replacement for names that TVM has in `te`."""
    instead = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise AttributeError(f"tensorir.te has no {name}{instead}")
