"""Results of threads combined through shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codegen.lower.gpu.combination import (
    Combination,
    DividedReduction,
    Places,
    buffer_like,
    load_each,
    store_each,
)
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import add, const


class SharedTree(Combination):
    """A tree of steps with a barrier before each: half of the threads combine two values each.

    It does for any axes and any number of threads.
    """

    def __init__(self, divided: DividedReduction) -> None:
        super().__init__(divided)
        shape = [*map(const, (*self.rows, self.count))]
        self._all = [buffer_like(b, "all", shape, "shared") for b in self.reduction.buffers]

    def shared(self) -> Sequence[Buffer]:
        """Return the buffers with one value a thread."""
        return self._all

    def tree(self, rows: Places, inner: Places) -> s.Stmt:
        """Return the steps of the tree, and the stores of the result."""
        parts = [self.each(lambda over, t: self._shown(rows, over, inner, t))]
        left = self.count
        while left > 1:
            half = 1 << (left - 1).bit_length() - 1
            parts.append(self.each(self._halved(rows, half, left - half)))
            left = half
        results = load_each(self._all, [*self.row(rows), const(0)])
        parts.append(self.own_stores(rows, inner, results))
        parts.append(self.each(lambda over, t: self.common_stores(rows, inner, t, results)))
        return s.sequence(parts)

    def _shown(self, rows: Places, over: Places, inner: Places, t: PrimExpr) -> s.Stmt:
        """Store the result of each thread where the others see it."""
        values = load_each(self.own, self.place(rows, over, inner))
        return store_each(self._all, [*self.row(rows), t], values)

    def _halved(self, rows: Places, half: int, pairs: int) -> Callable[[Places, PrimExpr], s.Stmt]:
        """Combine the values from `half` on with the first ones."""

        def combine(over: Places, t: PrimExpr) -> s.Stmt:
            a = [*self.row(rows), t]
            b = [*self.row(rows), add(t, const(half, t.dtype))]
            x, y = (load_each(self._all, at) for at in (a, b))
            update = self.reduction.update(x, y, self._all, a)
            return s.IfThenElse(t < const(pairs, t.dtype), update)

        return combine
