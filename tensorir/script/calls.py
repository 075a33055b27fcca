"""Expressions that are calls of the `T` namespace in scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

from tensorir.errors import IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, PrimExpr, StringImm, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.llvm_intrinsics import check_llvm_intrinsic
from tensorir.nodes.ops import as_expr, const
from tensorir.script.declarations import dtype_text

DTYPE_FIRST: Final = frozenset(
    [
        "reinterpret",
        "call_extern",
        "call_pure_extern",
        "call_llvm_intrin",
        "call_llvm_pure_intrin",
        "vectorlow",
        "vectorhigh",
        "vectorcombine",
        "type_annotation",
        "large_uint_imm",
    ]
)
"""Intrinsics whose first argument is the dtype of the result."""
_DTYPE_LAST: Final = frozenset({"tvm_struct_get"})
_LLVM: Final = frozenset({"call_llvm_intrin", "call_llvm_pure_intrin"})
_PACKED: Final = frozenset({"tvm_call_packed", "tvm_call_cpacked"})


def raw(kind: type[e.BinaryOp]) -> Callable[[Any, Any], PrimExpr]:
    """Return a function that builds a node of the class `kind` without folding constants."""

    def build(a: Any, b: Any) -> PrimExpr:
        x, y = as_expr(a), as_expr(b)
        return kind(x, y)

    return build


def let_expr(body: Any, where: dict[Var, Any]) -> PrimExpr:
    """Bind a variable in an expression."""
    assert len(where) == 1, "T.Let binds exactly one variable"
    ((var, value),) = where.items()
    return e.Let(var, as_expr(value), as_expr(body))


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> e.CommReducer:
    """Return a reduction from its combiner and identity elements."""
    values = [as_expr(i) for i in identity]
    lhs = [Var(f"x{k}", v.dtype) for k, v in enumerate(values)]
    rhs = [Var(f"y{k}", v.dtype) for k, v in enumerate(values)]
    result = combiner(*lhs, *rhs)
    parts = list(result) if isinstance(result, (list, tuple)) else [result]
    return e.CommReducer(lhs, rhs, [as_expr(p) for p in parts], values)


def call_intrin(dtype: str, name: str, *args: Any) -> PrimExpr:
    """Call an intrinsic by name with a given result type."""
    return e.Call(dtype, Op.get(name), [as_operand(a) for a in args])


def as_operand(value: Any) -> PrimExpr:
    """Return an argument of a call as an expression; a string becomes an immediate."""
    if isinstance(value, str):
        return StringImm(value)
    return as_expr(value)


def named_call(name: str) -> Callable[..., PrimExpr]:
    """Return the function of the namespace that calls the intrinsic `name`."""
    op = Op.get(name)

    def call(*args: Any, dtype: Any = None) -> PrimExpr:
        operands = list(args)
        if dtype is None and name in DTYPE_FIRST and operands:
            dtype = operands.pop(0)
        elif dtype is None and name in _DTYPE_LAST and operands and isinstance(operands[-1], str):
            dtype = operands.pop()
        packed = name in _PACKED
        operands = [
            _array(a) if packed and isinstance(a, Buffer) else as_operand(a) for a in operands
        ]
        if name in _LLVM and operands and isinstance(operands[0], StringImm):
            check_llvm_intrinsic(operands[0].value)
        if op.result == "given":
            return e.Call("int32" if dtype is None else dtype_text(dtype), op, operands)
        if op.arity is None:
            return e.Call(op.result, op, operands)
        return ops.intrinsic(name, *operands)

    call.__name__ = name
    call.__doc__ = f"Call the intrinsic {name}."
    return call


def _array(buffer: Buffer) -> PrimExpr:
    """Return the array that a packed function receives for a buffer."""
    shape = ops.intrinsic("tvm_stack_make_shape", *buffer.shape)
    strides: Any = 0
    if buffer.strides:
        strides = ops.intrinsic("tvm_stack_make_shape", *buffer.strides)
    rank, zero = len(buffer.shape), const(0, buffer.dtype)
    return ops.intrinsic(
        "tvm_stack_make_array", buffer.data, shape, strides, rank, zero, buffer.elem_offset
    )


def absolute(x: Any, dtype: Any = None) -> PrimExpr:
    """Return the absolute value."""
    del dtype
    value = as_expr(x)
    if isinstance(value, (IntImm, e.FloatImm)):
        return const(abs(value.value), value.dtype)
    if value.dtype.is_uint:
        return value
    if value.dtype.is_int:
        zero = const(0, value.dtype)
        return e.Select(e.GE(value, zero), value, e.Sub(zero, value))
    return ops.intrinsic("fabs", value)


def address_of(load: Any, dtype: Any = None) -> PrimExpr:
    """Return the address of a buffer's element."""
    del dtype
    return e.Call("handle", Op.get("address_of"), [as_expr(load)])


def all_(*conditions: Any) -> PrimExpr:
    """Return the conjunction of conditions."""
    return _fold("all", ops.logical_and, conditions)


def any_(*conditions: Any) -> PrimExpr:
    """Return the disjunction of conditions."""
    return _fold("any", ops.logical_or, conditions)


def _fold(name: str, join: Callable[[Any, Any], PrimExpr], conditions: Sequence[Any]) -> PrimExpr:
    if not conditions:
        raise IRValueError(f"T.{name} needs at least one condition")
    return reduce(join, conditions[1:], as_expr(conditions[0]))
