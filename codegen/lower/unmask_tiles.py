"""Removing masks from the accumulators of a tail: unused lanes need no mask."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeVar

from codegen.lower.loop_accesses import Collector
from codegen.lower.rewriters import SharedRewriter
from tensorir.arith.terms import expr_key
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Shuffle, Var
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import children, walk_once

A = TypeVar("A", BufferLoad, s.BufferStore)


def unmask_tiles(func: PrimFunc) -> PrimFunc:
    """Remove the masks of accesses to allocated vectors if all accesses have the same mask.

    Before: R = allocate(8); R.vstore(0, x, p); for k: R.vstore(0, R.vload(0, p) + y, p)
            C.vstore(i, R.vload(0, p), p)
    After:  R = allocate(8); R[0:8] = x; for k: R[0:8] = R[0:8] + y
            C.vstore(i, R[0:8], p)

    LLVM keeps memory in registers if it is accessed at constant indices without masks. The pass
    handles an allocation if all accesses have constant indices with all lanes in bounds, and any
    two accesses are to the same or to disjoint elements. Masks must not change during the lifetime
    of the memory, and loaded values must be stored under the same mask, lane by lane.
    """
    if not any(type(n) is BufferLoad and n.predicate is not None for n in walk_once(func.body)):
        return func
    return func.with_body(_Unmask()(func.body))


class _Unmask(SharedRewriter):
    def __init__(self) -> None:
        super().__init__()
        self._whole: set[Var] = set()

    def rewrite_Allocate(self, node: s.Allocate) -> s.Stmt:  # noqa: N802
        if not _needs_no_mask(node):
            return self.generic(node)
        self._whole.add(node.buffer_var)
        self._memo = {}
        new = self.generic(node)
        self._whole.remove(node.buffer_var)
        self._memo = {}
        return new

    def load(self, node: BufferLoad) -> PrimExpr:
        return self._unmask(self.generic(node))

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        return self._unmask(self.generic(node)) if self._whole else node

    def _unmask(self, node: A) -> A:
        """Return an access without a mask, if its memory needs no masks."""
        if node.predicate is None or node.buffer.data not in self._whole:
            return node
        return node.with_(predicate=None)


def _needs_no_mask(allocation: s.Allocate) -> bool:
    """Return True if allocated memory is accessed through masks that may all be dropped."""
    pointer = allocation.buffer_var
    collector = Collector(allocation.body, ())
    accesses = collector.accesses.get(pointer)
    if accesses is None or pointer in collector.escaped:
        return False
    if not accesses.is_fixed or not accesses.has_one_mask:
        return False
    places = sorted(accesses.distinct.values(), key=lambda p: p.first)
    if all(p.predicate is None for p in places) or any(p.base is not None for p in places):
        return False
    if any(a.first + a.lanes > b.first for a, b in pairwise(places)):
        return False
    # Elements beyond the end do not exist, so an access to them keeps its mask.
    (size,) = allocation.extents
    if type(size) is not IntImm or places[-1].first + places[-1].lanes > size.value:
        return False
    return _keeps_lanes(allocation.body, pointer)


def _keeps_lanes(node: s.Stmt, pointer: Var) -> bool:
    """Return True if values loaded under a mask are stored under the same mask, lane by lane."""
    if isinstance(node, s.BufferStore):
        inside = all(_is_under(index, None, pointer) for index in node.indices)
        return inside and _is_under(node.value, node.predicate, pointer)
    return all(
        _keeps_lanes(part, pointer) if isinstance(part, s.Stmt) else _is_under(part, None, pointer)
        for part in children(node)
    )


def _is_under(value: Node, mask: PrimExpr | None, pointer: Var) -> bool:
    """Return True if the masked loads in a value have the store's mask and keep their lanes."""
    parts = [*walk_once(value)]
    loads = [p for p in parts if isinstance(p, BufferLoad) and p.buffer.data is pointer]
    key = None if mask is None else expr_key(mask)
    if any(p.predicate is not None and expr_key(p.predicate) != key for p in loads):
        return False
    return mask is None or not loads or not any(map(_mixes_lanes, parts))


def _mixes_lanes(node: Node) -> bool:
    """Return True if lanes of a value depend on other lanes, or determine accessed elements."""
    if isinstance(node, Call):
        return any(argument.dtype.lanes > node.dtype.lanes for argument in node.args)
    if isinstance(node, BufferLoad):
        return any(isinstance(part, BufferLoad) for i in node.indices for part in walk_once(i))
    return isinstance(node, Shuffle)
