"""Giving a reduction a tile of accumulators that the registers can hold.

A reduction runs at the speed of the processor's multiply-add units only if its inner loop updates
enough independent accumulators to hide their latency, and few enough to keep all of them in
registers. Schedules are drawn at random during a search, and most draw tiles that are too small or
too large. The loops of such a nest may be interchanged and tiled again without changing what any
element is computed from, or in which order (register tiling: Jimenez, Llaberia and Fernandez,
"Register Tiling in Nonrectangular Iteration Spaces", 2002; unroll-and-jam: Callahan, Cocke and
Kennedy, 1988).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from codegen.lower.annotations import PIECES
from codegen.lower.linear_terms import LinearTerms, linear_terms
from codegen.lower.register_file import vector_registers
from codegen.target import as_target
from tensorir import stmt as s
from tensorir.expr import BufferLoad, Call, IntImm, Let, PrimExpr, Ramp, Var
from tensorir.function import PrimFunc
from tensorir.node import EMPTY_ATTRS, Node
from tensorir.ops import const
from tensorir.stmt import ForKind
from tensorir.visit import Rewriter, children, walk

MIN_ACCUMULATORS: Final = 8
"""Two multiply-add units with a latency of four cycles keep this many updates in flight."""
MIN_RUN: Final = 4
"""Iterations of the reduction below which loading and storing the accumulators dominates."""
GOOD_RUN: Final = 16


def block_accumulators(func: PrimFunc) -> PrimFunc:
    """Tile reductions anew whose accumulators are too many or too few for the registers.

    Before: for k0 in 16: for i in 16: for k1 in 8: for j in 4:
                C[i, j] += A[i, k0, k1] * B[k0, k1, j]
    After:  for io in 4: for k0 in 16: for k1 in 8:
                for ii in T.unroll(4): for j in T.unroll(4): C[io * 4 + ii, j] += ...

    Looks at perfect nests of serial loops with constant extents, from the outermost loop that the
    updated element does not depend on down to one update. The tile is what the loops inside the
    innermost reduction loop span. A nest is left alone if its tile fits the registers of the
    target, has at least eight accumulators and keeps them for four iterations or more. Otherwise
    the tile with the fewest loads per update is taken: the loops over it become the innermost and
    are unrolled, around them stand the innermost reduction loops, around these all other loops in
    their order. Every element gets its updates in the order it had before.

    Needs proof that no two iterations of the loops over the element meet at one element, and that
    nothing else that is read can be the updated memory.
    """
    target = as_target(None)
    blocker = _Block(func, vector_registers(target))
    return func.with_body(blocker(func.body))


@dataclass(slots=True)
class _Nest:
    """A perfect nest around one update."""

    loops: list[s.For]
    store: s.BufferStore
    index: LinearTerms
    lanes: int
    loads: list[tuple[BufferLoad, LinearTerms]]

    def spatial(self) -> list[s.For]:
        """Return the loops that the updated element depends on."""
        return [loop for loop in self.loops if self.index.coefficient(loop.loop_var) != 0]

    def reduction(self) -> list[s.For]:
        """Return the other loops."""
        return [loop for loop in self.loops if self.index.coefficient(loop.loop_var) == 0]


Factors = dict[Var, int]
"""How many iterations of each spatial loop the tile has."""


class _Block(Rewriter):
    def __init__(self, func: PrimFunc, registers: int) -> None:
        self._registers = registers
        noalias = func.attrs.get("tir.noalias")
        self._distinct = noalias is not None and bool(int(noalias))
        self._allocated = {n.buffer_var for n in walk(func.body) if type(n) is s.Allocate}

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        return node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        return node

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        loops: list[s.For] = []
        inside: s.Stmt = node
        while type(inside) is s.For:
            loops.append(inside)
            inside = inside.body
        new = self._nest(loops, inside) if type(inside) is s.BufferStore else self(inside)
        if type(inside) is s.BufferStore:
            return new
        return node if new is inside else _around(loops, new)

    def _nest(self, loops: list[s.For], store: s.BufferStore) -> s.Stmt:
        nest = _read_nest(loops, store)
        factors = None if nest is None else self._better_tile(nest)
        if nest is None or factors is None:
            return loops[0]
        return _around(loops[: len(loops) - len(nest.loops)], _retiled(nest, factors))

    def _better_tile(self, nest: _Nest) -> Factors | None:
        own = _own_tile(nest)
        spatial = nest.spatial()
        if not spatial or not self._may_interchange(nest):
            return None
        run = _run_length(nest)
        is_good = (
            self._fits(nest, own)
            and (math.prod(own.values()) >= MIN_ACCUMULATORS)
            and (run >= MIN_RUN or math.prod(_extent(n) for n in nest.reduction()) < MIN_RUN)
        )
        if is_good:
            return None
        best = min(
            (f for f in self._tiles(spatial) if self._fits(nest, f)),
            key=lambda f: (_loads_per_update(nest, f), -math.prod(f.values())),
            default=own,
        )
        return None if best == own and run >= MIN_RUN else best

    def _tiles(self, loops: Sequence[s.For]) -> Iterator[Factors]:
        """Yield all tiles of which at most as many accumulators come as there are registers."""

        def choose(k: int, room: int) -> Iterator[Factors]:
            if k == len(loops):
                yield {}
                return
            extent = _extent(loops[k])
            for factor in range(1, min(extent, room) + 1):
                if extent % factor == 0:
                    for rest in choose(k + 1, room // factor):
                        yield {loops[k].loop_var: factor, **rest}

        return choose(0, self._registers)

    def _fits(self, nest: _Nest, factors: Factors) -> bool:
        """Say whether accumulators, the values that all of them share and one more fit."""
        held = min((_copies(terms, factors) for _, terms in nest.loads), default=0)
        more = 1 if len(nest.loads) > 1 else 0
        return math.prod(factors.values()) + held + more <= self._registers

    def _may_interchange(self, nest: _Nest) -> bool:
        pointer = nest.store.buffer.data
        is_private = pointer in self._allocated
        for load, _ in nest.loads:
            other = load.buffer.data
            if other is pointer or not (is_private or self._distinct or other in self._allocated):
                return False
        reach = nest.lanes
        strides = []
        for loop in nest.spatial():
            stride = nest.index.coefficient(loop.loop_var)
            if stride is None:
                return False
            strides.append((abs(stride), _extent(loop)))
        for stride, extent in sorted(strides):
            if stride < reach:
                return False
            reach = stride * (extent - 1) + reach
        return all(
            terms.coefficient(loop.loop_var) is not None
            for _, terms in nest.loads
            for loop in nest.spatial()
        )


def _around(loops: Sequence[s.For], body: s.Stmt) -> s.Stmt:
    """Return `loops` with another body of the innermost."""
    for loop in reversed(loops):
        body = loop.with_(body=body)
    return body


def _read_nest(loops: list[s.For], store: s.BufferStore) -> _Nest | None:
    """Return the nest from the outermost reduction loop on, None if it is not of the right form."""
    lanes = store.indices[0].dtype.lanes
    index = _scalar_terms(store.indices[0])
    if lanes == 1 or index is None or store.predicate is not None:
        return None
    first = next((k for k, n in enumerate(loops) if index.coefficient(n.loop_var) == 0), None)
    if first is None:
        return None
    loops = loops[first:]
    for loop in loops:
        if loop.kind is not ForKind.SERIAL and loop.kind is not ForKind.UNROLLED:
            return None
        if type(loop.extent) is not IntImm or type(loop.min) is not IntImm or loop.min.value:
            return None
        if loop is not loops[0] and loop.annotations and PIECES not in loop.annotations:
            return None
    loads = _operands(store)
    return None if loads is None else _Nest(loops, store, index, lanes, loads)


def _operands(store: s.BufferStore) -> list[tuple[BufferLoad, LinearTerms]] | None:
    """Return the loads of an update but for that of the updated element.

    None if the store is no update, or its value depends on loops other than through loads.
    """
    loads = []
    updates = 0
    stack: list[Node] = [store.value]
    while stack:
        part = stack.pop()
        kind = type(part)
        if kind is not BufferLoad:
            if kind is Call or kind is Let or isinstance(part, Var):
                return None
            stack.extend(children(part))
            continue
        assert isinstance(part, BufferLoad)
        if part.buffer.data is store.buffer.data and _is_same(part.indices[0], store.indices[0]):
            updates += 1
            continue
        terms = _scalar_terms(part.indices[0])
        if terms is None or part.predicate is not None:
            return None
        loads.append((part, terms))
    return loads if updates == 1 else None


def _scalar_terms(index: PrimExpr) -> LinearTerms | None:
    if type(index) is Ramp:
        is_unit = type(index.stride) is IntImm and index.stride.value == 1
        return linear_terms(index.base) if is_unit else None
    return linear_terms(index) if index.dtype.lanes == 1 else None


def _is_same(a: PrimExpr, b: PrimExpr) -> bool:
    if type(a) is Ramp and type(b) is Ramp:
        return a.lanes == b.lanes and a.base is b.base
    return a is b


def _extent(loop: s.For) -> int:
    assert type(loop.extent) is IntImm
    return loop.extent.value


def _own_tile(nest: _Nest) -> Factors:
    """Return the tile that the loops inside the innermost reduction loop span."""
    reduction = nest.reduction()
    last = max(k for k, loop in enumerate(nest.loops) if loop in reduction)
    inside = set(nest.loops[last + 1 :])
    return {n.loop_var: _extent(n) if n in inside else 1 for n in nest.spatial()}


def _run_length(nest: _Nest) -> int:
    """Return how many iterations the innermost adjacent reduction loops have together."""
    reduction = set(nest.reduction())
    run = 1
    for loop in reversed(nest.loops):
        if loop in reduction:
            run *= _extent(loop)
        elif run > 1:
            break
    return run


def _copies(terms: LinearTerms, factors: Factors) -> int:
    """Return how many different values a load has in one tile."""
    return math.prod(f for var, f in factors.items() if terms.coefficient(var) != 0)


def _loads_per_update(nest: _Nest, factors: Factors) -> float:
    """Return the cost of a tile: loads for each update, and what too few accumulators lose."""
    accumulators = math.prod(factors.values())
    loads = sum(_copies(terms, factors) for _, terms in nest.loads)
    return loads / accumulators + max(0, MIN_ACCUMULATORS - accumulators)


def _retiled(nest: _Nest, factors: Factors) -> s.Stmt:
    reduction = nest.reduction()
    run: list[s.For] = []
    for loop in reversed(reduction):
        if math.prod(_extent(n) for n in run) >= GOOD_RUN:
            break
        run.insert(0, loop)
    outer: list[s.For] = []
    inner: list[s.For] = []
    values: dict[Var, list[tuple[Var, int]]] = {}
    for loop in nest.loops:
        if loop in run:
            continue
        factor = factors.get(loop.loop_var, 1)
        count = _extent(loop) // factor
        parts = values[loop.loop_var] = []
        if count > 1:
            notes = EMPTY_ATTRS if PIECES in loop.annotations else loop.annotations
            var = loop.loop_var.with_name(loop.loop_var.name + "_o" * (factor > 1))
            outer.append(_loop(var, count, loop.kind, notes))
            parts.append((var, factor))
        if factor > 1:
            var = loop.loop_var.with_name(loop.loop_var.name + "_t")
            notes = loop.annotations if PIECES in loop.annotations else EMPTY_ATTRS
            inner.append(_loop(var, factor, ForKind.UNROLLED, notes))
            parts.append((var, 1))
    tile = [loop.loop_var for loop in inner]
    result: s.Stmt = _Reindex(values, tile)(nest.store)
    for loop in reversed([*outer, *run, *inner]):
        result = loop.with_(body=result)
    return result


def _loop(var: Var, extent: int, kind: ForKind, notes: object) -> s.For:
    dtype = var.dtype
    nothing = s.sequence([])
    return s.For(var, const(0, dtype), const(extent, dtype), kind, nothing, None, notes)  # type: ignore[arg-type]


class _Reindex(Rewriter):
    """Rewrites the indices of an update for the new loops."""

    def __init__(self, values: dict[Var, list[tuple[Var, int]]], tile: list[Var]) -> None:
        self._values = values
        self._tile = tile
        self._memo: dict[PrimExpr, PrimExpr] = {}

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        return BufferLoad(node.buffer, (self._index(node.indices[0]),))

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        return s.BufferStore(node.buffer, self(node.value), (self._index(node.indices[0]),))

    def _index(self, index: PrimExpr) -> PrimExpr:
        if type(index) is Ramp:
            known = self._memo.get(index.base)
            base = self._scalar(index.base) if known is None else known
            return Ramp(base, index.stride, index.lanes)
        return self._scalar(index)

    def _scalar(self, index: PrimExpr) -> PrimExpr:
        known = self._memo.get(index)
        if known is None:
            terms = linear_terms(index).replaced(self._values, self._tile)
            known = self._memo[index] = terms.write(index)
        return known
