"""Filling the padding that a new layout adds to a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bindings import loop_range
from schedule.analysis.layout_map import LayoutMap
from schedule.analysis.loops import is_plain
from schedule.analysis.rebuild import RedirectToPoint
from schedule.sref import StmtSRef, lone_loops, loops_above
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

    There are three ways. If nothing writes the buffer, the padding is assumed to hold the value
    already. If a block fills the buffer in order, it is changed to run over the new shape.
    Otherwise a new block after the last writer fills the padding.
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
        """The block that was changed to run over the new shape."""

    def apply(self) -> Block:
        """Return the block that defines the buffer, with statements that fill the padding.

        Other accesses still go to the old buffer.
        """
        block = self._site.block
        place = StmtCursor.below(self._site)
        writing = [
            k
            for k, part in enumerate(place.parts)
            for node in walk(part)
            if isinstance(node, Block) and any(r.buffer is self._old for r in node.writes)
        ]
        if not writing:
            return block.with_(body=place.before.replace(self._assumption()))
        writer = self._writer_in_order(place.parts) if len(writing) == 1 else None
        if writer is not None:
            only = place.span(writing[0], writing[0] + 1)
            return block.with_(body=only.replace(self._refill(writer)))
        return block.with_(body=place.gap(writing[-1] + 1).replace(self._filling_afterwards()))

    def _is_padding(self, places: Sequence[PrimExpr]) -> PrimExpr:
        values = dict(zip(self._layout.inverse.initial_indices, places, strict=True))
        return self._analyzer.simplify(substitute(self._layout.padding, values))

    def _pad_value(self, places: Sequence[PrimExpr]) -> PrimExpr:
        return self._value.map_indices(places, self._analyzer)[0]

    # ------------------------------------------------------------------------------ the three ways

    def _sweep(self) -> Sweep:
        """Return loops over the new shape, and bind their variables in the analyzer."""
        sweep = Sweep.over([Range(n) for n in self._new.shape], loop="axis", axis="v_axis")
        for (var, values), place in zip(sweep.loops, sweep.places, strict=True):
            self._analyzer.bind(var, values)
            self._analyzer.bind(place, values)
        return sweep

    def _assumption(self) -> Stmt:
        sweep = self._sweep()
        places = sweep.places
        holds = compare(EQ, BufferLoad(self._new, places), self._pad_value(places))
        condition = logical_or(logical_not(self._is_padding(places)), holds)
        body = Evaluate(intrinsic("assume", condition))
        return self._nest(sweep, f"buffer_{self._old.name}_assumptions", body)

    def _filling_afterwards(self) -> Stmt:
        sweep = self._sweep()
        body = BufferStore(self._new, self._pad_value(sweep.places), sweep.places)
        sweep = sweep.where(self._is_padding([var for var, _ in sweep.loops]))
        return self._nest(sweep, f"buffer_{self._old.name}_padding", body)

    def _nest(self, sweep: Sweep, name: str, body: Stmt) -> Stmt:
        """Return a loop nest around a block with this body, which declares its accesses."""
        plain = sweep.around_block(body, (), (), name).block
        reads, writes = get_block_read_write_region(plain, {self._new.data: self._new})
        return sweep.around_block(body, reads, writes, name).nest

    def _refill(self, writer: StmtSRef) -> Stmt:
        """Return the nest of a writer, changed to run over the new shape in order.

        In the steps of a reduction, the padding is stored again.
        """
        sweep, block, ndim = self._sweep(), writer.block, len(self._old.shape)
        loops = loops_above(writer)
        if not block.iter_vars:
            # A block without axes uses the loops directly.
            sweep = Sweep(sweep.loops, (), ())
        places = sweep.places or [var for var, _ in sweep.loops]
        axes = [axis.var for axis in block.iter_vars] or [loop.loop.loop_var for loop in loops]
        back = self._layout.inverse.map_indices(places, self._analyzer)
        there = dict(zip(axes, back, strict=False))
        padded, is_padding = self._pad_value(places), self._is_padding(places)

        def filling(stmt: Stmt) -> BufferStore:
            assert isinstance(stmt, BufferStore)
            redirect = RedirectToPoint({self._old: self._new}, None, places)
            stored = substitute(redirect(stmt.value), there)
            same = expr_deep_equal(padded, stored)
            value = padded if same else if_then_else(is_padding, padded, stored)
            return BufferStore(self._new, value, places)

        inner = loops[ndim:]
        sweep = Sweep(
            [*sweep.loops, *((sref.loop.loop_var, loop_range(sref.loop)) for sref in inner)],
            [*sweep.axes, *block.iter_vars[ndim:]],
            [*sweep.bindings, *writer.block_realize.iter_values[ndim:]],
        )
        made = sweep.around_block(
            filling(block.body),
            [substitute(region, there) for region in block.reads],
            [BufferRegion.from_point(self._new, places)],
            block.name_hint,
            block.annotations,
            None if block.init is None else filling(block.init),
        )
        self.replaced[block] = made.block
        return made.nest

    def _writer_in_order(self, parts: Sequence[Stmt]) -> StmtSRef | None:
        """Return the writer if it stores element by element in the order of the buffer.

        It may reduce over axes of inner loops.
        """
        old, ndim, proves = self._old, len(self._old.shape), self._analyzer.can_prove
        children = self._state.child_blocks(self._site)
        sref = next((c for c in children if any(r.buffer is old for r in c.block.writes)), None)
        if sref is None or not isinstance(sref.block.body, BufferStore):
            return None
        block, realize, store, init = (
            sref.block,
            sref.block_realize,
            sref.block.body,
            sref.block.init,
        )
        loops = [loop.loop for loop in loops_above(sref)]
        outer, inner = loops[:ndim], loops[ndim:]
        top: Stmt = loops[0] if loops else realize
        spatial, reducing = block.iter_vars[:ndim], block.iter_vars[ndim:]
        moving = [*realize.iter_values[ndim:], *(loop.extent for loop in inner)]
        if not (len(outer) == len(store.indices) == ndim) or top not in parts:
            return None
        if block.iter_vars:
            counted = [axis.var for axis in spatial]
            values = realize.iter_values[:ndim]
            parallel = all(axis.iter_type == IterVar.DATA_PAR for axis in spatial)
        else:
            counted = [loop.loop_var for loop in outer]
            values = tuple(counted)
            parallel = not inner
        if not parallel or len(counted) != ndim:
            return None
        first = [lp.loop_var for lp in outer]
        dims = zip(outer, values, counted, store.indices, old.shape, strict=True)
        in_order = all(
            value is lp.loop_var and index is var and self._analyzer.can_prove_equal(lp.extent, n)
            for lp, value, var, index, n in dims
        ) and all(
            lp.kind is ForKind.SERIAL and is_plain(lp) and is_const_int(lp.min, 0) for lp in loops
        )
        reduces = (
            all(axis.iter_type == IterVar.COMM_REDUCE for axis in reducing)
            and not any(uses_var(value, first.__contains__) for value in moving)
            and all(proves(loop.extent >= 1) for loop in inner)
        )
        if not reducing:
            starts = init is None and not loads(store.value, old)
        else:
            starts = (
                isinstance(init, BufferStore)
                and init.buffer is old
                and all(a is b for a, b in zip(init.indices, store.indices, strict=True))
                and loads_only(store, old, store.indices)
            )
        simple = is_const_int(realize.predicate, 1) and not any(
            loads(final, old) for final in self._value.final_indices
        )
        is_alone = len(lone_loops(sref)) == len(loops)
        return sref if is_alone and in_order and reduces and starts and simple else None
