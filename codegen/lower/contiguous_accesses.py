"""Replacing strided vector accesses by contiguous accesses and shuffles.

A processor reads a vector in one access if its elements are contiguous, and else lane by lane (a
gather, too, needs several cycles per lane). So lanes that are a few elements apart are picked from
the contiguous vectors that cover them: 16 lanes two elements apart are two loads and one or two
shuffles. Lanes that are far apart are loaded one by one, from addresses that differ by constants.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Final

from codegen.lower.indices import as_ramp, plus
from codegen.lower.rewriters import SharedRewriter
from codegen.lower.transpose import pick
from codegen.lower.widen import may_load
from codegen.target import Target, as_target
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Ramp, Var
from tensorir.nodes.ops import add, const, mul, sub


def contiguous_accesses(func: PrimFunc) -> PrimFunc:
    """Replace strided vector accesses by contiguous or scalar ones and shuffles.

    Before: C[Ramp(j, 1, 4)] = A[Ramp(j * 2, 2, 4)]
    After:  C[Ramp(j, 1, 4)] = Shuffle([A[Ramp(j * 2, 1, 4)], A[Ramp(j * 2 + 3, 1, 4)]],
                                       [0, 2, 5, 7])

    Before: C[Ramp(j, n, 4)] = A[Ramp(j, 1, 4)]
    After:  let lanes = A[Ramp(j, 1, 4)]: C[j] = Shuffle([lanes], [0]), ..., C[j + n * 3] = ...

    The last of the contiguous vectors ends at the last lane, so no element outside of the range
    from the first to the last lane is read. Lanes are loaded one by one if that needs less than
    twice as many loads as contiguous vectors. The contiguous vectors of a masked access have masks,
    too, if the target has masked loads; other masked accesses stay.

    Lanes at constant but unequal distances, such as `j * 2 + Ramp(0, 1, 8) % 2`,
    are picked in the same way. If they are far apart but only a few elements are distinct, each
    element is loaded once. Other irregular accesses stay.
    """
    return func.with_body(_ContiguousAccesses(as_target(None))(func.body))


class _ContiguousAccesses(SharedRewriter):
    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    def rewrite_IntImm(self, node: IntImm) -> PrimExpr:  # noqa: N802
        return node

    def rewrite_LogicalOp(self, node: e.LogicalOp) -> PrimExpr:  # noqa: N802
        # The right operand is loaded only in lanes that the left operand does not decide.
        return self.rewrite_PrimExpr(node) if node.dtype.lanes == 1 else node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        changed = self.generic(node)
        permuted = _irregular_lanes(changed)
        if permuted is not None and changed.predicate is None and not may_load(permuted.base):
            return _split_into_runs(changed, permuted)
        ramp = strided_ramp(changed.buffer, changed.indices)
        if ramp is None or changed.predicate is not None or may_load(ramp):
            return changed  # The first lanes might change the indices of the last lanes.
        value = changed.value
        lanes = Var("lanes", value.dtype)
        stores = [
            s.BufferStore(changed.buffer, pick([lanes], [k]), (lane_of(ramp, k),))
            for k in range(ramp.lanes)
        ]
        return s.LetStmt(lanes, value, s.sequence(stores))

    def load(self, node: BufferLoad) -> PrimExpr:
        node = self.generic(node)
        dtype = node.buffer.dtype
        ramp = strided_ramp(node.buffer, node.indices)
        lanes = _irregular_lanes(node) if ramp is None else _lanes_of_ramp(ramp)
        covering = None if lanes is None else _covering_vectors(lanes, dtype, self._target)
        if covering is not None:
            if node.predicate is None:
                return covering.load(node)
            # Lanes of an irregular index may load the same element under different masks.
            if ramp is not None and _has_masked_loads(self._target, dtype):
                return covering.masked_load(node, node.predicate)
        if node.predicate is not None:
            return node
        if ramp is not None:
            one_by_one = [BufferLoad(node.buffer, (lane_of(ramp, k),)) for k in range(ramp.lanes)]
            return pick(one_by_one, list(range(ramp.lanes)))
        return node if lanes is None else _load_each_once(node, lanes)


def strided_ramp(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Ramp | None:
    """Return an index as a ramp if it is strided in a buffer of scalars, else None."""
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
    """Return a lane of a ramp as a scalar."""
    if type(ramp.stride) is IntImm:
        return plus(ramp.base, ramp.stride.value * lane)
    return add(ramp.base, mul(ramp.stride, lane))


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The lanes of an index: a scalar, and the distance of each lane from it."""

    base: PrimExpr
    offsets: tuple[int, ...]


def _lanes_of_ramp(ramp: Ramp) -> _Lanes | None:
    if type(ramp.stride) is not IntImm:
        return None
    return _Lanes(ramp.base, tuple(ramp.stride.value * k for k in range(ramp.lanes)))


def _irregular_lanes(access: BufferLoad | s.BufferStore) -> _Lanes | None:
    """Return the lanes of an irregular index, if the distances between them are constant."""
    (index,) = access.indices
    dtype = index.dtype
    if dtype.lanes == 1 or access.buffer.dtype.lanes > 1 or not dtype.is_int or dtype.bits < 32:
        return None
    if type(as_ramp(index)) in (Ramp, e.Broadcast):
        return None
    return _lanes_of(index)


def _lanes_of(index: PrimExpr) -> _Lanes | None:
    """Return the lanes of a vector; None if the distances between them are unknown."""
    kind = type(index)
    if kind is Ramp:
        return _lanes_of_ramp(index)  # type: ignore[arg-type]
    if kind is e.Broadcast:
        return _Lanes(index.value, (0,) * index.dtype.lanes)  # type: ignore[attr-defined]
    if kind not in _ON_LANES:
        return None
    a, b = _lanes_of(index.a), _lanes_of(index.b)  # type: ignore[attr-defined]
    if a is None or b is None:
        return None
    if kind is e.Add:
        return _Lanes(add(a.base, b.base), tuple(map(operator.add, a.offsets, b.offsets)))
    if kind is e.Sub:
        return _Lanes(sub(a.base, b.base), tuple(map(operator.sub, a.offsets, b.offsets)))
    if type(b.base) is not IntImm or len(set(b.offsets)) > 1:
        return None
    factor = b.base.value + b.offsets[0]
    if kind is e.Mul:
        return _Lanes(
            mul(a.base, const(factor, a.base.dtype)), tuple(k * factor for k in a.offsets)
        )
    if type(a.base) is not IntImm or factor < 1:
        return None
    values = [a.base.value + k for k in a.offsets]
    parts = [n // factor if kind is e.FloorDiv else n % factor for n in values]
    return _Lanes(const(0, a.base.dtype), tuple(parts))


_SHORTEST_RUN: Final = 4
"""The minimum number of adjacent lanes for a vector store if a store is split into runs."""
_ON_LANES: Final = frozenset({e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod})
"""The operations of index arithmetic that are evaluated lane by lane."""


def _load_each_once(load: BufferLoad, lanes: _Lanes) -> PrimExpr:
    """Return a load as one load for each distinct element, if several lanes load the same one."""
    places = list(dict.fromkeys(lanes.offsets))
    if 2 * len(places) > len(lanes.offsets):
        return load
    elements = [BufferLoad(load.buffer, (plus(lanes.base, k),)) for k in places]
    return pick(elements, [places.index(k) for k in lanes.offsets])


def _split_into_runs(store: s.BufferStore, lanes: _Lanes) -> s.Stmt:
    """Return a store as one store for each run of adjacent lanes, if the runs are long enough."""
    order = sorted(range(len(lanes.offsets)), key=lanes.offsets.__getitem__)
    runs: list[list[int]] = []
    for lane in order:
        if runs and lanes.offsets[lane] == lanes.offsets[runs[-1][-1]] + 1:
            runs[-1].append(lane)
        else:
            runs.append([lane])
    is_distinct = len(set(lanes.offsets)) == len(lanes.offsets)
    if not is_distinct or min(map(len, runs)) < _SHORTEST_RUN:
        return store
    value = Var("lanes", store.value.dtype)
    stores = []
    for run in runs:
        first = plus(lanes.base, lanes.offsets[run[0]])
        index = Ramp(first, const(1, first.dtype), len(run))
        stores.append(s.BufferStore(store.buffer, pick([value], run), (index,)))
    return s.LetStmt(value, store.value, s.sequence(stores))


class _CoveringVectors:
    """Contiguous vectors of `length` elements that cover the lanes of an index."""

    def __init__(self, lanes: _Lanes, length: int) -> None:
        lowest = min(lanes.offsets)
        self._first = plus(lanes.base, lowest)
        self._length = length
        span = max(lanes.offsets) - lowest + 1
        self.starts: Final = [*range(0, span - length, length), span - length]
        """The first elements of the vectors, relative to the lowest lane."""
        offsets = [offset - lowest for offset in lanes.offsets]
        self._homes = [min(offset // length, len(self.starts) - 1) for offset in offsets]
        """The vector of each lane."""
        self._places = [
            offset - self.starts[home] for offset, home in zip(offsets, self._homes, strict=True)
        ]
        """The position of each lane in its vector."""

    def _index(self, start: int) -> PrimExpr:
        first = plus(self._first, start)
        return Ramp(first, const(1, first.dtype), self._length)

    def _pick(self, vectors: list[PrimExpr]) -> PrimExpr:
        lanes = [h * self._length + p for h, p in zip(self._homes, self._places, strict=True)]
        return pick(vectors, lanes)

    def load(self, node: BufferLoad) -> PrimExpr:
        """Return the lanes that `node` loads without a mask."""
        return self._pick([BufferLoad(node.buffer, (self._index(n),)) for n in self.starts])

    def masked_load(self, node: BufferLoad, mask: PrimExpr) -> PrimExpr:
        """Return the lanes of `node` that `mask` enables, 0 for the others."""
        off = len(self._homes)
        none = e.Broadcast(const(False, "bool"), off)
        masks = [[off] * self._length for _ in self.starts]
        for lane, (home, place) in enumerate(zip(self._homes, self._places, strict=True)):
            masks[home][place] = lane
        return self._pick(
            [
                BufferLoad(node.buffer, (self._index(start),), pick([mask, none], on))
                for start, on in zip(self.starts, masks, strict=True)
            ]
        )


def _covering_vectors(lanes: _Lanes, dtype: DataType, target: Target) -> _CoveringVectors | None:
    """Return the vectors that cover some lanes, None if loading lane by lane is better."""
    span = max(lanes.offsets) - min(lanes.offsets) + 1
    native = target.vector_lanes(max(8, dtype.bits))
    length = min(native, 1 << (span.bit_length() - 1))
    if length == 1 or 2 * -(-span // length) > len(lanes.offsets):
        return None
    return _CoveringVectors(lanes, length)


def instructions_to_load(ramp: Ramp, dtype: DataType, target: Target) -> int:
    """Return the approximate number of instructions of a strided load."""
    lanes = _lanes_of_ramp(ramp)
    covering = None if lanes is None else _covering_vectors(lanes, dtype, target)
    if covering is None:
        return 2 * ramp.lanes - 1
    # Only AVX-512 picks arbitrary lanes of two vectors by one instruction.
    loads = len(covering.starts)
    return loads + (loads - 1) * (1 if "avx512f" in target.features else 2)


def _has_masked_loads(target: Target, dtype: DataType) -> bool:
    """Return True if the target loads a masked vector in one instruction."""
    if dtype.is_bool or dtype.bits < 32:
        return "avx512bw" in target.features and "avx512vl" in target.features
    return "avx" in target.features
