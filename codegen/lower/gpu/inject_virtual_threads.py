"""Virtual threads: iterations that one thread runs side by side, statement by statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codegen.errors import LoweringError
from codegen.lower.rewriters import StatementRewriter, controls
from codegen.lower.thread_axes import VIRTUAL, axis_of, kind_of
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import sub
from tensorir.rewriting.element_rewriter import ElementRewriter
from tensorir.rewriting.visit import children, statements, substitute, walk


def inject_virtual_threads(func: PrimFunc) -> PrimFunc:
    """Run each statement that differs between virtual threads for all of them at once.

    Before: for v (vthread.x, 2): allocate L[4]; for i in 4: L[i] = 0
            for k: S[t] = A[k, t]; for i in 4: L[i] += S[v * 4 + i]
    After:  allocate L[2, 4]; for i in 4: for v in T.unroll(2): L[v, i] = 0
            for k: S[t] = A[k, t]; for i in 4: for v in T.unroll(2): L[v, i] += S[v * 4 + i]

    Memory whose contents differ gets a dimension for the virtual threads. What is the same for all
    of them runs once. Raises LoweringError for a number of virtual threads that is not constant.
    """
    return func.with_body(_Inject()(func.body))


class _Inject(StatementRewriter):
    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        body = self(node.body)
        if kind_of(node) != VIRTUAL:
            return node.changed(body=body)
        if not isinstance(node.extent, IntImm):
            raise LoweringError(
                f"loop {node.loop_var.name} is bound to {axis_of(node)} and has {node.extent} "
                f"iterations; a number of virtual threads must be constant"
            )
        result: s.Stmt = _SideBySide(node, body)(body)
        return result


class _SideBySide(ElementRewriter):
    """Runs the statements of one loop over virtual threads side by side."""

    def __init__(self, loop: s.For, body: s.Stmt) -> None:
        self._loop = loop
        self._differing = differing(loop.loop_var, body)
        self._expanded: dict[Buffer, Buffer] = {}
        self._own: set[Var] = {
            n.buffer_var
            for n in statements(body)
            if isinstance(n, s.Allocate) and n.buffer_var in self._differing
        }
        self._wrapped = False

    def buffer(self, buffer: Buffer) -> Buffer:
        if buffer.data not in self._own:
            return buffer
        new = self._expanded.get(buffer)
        if new is None:
            shape = (self._loop.extent, *buffer.shape)
            strides = buffer.strides
            if strides:
                strides = (strides[0] * buffer.shape[0], *strides)
            new = self._expanded[buffer] = buffer.with_(shape=shape, strides=strides)
        return new

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        return (sub(self._loop.loop_var, self._loop.min), *indices)

    def __call__(self, node: Any) -> Any:
        """Return a node; a statement that differs runs in a loop over the virtual threads."""
        if self._wrapped or not isinstance(node, s.Stmt) or not self._differs(node):
            return super().__call__(node)
        self._wrapped = True
        new = super().__call__(node)
        self._wrapped = False
        loop = self._loop
        var = Var(loop.loop_var.name, loop.loop_var.dtype)
        new = substitute(new, {loop.loop_var: var})
        return s.For(var, loop.min, loop.extent, s.ForKind.UNROLLED, new)

    def _differs(self, node: s.Stmt) -> bool:
        """Say whether a statement itself differs, whatever is inside of it."""
        if isinstance(node, s.BufferStore):
            return node.buffer.data in self._differing or self._uses(node)
        if isinstance(node, s.Evaluate):
            return self._uses(node)
        return any(self._uses(part) for part in controls(node))

    def _uses(self, node: Node) -> bool:
        return _depends(node, self._differing)

    def rewrite_Allocate(self, node: s.Allocate) -> s.Stmt:  # noqa: N802
        if self._wrapped:  # Each virtual thread allocates its own.
            self._own.discard(node.buffer_var)
        new: s.Allocate = self.generic(node)
        if node.buffer_var not in self._own:
            return new
        return new.with_(extents=(self._loop.extent, *new.extents))


def differing(var: Var, body: s.Stmt) -> set[Var]:
    """Return the variables, and the pointers of memory, with other values in each virtual thread.

    A value differs that depends on another one, or is stored where a condition or loop bound
    differs.
    """
    found = {var}
    known = 0
    while known < len(found):
        known = len(found)
        _spread(body, found, under=False)
    return found


def _spread(node: s.Stmt, found: set[Var], under: bool) -> None:
    if isinstance(node, s.BufferStore):
        if under or _depends(node, found):
            found.add(node.buffer.data)
        return
    differs = any(_depends(part, found) for part in controls(node))
    if isinstance(node, s.LetStmt) and differs:
        found.add(node.var)
    if isinstance(node, s.For) and differs:
        found.add(node.loop_var)
    for part in children(node):
        if isinstance(part, s.Stmt):
            _spread(part, found, under or (differs and not isinstance(node, s.LetStmt)))


def _depends(node: Node, found: set[Var]) -> bool:
    return any(
        part in found if isinstance(part, Var) else part.buffer.data in found
        for part in walk(node)
        if isinstance(part, (Var, BufferLoad))
    )
