"""Accumulators of a tail as whole vectors: lanes that nobody looks at need no mask."""

from __future__ import annotations

from typing import Any, TypeVar

from codegen.lower.indices import run_of
from codegen.lower.rewriters import SharedRewriter
from tensorir.arith.opaque import expr_key
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Shuffle, Var
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import children, walk, walk_once

A = TypeVar("A", BufferLoad, s.BufferStore)


def unmask_tiles(func: PrimFunc) -> PrimFunc:
    """Access vectors of a function's own memory as a whole where all accesses have one mask.

    Before: R = allocate(8); R.vstore(0, x, p); for k: R.vstore(0, R.vload(0, p) + y, p)
            C.vstore(i, R.vload(0, p), p)
    After:  R = allocate(8); R[0:8] = x; for k: R[0:8] = R[0:8] + y
            C.vstore(i, R[0:8], p)

    LLVM keeps memory in registers that is accessed at constant places, but not through masks. Done
    for an allocation if each access to it is one to constant indices with all lanes in it, none
    overlaps another one but the same, what a mask depends on does not change while the memory
    lives, and what is loaded is stored under the same mask, lane by lane.
    """
    if not any(type(n) is BufferLoad and n.predicate is not None for n in walk_once(func.body)):
        return func
    return func.with_body(_Unmask()(func.body))


class _Unmask(SharedRewriter):
    def __init__(self) -> None:
        super().__init__()
        self._whole: set[Var] = set()

    def rewrite_Allocate(self, node: s.Allocate) -> s.Stmt:  # noqa: N802
        if not _Accesses(node).are_alike():
            return self.generic(node)
        self._whole.add(node.buffer_var)
        self._memo = {}
        new = self.generic(node)
        self._whole.remove(node.buffer_var)
        self._memo = {}
        return new

    def expression(self, node: PrimExpr) -> PrimExpr:
        new = self.generic(node) if self._whole else node
        return self._unmasked(new) if isinstance(new, BufferLoad) else new

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        return self._unmasked(self.generic(node)) if self._whole else node

    def _unmasked(self, node: A) -> A:
        """Return an access without a mask, if it is one to memory that needs none."""
        if node.predicate is None or node.buffer.data not in self._whole:
            return node
        return node.with_(predicate=None)


class _Accesses:
    """The accesses to allocated memory, by their places."""

    def __init__(self, allocation: s.Allocate) -> None:
        self._pointer, self._extents = allocation.buffer_var, allocation.extents
        self._masks: dict[tuple[int, int], Any] = {}
        self._inside: set[Var] = set()
        self._is_plain = True
        self._visit(allocation.body)

    def are_alike(self) -> bool:
        """Say whether the memory is accessed through masks, all of which may go."""
        if not self._is_plain or not any(self._masks.values()):
            return False
        end = 0
        for first, lanes in sorted(self._masks):
            if first < end:
                return False
            end = first + lanes
        # What lies beyond the end is not there, mask or not.
        (size,) = self._extents
        return type(size) is IntImm and end <= size.value

    def _visit(self, node: s.Stmt) -> None:
        if isinstance(node, s.BufferStore):
            mask = None if node.predicate is None else self._key(node.predicate)
            if node.buffer.data is self._pointer:
                self._note(node.indices[0], mask)
            self._expression(node.value, mask)
            for index in node.indices:
                self._expression(index, None)
            return
        if isinstance(node, s.For):
            self._inside.add(node.loop_var)
        elif isinstance(node, s.LetStmt):
            self._inside.add(node.var)
        for part in children(node):
            if isinstance(part, s.Stmt):
                self._visit(part)
            else:
                self._expression(part, None)

    def _expression(self, node: Node, mask: Any) -> None:
        """Look at what is computed for a store under a mask, None for all lanes."""
        uses = False
        for part in walk_once(node):
            if isinstance(part, BufferLoad) and part.buffer.data is self._pointer:
                uses = True
                own = None if part.predicate is None else self._key(part.predicate)
                if own is not None and own != mask:
                    self._is_plain = False
                self._note(part.indices[0], own)
            elif part is self._pointer:
                self._is_plain = False
        if uses and mask is not None and any(_mixes_lanes(part) for part in walk_once(node)):
            self._is_plain = False

    def _note(self, index: PrimExpr, mask: Any) -> None:
        run = run_of(index)
        if run is None or type(run[0]) is not IntImm:
            self._is_plain = False
            return
        place = (run[0].value, run[1])
        if self._masks.setdefault(place, mask) != mask:
            self._is_plain = False

    def _key(self, mask: PrimExpr) -> Any:
        for part in walk(mask):
            if isinstance(part, BufferLoad) or (isinstance(part, Var) and part in self._inside):
                self._is_plain = False
        return expr_key(mask)


def _mixes_lanes(node: Node) -> bool:
    """Say whether lanes of a value depend on others of its parts, or choose what is accessed."""
    if isinstance(node, Call):
        return any(argument.dtype.lanes > node.dtype.lanes for argument in node.args)
    if isinstance(node, BufferLoad):
        return any(isinstance(part, BufferLoad) for i in node.indices for part in walk_once(i))
    return isinstance(node, Shuffle)
