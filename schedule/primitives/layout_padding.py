"""Filling the places that a new layout of a buffer adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedule.analysis.bindings import loop_range
from schedule.analysis.layout_map import LayoutMap
from schedule.analysis.redirect import RedirectToPoint
from schedule.primitives.loop_problems import is_plain
from schedule.sref import StmtSRef, loops_above
from schedule.staging.nests import Sweep
from schedule.staging.old_values import loads, loads_only
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.arith import Analyzer
from tensorir.comparison.equal import expr_deep_equal
from tensorir.indices.index_map import IndexMap
from tensorir.memory.access import get_block_read_write_region
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import EQ, BufferLoad, IterVar, PrimExpr
from tensorir.nodes.ops import (
    compare,
    if_then_else,
    intrinsic,
    is_const_int,
    logical_not,
    logical_or,
)
from tensorir.nodes.stmt import (
    Block,
    BufferStore,
    Evaluate,
    ForKind,
    Stmt,
)
from tensorir.rewriting.visit import substitute, uses_var, walk


class LayoutPadding:
    """The padding that a new layout adds to a buffer, and the stores that fill it.

    One of three ways, as the program allows: where nothing writes the buffer, it is assumed to hold
    the value already; a block that fills the buffer in order goes over the new shape instead; else
    a block after the last writer fills the padding.
    """

    def __init__(
        self,
        state: ScheduleState,
        site: StmtSRef,
        old: Buffer,
        new: Buffer,
        layout: LayoutMap,
        value: IndexMap,
    ) -> None:
        self._state = state
        self._site = site
        self._old = old
        self._new = new
        self._layout = layout
        self._value = value
        self._analyzer = Analyzer()
        self.replaced: dict[Block, Block] = {}
        """The block that was made to go over the new shape."""

    def applied(self) -> Block:
        """Return the block in which the buffer lives, with the padding filled.

        Other accesses still go to the old buffer.
        """
        block = self._site.block
        place = StmtCursor.below(self._site)
        writing = [k for k, part in enumerate(place.parts) if self._writers(part)]
        if not writing:
            return block.with_(body=place.before.replace(self._assumption()))
        filled = self._filling_in_order(place.parts)
        if filled is not None:
            return block.with_(body=place.span(writing[0], writing[0] + 1).replace(filled))
        return block.with_(body=place.gap(writing[-1] + 1).replace(self._filling_afterwards()))

    def _writers(self, stmt: Stmt) -> list[Block]:
        return [
            node
            for node in walk(stmt)
            if isinstance(node, Block) and any(r.buffer is self._old for r in node.writes)
        ]

    def _is_padding(self, places: Sequence[PrimExpr]) -> PrimExpr:
        values = dict(zip(self._layout.inverse.initial_indices, places, strict=True))
        return self._analyzer.simplify(substitute(self._layout.padding, values))

    def _padded(self, places: Sequence[PrimExpr]) -> PrimExpr:
        return self._value.map_indices(places, self._analyzer)[0]

    # ------------------------------------------------------------------------------ the three ways

    def _assumption(self) -> Stmt:
        def body(places: Sequence[PrimExpr]) -> Stmt:
            holds = compare(EQ, BufferLoad(self._new, places), self._padded(places))
            condition = logical_or(logical_not(self._is_padding(places)), holds)
            return Evaluate(intrinsic("assume", condition))

        return self._nest(f"buffer_{self._old.name}_assumptions", body)

    def _filling_afterwards(self) -> Stmt:
        def body(places: Sequence[PrimExpr]) -> Stmt:
            return BufferStore(self._new, self._padded(places), places)

        return self._nest(f"buffer_{self._old.name}_padding", body, only_padding=True)

    def _filling_in_order(self, parts: Sequence[Stmt]) -> Stmt | None:
        """Return a writer's nest that goes over the new shape; None if it is not of that kind.

        In the steps of a reduction, the padding is stored again.
        """
        writer = self._writer_in_order(parts)
        if writer is None:
            return None
        block = writer.block
        axes = [axis.var for axis in block.iter_vars][: len(self._old.shape)]
        store, init = block.body, block.init
        assert isinstance(store, BufferStore)

        def filling(places: Sequence[PrimExpr], store: BufferStore) -> Stmt:
            back = self._layout.inverse.map_indices(places, self._analyzer)
            own = RedirectToPoint({self._old: self._new}, None, places)(store.value)
            stored = substitute(own, dict(zip(axes, back, strict=True)))
            padded = self._padded(places)
            if expr_deep_equal(padded, stored):
                return BufferStore(self._new, padded, places)
            chosen = if_then_else(self._is_padding(places), padded, stored)
            return BufferStore(self._new, chosen, places)

        def body(places: Sequence[PrimExpr]) -> Stmt:
            return filling(places, store)

        def start(places: Sequence[PrimExpr]) -> Stmt | None:
            return filling(places, init) if isinstance(init, BufferStore) else None

        return self._nest(block.name_hint, body, start, origin=writer)

    def _writer_in_order(self, parts: Sequence[Stmt]) -> StmtSRef | None:
        """Return the only writer, if it stores element by element in the order of the buffer.

        It may reduce over axes of loops further in.
        """
        old = self._old
        if sum(len(self._writers(part)) for part in parts) != 1:
            return None
        children = self._state.child_blocks(self._site)
        sref = next((c for c in children if any(r.buffer is old for r in c.block.writes)), None)
        if sref is None or not isinstance(sref.block.body, BufferStore):
            return None
        block, realize, store = sref.block, sref.block_realize, sref.block.body
        loops = [loop.loop for loop in loops_above(sref)]
        bodies: list[Stmt] = [*loops, realize]
        nested = bodies[0] in parts and all(
            loop.body is inner for loop, inner in zip(loops, bodies[1:], strict=True)
        )
        serial = all(
            lp.kind is ForKind.SERIAL and is_plain(lp) and is_const_int(lp.min, 0) for lp in loops
        )
        ndim = len(old.shape)
        spatial, reducing = block.iter_vars[:ndim], block.iter_vars[ndim:]
        in_order = (
            len(loops) >= len(spatial) == len(store.indices) == ndim
            and all(
                v is lp.loop_var for v, lp in zip(realize.iter_values[:ndim], loops, strict=False)
            )
            and all(i is a.var for i, a in zip(store.indices, spatial, strict=True))
            and all(
                self._analyzer.can_prove_equal(lp.extent, n)
                for lp, n in zip(loops, old.shape, strict=False)
            )
        )
        outer = {loop.loop_var for loop in loops[:ndim]}
        inner = [*realize.iter_values[ndim:], *(loop.extent for loop in loops[ndim:])]
        apart = not any(uses_var(value, outer.__contains__) for value in inner)
        runs = all(self._analyzer.can_prove(loop.extent >= 1) for loop in loops[ndim:])
        init = block.init
        starts = init is None or (
            isinstance(init, BufferStore)
            and init.buffer is old
            and all(a is b for a, b in zip(init.indices, store.indices, strict=True))
        )
        own = reducing and init is not None and loads_only(store, old, store.indices)
        simple = (
            is_const_int(realize.predicate, 1)
            and bool(reducing) == (init is not None)
            and all(axis.iter_type == IterVar.DATA_PAR for axis in spatial)
            and all(axis.iter_type == IterVar.COMM_REDUCE for axis in reducing)
            and (own or not loads(store.value, old))
            and not any(loads(final, old) for final in self._value.final_indices)
        )
        return (
            sref
            if nested and serial and in_order and apart and runs and starts and simple
            else None
        )

    # ------------------------------------------------------------------------------------ building

    def _nest(
        self,
        name: str,
        body: Callable[[Sequence[PrimExpr]], Stmt],
        init: Callable[[Sequence[PrimExpr]], Stmt | None] = lambda _: None,
        *,
        only_padding: bool = False,
        origin: StmtSRef | None = None,
    ) -> Stmt:
        """Return loops over the new shape around a block with the given body.

        `origin` is the block that this one takes the place of, whose further loops and axes it has.
        """
        sweep = Sweep.over([Range(n) for n in self._new.shape], loop="axis", axis="v_axis")
        places = sweep.places
        with self._analyzer.scope():
            for (loop_var, values), axis in zip(sweep.loops, sweep.axes, strict=True):
                self._analyzer.bind(loop_var, values)
                self._analyzer.bind(axis.var, values)
            stmt, start = body(places), init(places)
            if only_padding:
                sweep = sweep.where(self._is_padding([var for var, _ in sweep.loops]))
            if origin is None:
                plain = sweep.running(stmt, (), (), name).block
                reads, writes = get_block_read_write_region(plain, {self._new.data: self._new})
                return sweep.running(stmt, reads, writes, name).nest
            old, ndim = origin.block, len(self._old.shape)
            back = self._layout.inverse.map_indices(places, self._analyzer)
            there = dict(zip((a.var for a in old.iter_vars), back, strict=False))
            reads = [substitute(region, there) for region in old.reads]
        inner = [(lp.loop.loop_var, loop_range(lp.loop)) for lp in loops_above(origin)[ndim:]]
        sweep = Sweep(
            [*sweep.loops, *inner],
            [*sweep.axes, *old.iter_vars[ndim:]],
            [*sweep.bindings, *origin.block_realize.iter_values[ndim:]],
        )
        writes = [BufferRegion.from_point(self._new, places)]
        made = sweep.running(stmt, reads, writes, name, old.annotations, start)
        self.replaced[old] = made.block
        return made.nest
