"""A loop without the conditions that do not change in it, for when all of them hold.

Loop unswitching (Allen and Cocke, "A Catalogue of Optimizing Transformations", 1971). A tile that
does not divide its buffer has conditions and masks on every update, for the sake of the last tile;
all others run without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorir import stmt as s
from tensorir.arith.opaque import expr_key
from tensorir.expr import LE, LT, And, Broadcast, BufferLoad, IntImm, Let, PrimExpr, Ramp
from tensorir.fresh_copy import FreshCopy
from tensorir.ops import add, all_of, const


@dataclass(frozen=True, slots=True)
class Unconditional:
    """A loop for when a condition holds."""

    condition: PrimExpr
    loop: s.For


def unconditional(
    loop: s.For, guards: Sequence[PrimExpr], predicates: Sequence[PrimExpr]
) -> Unconditional | None:
    """Return `loop` without some conditions of branches and predicates of accesses.

    Before: for k: if j < n: C.vstore(j, C.vload(j, p) + A[k], p)             # p: Ramp(j, 1, 4) < n
    After:  j < n and j + 3 < n, for k: C.vstore(j, C.vload(j) + A[k])

    The loop is a copy, to stand beside the original. None of the conditions may depend on what the
    loop changes. None if there are none, or if there is no
    scalar condition that says that a predicate holds in all lanes.
    """
    dropped: dict[Any, None] = {}
    needed: dict[Any, PrimExpr] = {}
    for guard in guards:
        key = expr_key(guard)
        dropped[key] = None
        needed[key] = guard
    for predicate in predicates:
        key = expr_key(predicate)
        if key in dropped:
            continue
        dropped[key] = None
        parts = _in_all_lanes(predicate)
        if parts is None:
            return None
        needed.update((expr_key(part), part) for part in parts)
    if not needed:
        return None
    copy = _Without(dropped)(loop)
    assert isinstance(copy, s.For)
    return Unconditional(all_of(needed.values()), copy)


def _in_all_lanes(predicate: PrimExpr) -> list[PrimExpr] | None:
    """Return scalar conditions that hold together exactly if a vector of conditions does."""
    kind = type(predicate)
    if predicate.dtype.lanes == 1:
        return [predicate]
    if kind is Broadcast:
        return [predicate.value]  # type: ignore[attr-defined]
    if kind is And:
        left, right = _in_all_lanes(predicate.a), _in_all_lanes(predicate.b)  # type: ignore[attr-defined]
        return None if left is None or right is None else left + right
    if kind is not LT and kind is not LE:
        return None
    # What is linear in the lane holds in all of them if it holds in the first and in the last.
    ends: list[PrimExpr] = []
    for lane in (0, predicate.dtype.lanes - 1):
        a, b = _lane(predicate.a, lane), _lane(predicate.b, lane)  # type: ignore[attr-defined]
        if a is None or b is None:
            return None
        ends.append(LT(a, b) if kind is LT else LE(a, b))
    return ends


def _lane(vector: PrimExpr, lane: int) -> PrimExpr | None:
    if type(vector) is Broadcast:
        return vector.value
    if type(vector) is Ramp and type(vector.stride) is IntImm:
        return add(vector.base, const(vector.stride.value * lane, vector.base.dtype))
    return None


class _Without(FreshCopy):
    """Copies a loop without conditions and predicates that have certain structural keys."""

    def __init__(self, dropped: dict[Any, None]) -> None:
        super().__init__()
        self._dropped = dropped
        self._known: dict[PrimExpr, bool] = {}
        self._memo: dict[PrimExpr, PrimExpr] = {}

    def _holds(self, condition: PrimExpr) -> bool:
        known = self._known.get(condition)
        if known is None:
            known = self._known[condition] = expr_key(condition) in self._dropped
        return known

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        known = self._memo.get(node)
        if known is None:
            known = self._memo[node] = self.generic(node)
        return known

    def rewrite_Let(self, node: Let) -> PrimExpr:  # noqa: N802
        known = self._memo.get(node)
        if known is None:
            known = self._memo[node] = super().rewrite_Let(node)
        return known

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        if node.predicate is not None and self._holds(node.predicate):
            node = BufferLoad(node.buffer, node.indices)
        return self.rewrite_PrimExpr(node)

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        if node.predicate is not None and self._holds(node.predicate):
            node = s.BufferStore(node.buffer, node.value, node.indices)
        return self.generic(node)

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        if node.else_case is None and self._holds(node.condition):
            return self(node.then_case)
        return self.generic(node)
