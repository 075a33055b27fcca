"""Vector accesses whose lanes lie apart, as contiguous accesses and shuffles.

A processor reads a vector in one access where its elements lie side by side, and else lane by lane
(a gather does too, several cycles for each). So lanes that lie a few elements apart are picked out
of the contiguous vectors that cover them: 16 lanes two elements apart are two loads and one or two
shuffles. Lanes that lie far apart are loaded one by one, from addresses that differ by constants.
"""

from __future__ import annotations

from typing import Final

from codegen.lower.indices import as_ramp, plus
from codegen.lower.rewriters import SharedRewriter
from codegen.lower.transpose import picked
from codegen.lower.widen import may_load
from codegen.target import Target, as_target
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Ramp, Var
from tensorir.nodes.ops import add, const, mul


def contiguous_accesses(func: PrimFunc) -> PrimFunc:
    """Replace strided vector accesses by contiguous or scalar ones and shuffles.

    Before: C[Ramp(j, 1, 4)] = A[Ramp(j * 2, 2, 4)]
    After:  C[Ramp(j, 1, 4)] = Shuffle([A[Ramp(j * 2, 1, 4)], A[Ramp(j * 2 + 3, 1, 4)]],
                                       [0, 2, 5, 7])

    Before: C[Ramp(j, n, 4)] = A[Ramp(j, 1, 4)]
    After:  let lanes = A[Ramp(j, 1, 4)]: C[j] = Shuffle([lanes], [0]), ..., C[j + n * 3] = ...

    The last of the contiguous vectors ends at the last lane: nothing is read outside of what lies
    between the first lane and the last. Lanes are loaded one by one where that takes fewer loads
    than twice those of the contiguous vectors. With a mask the contiguous vectors have masks too,
    where the target has such loads; other masked accesses stay, and so do irregular ones.
    """
    return func.with_body(_ContiguousAccesses(as_target(None))(func.body))


class _ContiguousAccesses(SharedRewriter):
    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    def rewrite_IntImm(self, node: IntImm) -> PrimExpr:  # noqa: N802
        return node

    def rewrite_LogicalOp(self, node: e.LogicalOp) -> PrimExpr:  # noqa: N802
        # Loads on the right side happen in the lanes only that the left side leaves open.
        return self.rewrite_PrimExpr(node) if node.dtype.lanes == 1 else node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        changed = self.generic(node)
        ramp = strided_ramp(changed.buffer, changed.indices)
        if ramp is None or changed.predicate is not None or may_load(ramp):
            return changed  # The first lanes might change where the last ones go.
        value = changed.value
        lanes = Var("lanes", value.dtype)
        stores = [
            s.BufferStore(changed.buffer, picked([lanes], [k]), (lane_of(ramp, k),))
            for k in range(ramp.lanes)
        ]
        return s.LetStmt(lanes, value, s.sequence(stores))

    def load(self, node: BufferLoad) -> PrimExpr:
        node = self.generic(node)
        ramp = strided_ramp(node.buffer, node.indices)
        if ramp is None:
            return node
        dtype = node.buffer.dtype
        covering = _covering(ramp, dtype, self._target)
        if covering is not None:
            if node.predicate is None:
                return covering.load(node)
            if _has_masked_loads(self._target, dtype):
                return covering.masked_load(node, node.predicate)
        if node.predicate is not None:
            return node
        one_by_one = [BufferLoad(node.buffer, (lane_of(ramp, k),)) for k in range(ramp.lanes)]
        return picked(one_by_one, list(range(ramp.lanes)))


def strided_ramp(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Ramp | None:
    """Return an index as a ramp if its lanes lie apart in a buffer of scalars, else None."""
    (index,) = indices
    if index.dtype.lanes == 1 or buffer.dtype.lanes > 1:
        return None
    ramp = as_ramp(index)
    if type(ramp) is not Ramp or not ramp.dtype.is_int or ramp.dtype.bits < 32:
        return None  # An index of fewer bits may wrap from one lane to the next.
    if type(ramp.stride) is IntImm and -1 <= ramp.stride.value <= 1:
        return None
    return ramp


def lane_of(ramp: Ramp, lane: int) -> PrimExpr:
    """Return the scalar that a lane of a ramp is."""
    if type(ramp.stride) is IntImm:
        return plus(ramp.base, ramp.stride.value * lane)
    return add(ramp.base, mul(ramp.stride, lane))


class _Covering:
    """Contiguous vectors of `length` elements that cover the lanes of a ramp."""

    def __init__(self, ramp: Ramp, stride: int, length: int) -> None:
        last = stride * (ramp.lanes - 1)
        self._first = plus(ramp.base, min(0, last))
        self._length = length
        span = abs(last) + 1
        self.starts: Final = [*range(0, span - length, length), span - length]
        """The first elements of the vectors, counted from the lowest lane."""
        offsets = [stride * k - min(0, last) for k in range(ramp.lanes)]
        self._homes = [min(offset // length, len(self.starts) - 1) for offset in offsets]
        """By lane: the vector that it is in."""
        self._places = [
            offset - self.starts[home] for offset, home in zip(offsets, self._homes, strict=True)
        ]
        """By lane: its place in that vector."""

    def _index(self, start: int) -> PrimExpr:
        first = plus(self._first, start)
        return Ramp(first, const(1, first.dtype), self._length)

    def _pick(self, vectors: list[PrimExpr]) -> PrimExpr:
        lanes = [h * self._length + p for h, p in zip(self._homes, self._places, strict=True)]
        return picked(vectors, lanes)

    def load(self, node: BufferLoad) -> PrimExpr:
        """Return the lanes that `node` loads without a mask."""
        return self._pick([BufferLoad(node.buffer, (self._index(n),)) for n in self.starts])

    def masked_load(self, node: BufferLoad, mask: PrimExpr) -> PrimExpr:
        """Return the lanes of `node` that are on in `mask`, 0 for the others."""
        off = len(self._homes)
        none = e.Broadcast(const(False, "bool"), off)
        masks = [[off] * self._length for _ in self.starts]
        for lane, (home, place) in enumerate(zip(self._homes, self._places, strict=True)):
            masks[home][place] = lane
        return self._pick(
            [
                BufferLoad(node.buffer, (self._index(start),), picked([mask, none], on))
                for start, on in zip(self.starts, masks, strict=True)
            ]
        )


def _covering(ramp: Ramp, dtype: DataType, target: Target) -> _Covering | None:
    """Return the vectors that cover a ramp, None if loading lane by lane is better."""
    if type(ramp.stride) is not IntImm:
        return None
    span = abs(ramp.stride.value) * (ramp.lanes - 1) + 1
    native = target.vector_lanes(max(8, dtype.bits))
    length = min(native, 1 << (span.bit_length() - 1))
    if 2 * -(-span // length) > ramp.lanes:
        return None
    return _Covering(ramp, ramp.stride.value, length)


def instructions_to_load(ramp: Ramp, dtype: DataType, target: Target) -> int:
    """Return about how many instructions a strided load becomes."""
    covering = _covering(ramp, dtype, target)
    if covering is None:
        return 2 * ramp.lanes - 1
    # Of any two vectors, all lanes are picked by one instruction in AVX-512 only.
    loads = len(covering.starts)
    return loads + (loads - 1) * (1 if "avx512f" in target.features else 2)


def _has_masked_loads(target: Target, dtype: DataType) -> bool:
    """Say whether the target loads the lanes of a mask in one instruction."""
    if dtype.is_bool or dtype.bits < 32:
        return "avx512bw" in target.features and "avx512vl" in target.features
    return "avx" in target.features
