"""Copies of functions with another dtype for indices.

Loops, axes, shapes and indices of the copy have that dtype; an index that is used as a value is
converted to its original dtype.
"""

from __future__ import annotations

from typing import Any

from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import cast
from tensorir.rewriting.fresh_copy import FreshCopy, fresh_thread
from tensorir.rewriting.visit import walk


def with_index_dtype(func: PrimFunc, dtype: str) -> PrimFunc:
    """Return a copy of a function with scalars, loops, axes, shapes and indices of `dtype`."""
    return _WithIndexDType(DataType(dtype))(func)


class _WithIndexDType(FreshCopy):
    def __init__(self, index_dtype: DataType) -> None:
        super().__init__()
        self._dtype = index_dtype

    # ---------------------------------------------------------------------------------- definitions

    def define(self, var: Any) -> Any:
        """Return the variable that replaces `var` in its scope; an index gets the index dtype."""
        if not var.dtype.is_int:
            return super().define(var)
        new = type(var)(var.name, self._dtype)
        self._values[var] = new
        return new

    def _define_value(self, var: Var) -> Var:
        new = var.with_name(var.name)
        self._values[var] = new
        return new

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer in the copy, which has the index dtype throughout its layout."""
        new = self._buffers.get(buffer)
        if new is None:
            new = self._buffers[buffer] = self._with_layout(buffer)
        return new

    def layout_expr(self, expr: PrimExpr) -> PrimExpr:
        """Return a dimension, stride or offset in the index dtype."""
        return self._index(expr)

    # ------------------------------------------------------------------------------ indices, values

    def _index(self, node: PrimExpr) -> PrimExpr:
        """Return an integer expression in the index dtype."""
        dtype = self._dtype
        if isinstance(node, Var):
            return cast(dtype, self._values.get(node, node))
        if isinstance(node, e.Select):
            values = self._index(node.true_value), self._index(node.false_value)
            return e.Select(self(node.condition), *values)
        if isinstance(node, e.ARITHMETIC):
            return type(node)(self._index(node.a), self._index(node.b))
        if isinstance(node, e.Cast) and node.dtype.bits >= node.value.dtype.bits:
            return self._index(node.value) if node.value.dtype.is_int else cast(dtype, self(node))
        return cast(dtype, self(node))

    def _reads_index(self, node: PrimExpr) -> bool:
        """Return True if a value depends only on loops and axes."""
        if not node.dtype.is_int:
            return False
        parts = list(walk(node))
        plain = (*e.ARITHMETIC, e.IntImm, Var)
        return all(isinstance(part, plain) for part in parts) and any(
            isinstance(part, Var) and part in self._values for part in parts
        )

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Return the expression for a variable, as a value of its original dtype."""
        new = self._values.get(node)
        return node if new is None else cast(node.dtype, new)

    def rewrite_CmpOp(self, node: e.CmpOp) -> PrimExpr:  # noqa: N802
        """Compare indices without conversion."""
        if self._reads_index(node.a) or self._reads_index(node.b):
            return type(node)(self._index(node.a), self._index(node.b))
        return self.generic(node)

    def rewrite_Cast(self, node: e.Cast) -> PrimExpr:  # noqa: N802
        """Convert an index, without a cast."""
        if self._reads_index(node.value):
            return cast(node.dtype, self._index(node.value))
        return self.generic(node)

    def rewrite_BufferLoad(self, node: e.BufferLoad | s.BufferStore) -> Any:  # noqa: N802
        """Access the buffer's replacement in the copy."""
        indices = [self._index(i) for i in node.indices]
        value = {"value": self(node.value)} if isinstance(node, s.BufferStore) else {}
        predicate = self.maybe(node.predicate)
        target = self.buffer(node.buffer)
        return node.with_(buffer=target, indices=indices, predicate=predicate, **value)

    rewrite_BufferStore = rewrite_BufferLoad  # noqa: N815

    def rewrite_Range(self, node: Range) -> Range:  # noqa: N802
        """Copy bounds."""
        return Range.from_min_extent(self._index(node.min), self._index(node.extent))

    # ----------------------------------------------------------------------------------- statements

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        """Copy a loop with a new variable."""
        low, extent = self._index(node.min), self._index(node.extent)
        loop_var = self.define(node.loop_var)
        body = self(node.body)
        thread = fresh_thread(node)
        return node.with_(
            loop_var=loop_var, min=low, extent=extent, body=body, thread_binding=thread
        )

    def rewrite_LetStmt(self, node: s.LetStmt | e.Let) -> Any:  # noqa: N802
        """Copy a binding; the bound value is not an index."""
        value = self(node.value)
        var = self._define_value(node.var)
        return node.with_(var=var, value=value, body=self(node.body))

    rewrite_Let = rewrite_LetStmt  # noqa: N815

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        """Copy an instance."""
        values = [self._index(value) for value in node.iter_values]
        return s.BlockRealize(values, self(node.predicate), self(node.block))
