"""A program computed in float64: what it would give if rounding did not matter."""

from __future__ import annotations

from typing import Final

from tensorir.errors import IRTypeError
from tensorir.function import PrimFunc
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import FLOAT64, DataType
from tensorir.nodes.expr import Call, Cast, FloatImm, PointerType, PrimExpr, PrimType, Var
from tensorir.nodes.intrin import Op
from tensorir.rewriting.fresh_copy import FreshCopy

_FOLLOWING: Final = ("same", "matched")
"""Intrinsics whose result has the type of their arguments."""


def in_float64(func: PrimFunc) -> PrimFunc | None:
    """Return a copy of a function in which all floats, those of its parameters too, are float64.

    None if there is nothing to widen, or something that looks at the bits of a float or calls a
    function for one type of float.
    """
    if not any(buffer.dtype.is_floating for buffer in func.buffer_map.values()):
        return None
    try:
        return _InFloat64()(func)
    except IRTypeError:
        return None


def _widened(dtype: DataType) -> DataType:
    return FLOAT64.with_lanes(dtype.lanes) if dtype.is_floating else dtype


class _InFloat64(FreshCopy):
    """Copies a program; IRTypeError where floats of one type are needed."""

    def define(self, var: Var) -> Var:
        if not var.dtype.is_floating:
            return super().define(var)  # type: ignore[no-any-return]
        new = self._values[var] = Var(var.name, _widened(var.dtype))
        return new

    def define_buffer(self, buffer: Buffer) -> Buffer:
        if buffer.dtype.is_floating and buffer.data not in self._values:
            pointer = PointerType(PrimType(_widened(buffer.dtype)), buffer.scope())
            self._values[buffer.data] = Var(buffer.data.name, pointer)
        new = super().define_buffer(buffer)
        if buffer.dtype.is_floating:
            new = self._buffers[buffer] = new.with_(dtype=_widened(buffer.dtype))
        return new

    def rewrite_FloatImm(self, node: FloatImm) -> PrimExpr:  # noqa: N802
        return FloatImm(FLOAT64, node.value)

    def rewrite_Cast(self, node: Cast) -> PrimExpr:  # noqa: N802
        value, dtype = self(node.value), _widened(node.dtype)
        return value if value.dtype is dtype else Cast(dtype, value)

    def rewrite_Call(self, node: Call) -> PrimExpr:  # noqa: N802
        args = self.each(node.args)
        if not any(arg.dtype.is_floating for arg in (node, *node.args)):
            return Call(node.dtype, node.op, args)
        if not isinstance(node.op, Op) or node.op.result not in (*_FOLLOWING, "bool"):
            raise IRTypeError(f"{node.op} is for one type of float")
        return Call(_widened(node.dtype), node.op, args)
