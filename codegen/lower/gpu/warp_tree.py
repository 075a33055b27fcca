"""Results of threads combined by warp shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codegen.lower.gpu.combination import (
    Combination,
    DividedReduction,
    Places,
    bind_each,
    buffer_like,
    load_each,
    store_each,
)
from codegen.lower.gpu.launch_place import LaunchPlace
from codegen.lower.thread_axes import AXES, axis_of
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import EQ, Call, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import add, compare, const, floordiv, floormod, if_then_else

_DOWN: Final = Op.get("tvm_warp_shuffle_down")
_FROM: Final = Op.get("tvm_warp_shuffle")
_ALL: Final = -1
"""The mask of all lanes of a warp."""


class WarpTree(Combination):
    """Shuffles within each warp, then one value a warp through shared memory, then shuffles.

    Segments of a power of two of lanes exchange values; a lane takes the value of a lane above it,
    so that values are combined in the order of the threads. Where the threads of a result are in
    one warp, there is neither shared memory nor a barrier. Source of the scheme: M. Harris,
    "Optimizing Parallel Reduction in CUDA", and TVM's pass `LowerThreadAllreduce`.
    """

    def __init__(self, divided: DividedReduction, warp: int) -> None:
        super().__init__(divided)
        self._warp = warp
        self._width = min(warp, _power_of_two(self.count))
        """The lanes of a segment."""
        self._segments = -(-self.count // self._width)
        shape = [*map(const, (*self.rows, self._segments))]
        self._all = [buffer_like(b, "all", shape, "shared") for b in self.reduction.buffers]

    def is_possible(self, place: LaunchPlace) -> bool:
        """Return True if all threads of a warp come, and each segment is of one warp and result."""
        launch = place.extents
        wide = [tag for tag in AXES if launch.get(tag, 1) > 1]
        over = {axis_of(loop): loop.extent for loop in self.over}
        mine = [tag for tag in wide if tag in over]
        # The device numbers threads along x first.
        if wide[: len(mine)] != mine:
            return False
        targets = self.reduction.buffers
        if any(b.dtype.lanes > 1 for b in targets) or self._segments > self._width:
            return False
        dividing = place.dividing_axes(self.divided.loops)
        if dividing & over.keys() or (dividing and self.count % self._warp):
            return False
        if self.count % self._width == 0:
            return True
        # The last segment is not full, so that it must be the last of the block. Each thread learns
        # the result of several segments if they come to it in full segments.
        is_local = any(memory_of(b.data) == "local" for b in targets)
        is_full = self._segments == 1 or self.count % _power_of_two(self._segments) == 0
        return mine == wide and (is_full or not is_local)

    def shared(self) -> Sequence[Buffer]:
        """Return the buffers with one value a segment, if there are several segments."""
        return self._all if self._segments > 1 else ()

    def tree(self, rows: Places, inner: Places) -> s.Stmt:
        """Return the shuffles, and the stores of the result."""

        def own(over: Places) -> list[PrimExpr]:
            return self.place(rows, over, inner)

        def in_segment(over: Places, t: PrimExpr) -> s.Stmt:
            steps = self._halvings(own(over), self._width, t)
            if self._segments > 1:
                first = compare(EQ, floormod(t, _like(t, self._width)), _like(t, 0))
                place = [*self.row(rows), floordiv(t, _like(t, self._width))]
                show = store_each(self._all, place, load_each(self.own, own(over)))
                steps.append(s.IfThenElse(first, show))
            return s.sequence(steps)

        parts, width = [self.each(in_segment)], self._width
        if self._segments > 1:
            width = _power_of_two(self._segments)
            parts.append(self.each(lambda over, t: self._of_segments(own(over), rows, width, t)))
        parts.append(self.each(lambda over, t: self._kept(own(over), rows, inner, width)))
        parts.append(self.each(lambda over, t: self._shown(own(over), rows, inner, t)))
        return s.sequence(parts)

    def _halvings(self, own: Sequence[PrimExpr], width: int, t: PrimExpr) -> list[s.Stmt]:
        """Combine the values of each `width` lanes in the first one."""
        steps: list[s.Stmt] = []
        half = width // 2
        while half:
            others = self._names("other")
            old = load_each(self.own, own)
            step = self.reduction.update(old, others, self.own, own)
            if self.count % width:
                step = s.IfThenElse(add(t, _like(t, half)) < _like(t, self.count), step)
            steps.append(self._moved(_DOWN, own, half, width, others, step))
            half //= 2
        return steps

    def _moved(
        self,
        op: Op,
        own: Sequence[PrimExpr],
        lane: int,
        width: int,
        names: Sequence[Var],
        body: s.Stmt,
    ) -> s.Stmt:
        """Bind variables to the results of another lane."""
        sizes = [const(n) for n in (lane, width, self._warp)]
        values = [
            Call(value.dtype, op, (const(_ALL), value, *sizes))
            for value in load_each(self.own, own)
        ]
        return bind_each(names, values, body)

    def _of_segments(
        self, own: Sequence[PrimExpr], rows: Places, width: int, t: PrimExpr
    ) -> s.Stmt:
        """Combine the values of all segments, in each segment."""
        k = floormod(t, _like(t, width))
        values = load_each(self._all, [*self.row(rows), k])
        if width > self._segments:
            is_one = k < _like(k, self._segments)
            values = [
                if_then_else(is_one, value, nothing)
                for value, nothing in zip(values, self.identity(), strict=True)
            ]
        steps = self._halvings(own, width, t)
        return s.sequence([store_each(self.own, own, values), *steps])

    def _kept(self, own: Sequence[PrimExpr], rows: Places, inner: Places, width: int) -> s.Stmt:
        """Store the result of the first lane to the memory of each thread."""
        firsts = self._names("first")
        stores = self.own_stores(rows, inner, firsts)
        return self._moved(_FROM, own, 0, width, firsts, stores)

    def _shown(self, own: Sequence[PrimExpr], rows: Places, inner: Places, t: PrimExpr) -> s.Stmt:
        """Store the result of the first lane to memory that threads share.

        Each lane reads its own memory outside of the condition, so that its index stays the same.
        """
        results = self._names("result")
        stores = self.common_stores(rows, inner, t, results)
        return bind_each(results, load_each(self.own, own), stores)

    def _names(self, what: str) -> list[Var]:
        return [Var(f"{b.name}_{what}", b.dtype) for b in self.reduction.buffers]


def _power_of_two(count: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << (count - 1).bit_length()


def _like(number: PrimExpr, value: int) -> PrimExpr:
    return const(value, number.dtype)
