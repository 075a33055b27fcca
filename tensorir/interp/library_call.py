"""Calls of library functions, as closures over an environment."""

from __future__ import annotations

import operator
from typing import Any

from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tensorir.extensions import LIBRARY_CALLER, extension
from tensorir.interp.accesses import AccessCompiler, Eval
from tensorir.interp.arguments import Env
from tensorir.interp.memory import InterpreterError, Layout, Memory, compact_strides
from tensorir.nodes.expr import Call, PrimExpr, StringImm, Var
from tensorir.nodes.packed_call import LibraryCaller, PackedArray, packed_arguments


def library_call(c: AccessCompiler, node: Call, wants_result: bool = True) -> Eval:
    """Return a closure that calls a library function; it returns 0 for an unused result."""
    name, arguments = packed_arguments(node)
    values = [
        _array(c, arg) if isinstance(arg, PackedArray) else _scalar(c, arg) for arg in arguments
    ]

    def call(env: Env) -> int:
        caller: LibraryCaller | None = extension(LIBRARY_CALLER)
        if caller is None:
            raise InterpreterError(
                f"library function {name!r} is called, but no installed package "
                "provides library functions; codegen does"
            )
        result = caller(name, [value(env) for value in values])
        if not wants_result or result is None:
            return 0
        try:
            return operator.index(result)
        except TypeError:
            raise InterpreterError(
                f"the program uses the result of {name!r} as an int32, got {type(result).__name__}"
            ) from None

    return call


def _scalar(c: AccessCompiler, node: PrimExpr) -> Eval:
    if isinstance(node, StringImm):
        text = node.value
        return lambda env: text
    return c.expr(node)


def _array(c: AccessCompiler, array: PackedArray) -> Eval:
    data, dtype = c.expr(array.data), array.dtype
    shape = [c.expr(n) for n in array.shape]
    strides = [c.expr(n) for n in array.strides]
    offset = c.expr(array.elem_offset)
    start = c.start_of_view(array.data) if isinstance(array.data, Var) else None
    kind, lanes = dtype.element.to_numpy(), dtype.lanes

    def view(env: Env) -> NDArray[Any]:
        extents = tuple(n(env) for n in shape)
        steps = tuple(n(env) for n in strides) if strides else compact_strides(extents)
        first = offset(env) + (0 if start is None else start(env))
        layout = Layout(extents, steps, first)
        return _view(data(env).of(kind), layout, lanes)

    return view


def _view(memory: Memory, layout: Layout, lanes: int) -> NDArray[Any]:
    cells, size = memory.cells, memory.cells.itemsize
    if cells.dtype == object:
        raise InterpreterError(
            "a library function cannot access an array that is checked for undefined elements; "
            "interpret the program without refuse_undefined"
        )
    first = memory.origin + layout.offset * lanes
    end = first if 0 in layout.shape else memory.origin + layout.span() * lanes
    if not 0 <= first <= end <= len(cells):
        raise InterpreterError(
            f"a library function needs an array of shape {layout.shape} at offset "
            f"{layout.offset}, but the memory has {len(cells) // lanes} elements"
        )
    shape, strides = layout.shape, tuple(n * size * lanes for n in layout.strides)
    if lanes > 1:
        shape, strides = (*shape, lanes), (*strides, size)
    return as_strided(cells[first:], shape, strides)
