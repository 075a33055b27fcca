"""The arguments of `T.call_packed(name, ...)`, and the type of functions that run such calls.

Programs call Python functions by name. The package `codegen`, a higher layer, has the registry of
these functions; it provides a `LibraryCaller`, so that the interpreter can call them as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Call, IntImm, PointerType, PrimExpr, StringImm, Var
from tensorir.nodes.intrin import Op

CALL_PACKED: Final = Op.get("tvm_call_packed")
MAKE_ARRAY: Final = Op.get("tvm_stack_make_array")
_MAKE_SHAPE: Final = Op.get("tvm_stack_make_shape")


@dataclass(frozen=True, slots=True)
class PackedArray:
    """An array argument; `strides` are in elements, empty for compact row-major."""

    data: PrimExpr
    """The pointer."""
    dtype: DataType
    shape: tuple[PrimExpr, ...]
    strides: tuple[PrimExpr, ...]
    elem_offset: PrimExpr
    """The number of elements between the pointer and element 0."""


PackedArgument: TypeAlias = PackedArray | PrimExpr


def packed_arguments(call: Call) -> tuple[str, list[PackedArgument]]:
    """Return the name of the function that a `T.call_packed` calls, and the arguments.

    Raises IRTypeError for arguments other than arrays, scalars and strings.
    """
    if not call.args or not isinstance(call.args[0], StringImm):
        raise IRTypeError(
            "the first argument of T.call_packed must be the name of a library function"
        )
    name = call.args[0].value
    return name, [_argument(name, k, arg) for k, arg in enumerate(call.args[1:], start=1)]


def _argument(name: str, position: int, arg: PrimExpr) -> PackedArgument:
    place = f"T.call_packed({name!r}), argument {position}"
    if type(arg) is Call and arg.op is MAKE_ARRAY:
        return _array(place, arg)
    if isinstance(arg, StringImm):
        return arg
    if arg.dtype.is_handle:
        raise IRTypeError(f"{place}: a pointer has no shape; pass the buffer, A instead of A.data")
    if arg.dtype.lanes > 1:
        raise IRTypeError(f"{place}: {arg} is a vector; pass a buffer or a scalar")
    return arg


def _array(place: str, node: Call) -> PackedArray:
    data, shape, strides, _, kind, offset = node.args
    dtype, stored = kind.dtype, _pointee(data)
    if stored is not None and stored.element.nbytes != dtype.element.nbytes:
        # If a pass changed the type of the memory, the call would read beyond its end.
        raise IRTypeError(f"{place}: an array of {dtype} cannot be in memory of {stored}")
    dims, steps = _dims(shape), _dims(strides)
    # Strides that are given for only some dimensions are ignored.
    return PackedArray(data, dtype, dims, steps if len(steps) == len(dims) else (), offset)


def _pointee(data: PrimExpr) -> DataType | None:
    kind = data.type_annotation if isinstance(data, Var) else None
    return getattr(kind.element_type, "dtype", None) if isinstance(kind, PointerType) else None


def _dims(node: PrimExpr) -> tuple[PrimExpr, ...]:
    if type(node) is Call and node.op is _MAKE_SHAPE:
        return node.args
    if type(node) is IntImm and node.value == 0:
        return ()
    raise IRTypeError(f"T.tvm_stack_make_array needs shapes of T.tvm_stack_make_shape, not {node}")


LibraryCaller: TypeAlias = Callable[[str, Sequence[Any]], Any]
"""Calls a library function by name; arrays are NumPy arrays over the memory of the program."""
