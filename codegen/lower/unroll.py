"""Writing out loops iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from codegen.lower.forms import LEFT_TO_BACKEND
from codegen.lower.indices import rebuild_binary
from codegen.lower.remarks import stands_for
from codegen.lower.rewriters import StatementRewriter
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.node import EMPTY_ATTRS
from tensorir.nodes.ops import cast, const
from tensorir.rewriting.visit import Rewriter, children, defined, statements
from tensorir.semantics.purity import is_pure

MAX_STATEMENTS: Final = 2048
"""The maximum number of statements of an unrolled nest; a longer one is left to LLVM."""


def unroll(func: PrimFunc) -> PrimFunc:
    """Replace each unrolled loop by copies of its body.

    Before: for j in T.unroll(2): C[i * 8 + j] = A[j]
    After:  C[i * 8] = A[0]; C[i * 8 + 1] = A[1]

    Index constants are folded. Every copy has new loops, lets and allocations. A loop keeps its
    kind, so that LLVM decides, if it has an unknown extent, would have too many statements, or is
    marked for the backend. Annotations of loops are no longer needed, and are dropped.
    """
    return func.with_body(_Unroll()(func.body))


def _is_written_out(loop: s.For) -> bool:
    return (
        loop.kind is s.ForKind.UNROLLED
        and type(loop.extent) is IntImm
        and type(loop.min) is IntImm
        and LEFT_TO_BACKEND not in loop.annotations
    )


def statement_count(node: s.Stmt, is_written_out: Callable[[s.For], bool]) -> int:
    """Return the number of statements after such loops are written out."""
    if isinstance(node, s.For):
        inside = statement_count(node.body, is_written_out)
        is_copied = is_written_out(node) and isinstance(node.extent, IntImm)
        return inside * max(int(node.extent), 1) if is_copied else inside  # type: ignore[call-overload]
    if isinstance(node, (s.BufferStore, s.Evaluate)):
        return 1
    parts = [part for part in children(node) if isinstance(part, s.Stmt)]
    return sum(statement_count(part, is_written_out) for part in parts)


class _Unroll(StatementRewriter):
    """Finds the outermost loops to write out."""

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        if _is_written_out(node) and statement_count(node, _is_written_out) <= MAX_STATEMENTS:
            return _Copies(node)(node)
        body = self(node.body)
        runs_once = type(node.extent) is IntImm and node.extent.value == 1 and is_pure(node.min)
        if runs_once and node.kind is not s.ForKind.THREAD_BINDING:
            return _Copies(node.with_(body=body), {node.loop_var: node.min})(body)
        return node.changed(body=body, annotations=EMPTY_ATTRS)


class _Copies(Rewriter):
    """Copies the body of a nest with values for its loop variables.

    An expression is rebuilt once for each combination of the values that it depends on, to save
    time.
    """

    def __init__(self, root: s.For, values: dict[Var, PrimExpr] | None = None) -> None:
        self._values: dict[Var, PrimExpr] = values or {}
        self._bound = {var for node in statements(root) for var in defined(node)}
        self._dependences: dict[PrimExpr, tuple[Var, ...]] = {}
        self._memo: dict[tuple[Any, ...], PrimExpr] = {}
        self._buffers: dict[tuple[Buffer, Var], Buffer] = {}

    # ---------------------------------------------------------------------------------- statements

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        if _is_written_out(node):
            low, extent = int(node.min), int(node.extent)  # type: ignore[call-overload]
            dtype = node.loop_var.dtype
            parts = []
            for value in range(low, low + extent):
                self._values[node.loop_var] = const(value, dtype)
                parts.append(self(node.body))
            del self._values[node.loop_var]
            return s.sequence(parts)
        return self.generic(node).changed(annotations=EMPTY_ATTRS)

    def define(self, var: Var) -> Var:
        if var not in self._bound:
            return var  # the variable is bound by an expression
        new = self._values[var] = var.with_name(var.name)
        stands_for(new, var)
        return new

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        condition = self(node.condition)
        if type(condition) is not IntImm:
            return s.IfThenElse(condition, self(node.then_case), self.maybe(node.else_case))
        taken = node.then_case if condition.value else node.else_case
        return s.sequence([]) if taken is None else self(taken)

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        # Like `generic`, but specialised for a single index, as there are many stores.
        buffer, (old,) = self.buffer(node.buffer), node.indices
        value, index, predicate = self(node.value), self(old), self.maybe(node.predicate)
        same = value is node.value and index is old and predicate is node.predicate
        if same and buffer is node.buffer:
            return node
        return s.BufferStore(buffer, value, (index,), predicate)

    def buffer(self, buffer: Buffer) -> Buffer:
        pointer = self._values.get(buffer.data)
        if pointer is None:
            return buffer
        assert isinstance(pointer, Var)
        key = (buffer, pointer)
        known = self._buffers.get(key)
        if known is None:
            known = self._buffers[key] = buffer.with_(data=pointer)
        return known

    # --------------------------------------------------------------------------------- expressions

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        depends = self._dependences.get(node)
        if depends is None:
            depends = self._dependence(node)
        if not depends:
            return node
        values = self._values
        key = (node, *[values.get(var) for var in depends])
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._rebuild(node)
        return known

    def _dependence(self, node: PrimExpr) -> tuple[Var, ...]:
        if isinstance(node, Var):
            found: tuple[Var, ...] = (node,) if node in self._bound else ()
        else:
            inner: dict[Var, None] = {}
            for child in children(node):
                known = self._dependences.get(child)  # type: ignore[call-overload]
                inner.update(dict.fromkeys(self._dependence(child) if known is None else known))  # type: ignore[arg-type]
            if type(node) is BufferLoad and node.buffer.data in self._bound:
                inner[node.buffer.data] = None
            found = tuple(inner)
        self._dependences[node] = found
        return found

    def _rebuild(self, node: PrimExpr) -> PrimExpr:
        if isinstance(node, Var):
            return self._values.get(node, node)
        if isinstance(node, e.BinaryOp):
            return rebuild_binary(node, self(node.a), self(node.b))
        new = self.generic(node)
        if type(new) is e.Cast and type(new.value) is IntImm:
            return cast(new.dtype, new.value)
        return new
