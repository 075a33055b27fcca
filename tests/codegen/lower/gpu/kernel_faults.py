"""Faults put into launched kernels, which the lock-step interpreter has to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from codegen.lower.thread_axes import THREAD, is_barrier, kind_of
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import LT, BufferLoad, Call, IntImm, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.ops import add, compare, const, floordiv, floormod
from tensorir.rewriting.visit import Rewriter, substitute, uses_var, walk


@dataclass(frozen=True)
class Fault:
    """A kernel with one fault, and the place of that in words."""

    kind: str
    place: str
    func: PrimFunc


def faults(func: PrimFunc) -> Iterator[Fault]:
    """Yield a lowered function with each fault at each place where it may be."""
    threads = {n.loop_var: n for n in walk(func.body) if isinstance(n, s.For) and _is_wide(n)}
    for kind, change in KINDS.items():
        count = 0
        while True:
            at = _At(count, lambda node, change=change: change(node, threads))
            body = at(func.body)
            if at.place is None:
                break
            yield Fault(kind, at.place, func.with_body(body))
            count += 1


def _is_wide(loop: s.For) -> bool:
    is_constant = isinstance(loop.extent, IntImm) and loop.extent.value > 1
    return kind_of(loop) == THREAD and is_constant


class _At(Rewriter):
    """Changes the n-th node that a change applies to."""

    def __init__(self, count: int, change: Callable[[Node], Node | None]) -> None:
        self._left = count
        self._change = change
        self.place: str | None = None

    def __call__(self, node: Any) -> Any:
        if self.place is None:
            new = self._change(node)
            if new is not None:
                if self._left == 0:
                    self.place = str(node).strip().splitlines()[-1].strip()
                    return new
                self._left -= 1
        return super().__call__(node)


Threads = dict[Var, s.For]


def _extent(loop: s.For) -> int:
    assert isinstance(loop.extent, IntImm)
    return loop.extent.value


def _removed(node: Node, threads: Threads) -> Node | None:
    return s.Evaluate(const(0)) if is_barrier(node) else None  # type: ignore[arg-type]


def _divergent(node: Node, threads: Threads) -> Node | None:
    if not is_barrier(node):
        return None
    var, loop = next(iter(threads.items()))
    assert isinstance(node, s.Stmt)
    return s.IfThenElse(compare(LT, var, const(_extent(loop) // 2)), node)


def _smaller_bound(node: Node, threads: Threads) -> Node | None:
    if isinstance(node, s.For) and not kind_of(node) and isinstance(node.extent, IntImm):
        return node.with_(extent=const(node.extent.value - 1)) if node.extent.value > 1 else None
    return None


def _larger_guard(node: Node, threads: Threads) -> Node | None:
    if isinstance(node, LT) and isinstance(node.b, IntImm) and uses_var(node.a, _in(threads)):
        return compare(LT, node.a, const(node.b.value + 1, node.b.dtype))
    return None


def _smaller_guard(node: Node, threads: Threads) -> Node | None:
    if isinstance(node, LT) and isinstance(node.b, IntImm) and uses_var(node.a, _in(threads)):
        return compare(LT, node.a, const(node.b.value - 1, node.b.dtype))
    return None


def _in(threads: Threads) -> Callable[[Var], bool]:
    return lambda var: var in threads


def _neighbour(node: Node, threads: Threads) -> Node | None:
    """A load of shared memory by the number of the next thread."""
    if not isinstance(node, BufferLoad) or memory_of(node.buffer.data) != "shared":
        return None
    for var, loop in threads.items():
        if uses_var(node, var):
            other = floormod(add(var, const(1)), const(_extent(loop)))
            return substitute(node, {var: other})
    return None


def _one_place(node: Node, threads: Threads) -> Node | None:
    """A store to shared memory at the place of thread 0, or of every second one."""
    if not isinstance(node, s.BufferStore) or memory_of(node.buffer.data) != "shared":
        return None
    for var in threads:
        if any(uses_var(index, var) for index in node.indices):
            half: PrimExpr = floordiv(var, const(2))
            indices = [substitute(index, {var: half}) for index in node.indices]
            return node.with_(indices=tuple(indices))
    return None


def _other_lane(node: Node, threads: Threads) -> Node | None:
    """A shuffle from a lane that is one further away."""
    if not _is_shuffle(node):
        return None
    call = node.value
    mask, value, lane, *sizes = call.args
    return node.with_(value=call.with_(args=(mask, value, add(lane, const(1)), *sizes)))


def _divided_warp(node: Node, threads: Threads) -> Node | None:
    if not _is_shuffle(node):
        return None
    var, loop = next(iter(threads.items()))
    return s.IfThenElse(compare(LT, var, const(_extent(loop) // 2)), node)


def _is_shuffle(node: Node) -> TypeGuard[s.LetStmt]:
    if not isinstance(node, s.LetStmt) or not isinstance(node.value, Call):
        return False
    return isinstance(node.value.op, Op) and "warp_shuffle" in node.value.op.name


KINDS: dict[str, Callable[[Node, Threads], Node | None]] = {
    "a barrier removed": _removed,
    "a barrier that half of the threads come to": _divergent,
    "a loop with an iteration less": _smaller_bound,
    "a guard that lets one more thread in": _larger_guard,
    "a guard that keeps one thread out": _smaller_guard,
    "a load by the number of another thread": _neighbour,
    "stores of two threads to one element": _one_place,
    "a shuffle from another lane": _other_lane,
    "a shuffle that half of the threads come to": _divided_warp,
}
