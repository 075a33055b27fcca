"""Moving each buffer's allocation to the innermost place that encloses all its uses."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir import stmt as s
from tensorir.buffer import Buffer
from tensorir.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.function import PrimFunc
from tensorir.node import Node
from tensorir.ops import TRUE
from tensorir.visit import Rewriter, children, walk


def place_allocations(func: PrimFunc) -> PrimFunc:
    """Allocate every buffer of a block as far inside as its uses allow.

    Before: alloc B; for i: B[i] = A[i]; C[i] = B[i]
    After:  for i: alloc B; B[i] = A[i]; C[i] = B[i]

    A buffer stays outside the loops of a reduction that writes it (its contents live from one
    iteration to the next), outside vectorized loops (one copy a lane is an index, not an
    allocation) and where it is if something other than a block with axes writes it. A buffer
    without uses is dropped. The new place inside a loop is a block without axes.
    """
    finder = _Finder()
    finder.visit(func.body, _Scope(None, func.body, 0))
    return func.with_body(_Place(finder.places())(func.body))


@dataclass(eq=False, slots=True)
class _Scope:
    """A loop or block on the way from the root to a statement."""

    parent: _Scope | None
    node: Node
    depth: int

    def enter(self, node: Node) -> _Scope:
        return _Scope(self, node, self.depth + 1)

    def common(self, other: _Scope) -> _Scope:
        a: _Scope | None = self
        b: _Scope | None = other
        while a is not b:
            assert a is not None
            assert b is not None
            if a.depth >= b.depth:
                a = a.parent
            else:
                b = b.parent
        assert a is not None
        return a


class _Finder:
    """Finds the innermost scope of each buffer."""

    def __init__(self) -> None:
        self._home: dict[Var, tuple[Buffer, _Scope]] = {}
        self._uses: dict[Var, _Scope] = {}

    def visit(self, node: Node, scope: _Scope) -> None:
        kind = type(node)
        if kind is s.For:
            inner = scope.enter(node)
            self._expressions(node.min, scope)  # type: ignore[attr-defined]
            self._expressions(node.extent, scope)  # type: ignore[attr-defined]
            self.visit(node.body, inner)  # type: ignore[attr-defined]
        elif kind is s.BlockRealize:
            self._realize(node, scope)  # type: ignore[arg-type]
        elif kind is s.BufferStore:
            self._store(node, scope)  # type: ignore[arg-type]
        elif isinstance(node, PrimExpr):
            self._expressions(node, scope)
        else:
            inner = scope.enter(node) if kind is s.While else scope
            for child in children(node):
                self.visit(child, inner)

    def _realize(self, node: s.BlockRealize, scope: _Scope) -> None:
        block = node.block
        for value in (*node.iter_values, node.predicate):
            self._expressions(value, scope)
        outside = _outside_reduction(node, scope)
        if outside is not None:
            for written in block.writes:
                self._use(written.buffer.data, outside)
        inner = scope.enter(block)
        for buffer in block.alloc_buffers:
            self._home[buffer.data] = (buffer, inner)
        for match in block.match_buffers:
            self._use(match.source.buffer.data, inner)
            self._expressions(match, inner)
        self.visit(block.body, inner)

    def _store(self, node: s.BufferStore, scope: _Scope) -> None:
        pointer = node.buffer.data
        self._use(pointer, scope)
        home = self._home.get(pointer)
        if home is not None and not _in_block_with_axes(scope, home[1]):
            self._use(pointer, home[1])
        for part in children(node):
            self._expressions(part, scope)

    def _expressions(self, node: Node, scope: _Scope) -> None:
        for part in walk(node):
            if type(part) is BufferLoad:
                self._use(part.buffer.data, scope)
            elif isinstance(part, Var) and part in self._home:
                # The address itself is taken: whoever has it may keep it.
                self._use(part, self._home[part][1])

    def _use(self, pointer: Var, scope: _Scope) -> None:
        known = self._uses.get(pointer)
        self._uses[pointer] = scope if known is None else known.common(scope)

    def places(self) -> dict[Node, list[Buffer]]:
        """Return the buffers to allocate in each loop or block."""
        found: dict[Node, list[Buffer]] = {}
        for pointer, (buffer, home) in self._home.items():
            scope = self._uses.get(pointer)
            if scope is None:
                continue
            place = scope if scope.depth > home.depth else home
            at: _Scope | None = place
            while at is not None and at is not home:
                if _keeps_allocations_out(at.node):
                    place = at.parent or home
                at = at.parent
            found.setdefault(place.node, []).append(buffer)
        return found


def _keeps_allocations_out(node: Node) -> bool:
    if type(node) is s.For:
        return node.kind is s.ForKind.VECTORIZED
    return type(node) is s.While


def _in_block_with_axes(scope: _Scope, home: _Scope) -> bool:
    at: _Scope | None = scope
    while at is not None and at is not home:
        if type(at.node) is s.Block and at.node.iter_vars:
            return True
        at = at.parent
    return False


def _outside_reduction(node: s.BlockRealize, scope: _Scope) -> _Scope | None:
    """Return the scope around the outermost loop that an axis other than a spatial one uses."""
    variables = {
        var
        for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True)
        if axis.iter_type != IterVar.DATA_PAR
        for var in walk(value)
        if isinstance(var, Var)
    }
    found = None
    at: _Scope | None = scope
    while at is not None and variables:
        if type(at.node) is s.For and at.node.loop_var in variables:
            found = at.parent
        at = at.parent
    return found


class _Place(Rewriter):
    def __init__(self, places: dict[Node, list[Buffer]]) -> None:
        self._places = places

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        return node

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        buffers = tuple(self._places.get(node, ()))
        body = self(node.body)
        if body is node.body and buffers == node.alloc_buffers:
            return node
        return node.with_(alloc_buffers=buffers, body=body)

    def rewrite_For(self, node: s.For) -> s.For:  # noqa: N802
        body = self(node.body)
        buffers = self._places.get(node)
        if buffers:
            block = s.Block((), (), (), "", body, alloc_buffers=buffers)
            body = s.BlockRealize((), TRUE, block)
        return node if body is node.body else node.with_(body=body)
