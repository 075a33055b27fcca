"""Moving each buffer's allocation to the innermost place that encloses all its uses."""

from __future__ import annotations

from codegen.lower.carried_values import Nest, carrying_loops
from codegen.lower.rewriters import StatementRewriter
from codegen.lower.thread_axes import BLOCK, THREAD, is_shared_by, kind_of
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, Call, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.ops import TRUE
from tensorir.rewriting.visit import Rewriter, outside, walk

_ADDRESS_OF = Op.get("address_of")


def place_allocations(func: PrimFunc) -> PrimFunc:
    """Allocate every buffer of a block as far inside as its uses allow.

    Before: alloc B; for i: B[i] = A[i]; C[i] = B[i]
    After:  for i: alloc B; B[i] = A[i]; C[i] = B[i]

    A buffer moves into a loop only if each iteration writes all elements that it reads before it
    reads them (`carrying_loops`). It stays outside vectorized loops (a copy for each lane needs an
    index, not an allocation). It stays in place if its address is taken. A buffer without uses is
    dropped. A buffer moves into a loop that is bound to threads if each thread has its own; global
    memory never does. The new place inside a loop is a block without axes. Runs after the axes of
    blocks are inlined.
    """
    finder = _Finder(func)
    finder(func.body)
    return func.with_body(_Place(finder.places(func))(func.body))


class _Finder(Rewriter):
    """Finds the innermost loop or block around the uses of each buffer."""

    def __init__(self, func: PrimFunc) -> None:
        self._at = Nest(func.body)
        self._home: dict[Var, tuple[Buffer, Nest]] = {}
        self._uses: dict[Var, Nest] = {}
        self._views: dict[Var, Var] = {}
        """The source pointers of views, by the pointers of the views."""

    def rewrite_For(self, node: s.For | s.While) -> s.Stmt:  # noqa: N802
        for part in outside(node):
            self(part)
        self._enter(node, node.body)
        return node

    rewrite_While = rewrite_For  # noqa: N815

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        self(node.predicate)
        for region in (*node.block.reads, *node.block.writes):
            self._use(region.buffer, self._at)
        self._enter(node.block, node.block)
        return node

    def _enter(self, around: s.Stmt, body: s.Stmt) -> None:
        outer, self._at = self._at, self._at.enter(around)
        self(body)
        self._at = outer

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        for buffer in node.alloc_buffers:
            self._home[buffer.data] = (buffer, self._at)
        for match in node.match_buffers:
            self._use(match.source.buffer, self._at)
            self._views[match.buffer.data] = match.source.buffer.data
            self(match)
        self(node.body)
        return node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        self._use(node.buffer, self._at)
        return self.generic(node)

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        for part in walk(node):
            if type(part) is BufferLoad:
                self._use(part.buffer, self._at)
            elif isinstance(part, Var):
                self._take_address(part)
            elif type(part) is Call and part.op is _ADDRESS_OF:
                for argument in part.args:
                    if isinstance(argument, BufferLoad):
                        self._take_address(argument.buffer.data)
        return node

    def _take_address(self, pointer: Var) -> None:
        """Code that gets the address may keep it."""
        pointer = self._source(pointer)
        if pointer in self._home:
            self._meet(pointer, self._home[pointer][1])

    def _source(self, pointer: Var) -> Var:
        while pointer in self._views:
            pointer = self._views[pointer]
        return pointer

    def _use(self, buffer: Buffer, scope: Nest) -> None:
        known = self._home.get(buffer.data)
        if known is not None and known[0] is not buffer:
            scope = known[1]
        self._meet(self._source(buffer.data), scope)

    def _meet(self, pointer: Var, scope: Nest) -> None:
        known = self._uses.get(pointer)
        self._uses[pointer] = scope if known is None else known.common(scope)

    def places(self, func: PrimFunc) -> dict[Node, list[Buffer]]:
        """Return the buffers to allocate in each loop or block."""
        paths = {
            buffer: (home, [*self._uses[pointer].up_to(home)][::-1])
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
            carry, memory = carrying.get(buffer, ()), memory_of(buffer.data)
            for scope in path:
                stays = scope.node in carry and is_shared_by(scope.node, memory)
                if stays or _keeps_allocations_out(scope.node, memory):
                    break
                place = scope
            found.setdefault(place.node, []).append(buffer)
        return found


def _keeps_allocations_out(node: Node, memory: str) -> bool:
    if type(node) is s.For:
        is_launched = memory == "global" and kind_of(node) in (BLOCK, THREAD)
        return is_launched or node.kind is s.ForKind.VECTORIZED
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
