"""Moving each buffer's allocation to the innermost place that encloses all its uses."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.lower.carried_values import carrying_loops
from codegen.lower.rewriters import StatementRewriter
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, Call, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.ops import TRUE
from tensorir.rewriting.visit import children, walk

_ADDRESS_OF = Op.get("address_of")


def place_allocations(func: PrimFunc) -> PrimFunc:
    """Allocate every buffer of a block as far inside as its uses allow.

    Before: alloc B; for i: B[i] = A[i]; C[i] = B[i]
    After:  for i: alloc B; B[i] = A[i]; C[i] = B[i]

    A buffer moves into a loop only if each iteration surely writes what it reads of it before
    reading it (`carrying_loops`). It stays outside vectorized loops (one copy a lane is an index,
    not an allocation), and where it is if its address is taken. A buffer without uses is dropped.
    The new place inside a loop is a block without axes. Runs when blocks have no axes any more.
    """
    finder = _Finder()
    finder.visit(func.body, _Scope(None, func.body, 0))
    return func.with_body(_Place(finder.places(func))(func.body))


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

    def inside(self, home: _Scope) -> list[_Scope]:
        """Return the scopes from the first one inside `home` down to this one."""
        path: list[_Scope] = []
        at: _Scope | None = self
        while at is not None and at.depth > home.depth:
            path.insert(0, at)
            at = at.parent
        return path


class _Finder:
    """Finds the innermost scope of each buffer."""

    def __init__(self) -> None:
        self._home: dict[Var, tuple[Buffer, _Scope]] = {}
        self._uses: dict[Var, _Scope] = {}
        self._views: dict[Var, Var] = {}
        """Pointers of views by what they are views of."""

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
            self._use(node.buffer, scope)  # type: ignore[attr-defined]
            for part in children(node):
                self._expressions(part, scope)
        elif isinstance(node, PrimExpr):
            self._expressions(node, scope)
        else:
            inner = scope.enter(node) if kind is s.While else scope
            for child in children(node):
                self.visit(child, inner)

    def _realize(self, node: s.BlockRealize, scope: _Scope) -> None:
        block = node.block
        self._expressions(node.predicate, scope)
        for region in (*block.reads, *block.writes):
            self._use(region.buffer, scope)
        inner = scope.enter(block)
        for buffer in block.alloc_buffers:
            self._home[buffer.data] = (buffer, inner)
        for match in block.match_buffers:
            self._use(match.source.buffer, inner)
            self._views[match.buffer.data] = match.source.buffer.data
            self._expressions(match, inner)
        self.visit(block.body, inner)

    def _expressions(self, node: Node, scope: _Scope) -> None:
        for part in walk(node):
            if type(part) is BufferLoad:
                self._use(part.buffer, scope)
            elif isinstance(part, Var):
                self._take_address(part)
            elif type(part) is Call and part.op is _ADDRESS_OF:
                for argument in part.args:
                    if type(argument) is BufferLoad:
                        self._take_address(argument.buffer.data)

    def _take_address(self, pointer: Var) -> None:
        """Whoever has the address itself may keep it."""
        pointer = self._source(pointer)
        if pointer in self._home:
            self._meet(pointer, self._home[pointer][1])

    def _source(self, pointer: Var) -> Var:
        while pointer in self._views:
            pointer = self._views[pointer]
        return pointer

    def _use(self, buffer: Buffer, scope: _Scope) -> None:
        known = self._home.get(buffer.data)
        if known is not None and known[0] is not buffer:
            scope = known[1]
        self._meet(self._source(buffer.data), scope)

    def _meet(self, pointer: Var, scope: _Scope) -> None:
        known = self._uses.get(pointer)
        self._uses[pointer] = scope if known is None else known.common(scope)

    def places(self, func: PrimFunc) -> dict[Node, list[Buffer]]:
        """Return the buffers to allocate in each loop or block."""
        paths = {
            buffer: (home, self._uses[pointer].inside(home))
            for pointer, (buffer, home) in self._home.items()
            if pointer in self._uses
        }
        moving = [
            buffer
            for buffer, (_, path) in paths.items()
            if any(type(scope.node) is s.For for scope in path)
        ]
        carrying = carrying_loops(func, moving) if moving else {}
        found: dict[Node, list[Buffer]] = {}
        for buffer, (place, path) in paths.items():
            carry = carrying.get(buffer, ())
            for scope in path:
                if _keeps_allocations_out(scope.node) or scope.node in carry:
                    break
                place = scope
            found.setdefault(place.node, []).append(buffer)
        return found


def _keeps_allocations_out(node: Node) -> bool:
    if type(node) is s.For:
        return node.kind is s.ForKind.VECTORIZED
    return type(node) is s.While


class _Place(StatementRewriter):
    def __init__(self, places: dict[Node, list[Buffer]]) -> None:
        self._places = places

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        new, buffers = self.generic(node), tuple(self._places.get(node, ()))
        return new if buffers == new.alloc_buffers else new.with_(alloc_buffers=buffers)

    def rewrite_For(self, node: s.For) -> s.For:  # noqa: N802
        new, buffers = self.generic(node), self._places.get(node)
        if not buffers:
            return new
        block = s.Block((), (), (), "", new.body, alloc_buffers=buffers)
        return new.with_body(s.BlockRealize((), TRUE, block))
