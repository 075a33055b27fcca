"""Staging what a block reads or writes in a buffer of its own."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bindings import loop_domain
from schedule.analysis.block_kind import require_scope
from schedule.analysis.dependency import BlockScope, DepKind, dependencies
from schedule.analysis.loop_nest import nest_of_loops
from schedule.analysis.rebuild import RedirectBuffers
from schedule.analysis.region_cover import clip, covers_reads, written_below
from schedule.analysis.regions import bound_region, path_domain, relax
from schedule.analysis.staging_safety import UNSAFE, check_starts_anew
from schedule.analysis.sure_writes import holds, surely_written
from schedule.errors import Problem, check
from schedule.instruction import BlockArg, ConsumersArg, NewBlock, ReadIndex, WriteIndex, primitive
from schedule.sref import (
    StmtSRef,
    is_ancestor,
    lies_in,
    loops_above,
    loops_seen_through,
    lowest_common_ancestor,
)
from schedule.state import ScheduleState
from tensorir.arith import Analyzer, IntervalSet
from tensorir.buffer import Buffer, BufferRegion, Range
from tensorir.expr import (
    BufferLoad,
    IterVar,
    PointerType,
    PrimExpr,
    PrimType,
    Var,
)
from tensorir.ops import TRUE, add, const, is_const_int, logical_and, sub
from tensorir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    SeqStmt,
    Stmt,
    sequence,
)
from tensorir.visit import uses_var

INVALID_SCOPE = Problem(
    "InvalidStorageScopeError",
    "{storage_scope!r} is no storage scope",
    "the scopes are global, shared, local, warp and their tagged forms such as shared.dyn",
)
INDEX_OUT_OF_RANGE = Problem(
    "BufferIndexOutOfRangeError",
    "the argument `buffer_index` is {index}, but {0} has {count} {side} region(s)",
    "count from 0",
)
NOT_COVERED = Problem(
    "NotRegionCoverError",
    "the scope {0} has {1}, whose region cover does not hold: it reads more of {buffer} than is "
    "written before",
)
SEVERAL_WRITERS = Problem(
    "NotSingleWriteBlock",
    "the buffer {buffer} is expected to be written by a single block in the scope, but {count} "
    "write it",
)

NO_CONSUMER = Problem(
    "NotConsumerError",
    "none of the consumer_blocks reads {buffer}, so nothing would read the cache of {0}",
    "leave consumer_blocks out, or give blocks that get_consumers returns",
)

STORAGE_SCOPES = (
    "global",
    "shared",
    "warp",
    "local",
    "wmma.",
    "texture",
    "amx.tmm",
    "m16n8k8.",
    "metal.",
)


@primitive("CacheRead")
def cache_read(
    state: ScheduleState,
    block: BlockArg,
    read_buffer_index: ReadIndex,
    storage_scope: str,
    consumer_blocks: ConsumersArg = None,
) -> NewBlock:
    """Copy a buffer that a block reads to a new one, and let readers use the copy.

    The copy has storage scope `storage_scope` and the name `<buffer>_<scope>`; the block that fills
    it stands right after the buffer's writer, or at the start of the scope. `consumer_blocks`
    restricts which readers use it.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError,
    NotRegionCoverError, NotSingleWriteBlock, NotConsumerError.
    """
    # Preconditions.
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    scope = require_scope(state, block)
    graph = dependencies(state, scope)
    for child in graph.children:
        if any(r.buffer is buffer for r in child.block.reads):
            covered = covers_reads(state, child, graph)
            check(covered, NOT_COVERED, scope, child, buffer=buffer.name)
    writers = graph.buffer_writers.get(buffer, [])
    check(len(writers) <= 1, SEVERAL_WRITERS, scope, buffer=buffer.name, count=len(writers))

    readers = [
        c
        for c in graph.children
        if c not in writers and any(r.buffer is buffer for r in c.block.reads)
    ]
    wanted = list(consumer_blocks or ())
    chosen = [r for r in readers if not wanted or r in wanted]
    check(bool(chosen), NO_CONSUMER, block, buffer=buffer.name)

    # Rewrite.
    stage = _Stage(state, scope, buffer, storage_scope)
    if writers:
        consumers = raw_consumers(graph, writers[0], buffer)
        stage.locate(writers[0], [c for c in consumers if not wanted or c in wanted])
        stage.use_region_of(writers[0])
    else:
        stage.locate_at_start(block)
    stage.choose_shape(readers)
    return stage.insert(source=buffer, target=stage.cache, redirected=chosen)


@primitive("CacheWrite")
def cache_write(
    state: ScheduleState,
    block: BlockArg,
    write_buffer_index: WriteIndex,
    storage_scope: str,
    consumer_blocks: ConsumersArg = None,
) -> NewBlock:
    """Let a block write to a new buffer, and copy that to the original one afterwards.

    The new buffer has storage scope `storage_scope` and the name `<buffer>_<scope>`; the block that
    copies back stands before the first reader, or at the end of the scope. `consumer_blocks` read
    the new buffer.

    A block that relies on what the buffer held before, or may leave out some of what would be
    copied back, is refused, unlike in TVM, unless the schedule was made with `enable_check=False`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError,
    NotSingleWriteBlock, UnsafeStageError.
    """
    # Preconditions.
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    scope = require_scope(state, block)
    graph = dependencies(state, scope)
    writers = graph.buffer_writers.get(buffer, [])
    check(writers == [block], SEVERAL_WRITERS, scope, buffer=buffer.name, count=len(writers))
    check_starts_anew(state, block, buffer)
    wanted = list(consumer_blocks or ())
    stage = _Stage(state, scope, buffer, storage_scope)
    rest = [c for c in raw_consumers(graph, block, buffer) if c not in wanted]
    stage.locate(block, rest)
    stage.use_region_of(block)
    stage.check_filled_by(block)

    # Rewrite.
    stage.choose_shape([block, *wanted])
    return stage.insert(source=stage.cache, target=buffer, redirected=[block, *wanted])


def checked_buffer(block: StmtSRef, index: int, storage_scope: str, side: str) -> Buffer:
    """Return the buffer of a block's region; raise for a scope or an index that does not exist."""
    valid = storage_scope == "" or storage_scope.startswith(STORAGE_SCOPES)
    check(valid, INVALID_SCOPE, block, storage_scope=storage_scope)
    regions = block.block.reads if side == "read" else block.block.writes
    inside = 0 <= index < len(regions)
    check(inside, INDEX_OUT_OF_RANGE, block, index=index, count=len(regions), side=side)
    return regions[index].buffer


def raw_consumers(graph: BlockScope, writer: StmtSRef, buffer: Buffer) -> list[StmtSRef]:
    """Return the blocks that read from `buffer` what `writer` wrote, in program order."""
    edges = graph.out_of(writer)
    return [d.dst for d in edges if d.kind is DepKind.RAW and d.buffer is buffer]


class _Stage:
    """A cache buffer with the block that fills it or writes it back, and where that goes."""

    def __init__(
        self, state: ScheduleState, scope: StmtSRef, buffer: Buffer, storage_scope: str
    ) -> None:
        self._state = state
        self._scope = scope
        self._buffer = buffer
        self._analyzer = Analyzer()
        self._location = scope
        self._before: StmtSRef | None = None
        self._at_start = False
        self._region: tuple[Range, ...] = tuple(Range(n) for n in buffer.shape)
        self._compact = False
        self.cache = cache_buffer(buffer, storage_scope)

    def locate(self, writer: StmtSRef, consumers: list[StmtSRef]) -> None:
        """Place the copy before the first consumer, at the end of the scope if there is none."""
        if not consumers:
            return
        self._location = lowest_common_ancestor([writer, consumers[0]])
        self._before = consumers[0]

    def locate_at_start(self, block: StmtSRef) -> None:
        """Place the copy at the start of the scope; it covers what the scope may read."""
        self._at_start = True
        for region in self._scope.block.reads:
            if region.buffer is self._buffer:
                self._region = region.region

    def use_region_of(self, writer: StmtSRef) -> None:
        """Cover what the writer fills below the location."""
        realize = writer.block_realize
        domain = path_domain(writer, self._location, self._buffer.scope())
        for region in writer.block.writes:
            if region.buffer is self._buffer:
                written = surely_written(writer.block, region) or region.region
                box = relax(
                    bound_region(BufferRegion(self._buffer, written), realize),
                    domain,
                    realize.predicate,
                    self._analyzer,
                    upper=True,
                )
                assert box is not None
                self._region = tuple(
                    s.cover_range(Range(n), self._analyzer)
                    for s, n in zip(box, self._buffer.shape, strict=True)
                )

    def check_filled_by(self, writer: StmtSRef) -> None:
        """Raise unless the writer fills all of the region, which will be copied back."""
        if not self._state.enable_check:
            return
        self._bind_what_is_outside()
        written = written_below(self._location, self._buffer, [writer], self._analyzer)
        box = clip(
            tuple(IntervalSet.from_range(dim) for dim in self._region), self._buffer, self._analyzer
        )
        check(
            holds(written, box, self._analyzer),
            UNSAFE,
            writer,
            buffer=self._buffer.name,
            reason="it may leave out elements, which would be written back all the same",
        )

    def choose_shape(self, users: Sequence[StmtSRef]) -> None:
        """Shrink the cache to the region where everything that uses it is below the location."""
        if self._location is not self._scope or self._region_follows_outer_loops():
            return
        if all(is_ancestor(self._location, user) for user in users):
            self._compact = True
            self.cache = self.cache.with_(shape=tuple(r.extent for r in self._region))

    def _region_follows_outer_loops(self) -> bool:
        """Say whether loops beyond the scope move the region; no block may use their variables."""
        outer = {sref.loop.loop_var for sref in loops_seen_through(self._scope)}
        return bool(outer) and any(uses_var(dim.min, outer.__contains__) for dim in self._region)

    def insert(self, source: Buffer, target: Buffer, redirected: Sequence[StmtSRef]) -> StmtSRef:
        """Redirect accesses to the cache, put the copy in place and return its block."""
        copy, block = self._copy_nest(source, target)
        blocks = {sref.block for sref in redirected}
        redirect = RedirectBuffers({self._buffer: self.cache}, blocks)
        offsets = [r.min for r in self._region] if self._compact else []
        if any(not is_const_int(o, 0) for o in offsets):
            redirect = _RedirectWithOffset(self._buffer, self.cache, blocks, offsets)
        insertion = Insertion(self._location, self._before, self._at_start, copy)
        old = self._scope.block
        body = redirect(insertion.into_scope(self._scope))
        new = old.with_(body=body, alloc_buffers=(*old.alloc_buffers, self.cache))
        self._state.replace(self._scope, new, {**redirect.reuse, old: new})
        return self._state.get_sref(block)

    def _bind_what_is_outside(self) -> None:
        """Tell the analyzer the ranges of all that the region may depend on."""
        place = self._location
        around = loops_above(place) if place.is_block else [*loops_above(place), place]
        for var, values in loop_domain([*loops_seen_through(self._scope), *around]).items():
            self._analyzer.bind(var, values, allow_override=True)
        for axis in self._scope.block.iter_vars:
            if axis.dom is not None:
                self._analyzer.bind(axis.var, axis.dom, allow_override=True)

    def _copy_nest(self, source: Buffer, target: Buffer) -> tuple[Stmt, Block]:
        self._bind_what_is_outside()
        prove = self._analyzer.can_prove
        guarded = [
            (not prove(dim.min >= 0), not prove(dim.min + dim.extent <= extent))
            for dim, extent in zip(self._region, self._buffer.shape, strict=True)
        ]
        return copy_nest(
            source, target, self._buffer, self._region, compact=self._compact, guarded=guarded
        )


def cache_buffer(buffer: Buffer, storage_scope: str) -> Buffer:
    """Return a compact buffer `<buffer>_<scope>` of the same shape in another storage scope."""
    name = f"{buffer.name}_{storage_scope or 'global'}"
    pointer = PointerType(_element_type(buffer), storage_scope)
    return buffer.with_(
        name=name,
        data=Var(name, pointer),
        strides=(),
        elem_offset=const(0, buffer.elem_offset.dtype),
        buffer_type="",
    )


def copy_nest(
    source: Buffer,
    target: Buffer,
    original: Buffer,
    region: Sequence[Range],
    *,
    compact: bool = False,
    guarded: Sequence[tuple[bool, bool]] = (),
) -> tuple[Stmt, Block]:
    """Return loops that copy a region of `original` to or from its cache, and the block in them.

    A compact cache has the extents of the region, another one the shape of `original`. Only
    what lies in the shape is copied: `guarded` says for each dimension whether its low and its high
    end need a test for that.
    """
    cache = target if source is original else source
    axes: list[IterVar] = []
    bindings: list[PrimExpr] = []
    loops: list[tuple[Var, PrimExpr]] = []
    inner: list[PrimExpr] = []
    outer: list[PrimExpr] = []
    for k, (dim, extent) in enumerate(zip(region, original.shape, strict=True)):
        loop_var = Var(f"ax{k}", extent.dtype)
        loops.append((loop_var, dim.extent))
        dom = Range(dim.extent) if compact else Range(extent)
        axis = IterVar(dom, Var(f"v{k}", extent.dtype), IterVar.DATA_PAR)
        axes.append(axis)
        bindings.append(loop_var if compact else add(dim.min, loop_var))
        inner.append(axis.var)
        outer.append(add(dim.min, axis.var) if compact else axis.var)
    reading, writing = (outer, inner) if source is original else (inner, outer)
    block = Block(
        axes,
        [BufferRegion.from_point(source, reading)],
        [BufferRegion.from_point(target, writing)],
        cache.name,
        BufferStore(target, BufferLoad(source, reading), writing),
    )
    predicate: PrimExpr = TRUE
    tests = guarded or [(False, False)] * len(loops)
    for dim, (loop_var, _), extent, (low, high) in zip(
        region, loops, original.shape, tests, strict=True
    ):
        index = add(dim.min, loop_var)
        if low:
            predicate = logical_and(predicate, index >= 0)
        if high:
            predicate = logical_and(predicate, index < extent)
    return nest_of_loops(loops, BlockRealize(bindings, predicate, block)), block


def _element_type(buffer: Buffer) -> PrimType:
    kind = buffer.data.type_annotation
    assert isinstance(kind, PointerType)
    assert isinstance(kind.element_type, PrimType)
    return kind.element_type


class _RedirectWithOffset(RedirectBuffers):
    """Redirects accesses to a cache that holds a part of the buffer only."""

    def __init__(
        self, buffer: Buffer, cache: Buffer, blocks: set[Block], offsets: list[PrimExpr]
    ) -> None:
        super().__init__({buffer: cache}, blocks)
        self._old = buffer
        self._offsets = offsets
        self._analyzer = Analyzer()

    def _shift(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        return tuple(
            self._analyzer.simplify(sub(i, o)) for i, o in zip(indices, self._offsets, strict=True)
        )

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        new = self.generic(node)
        if new.buffer is node.buffer or node.buffer is not self._old:
            return new
        return BufferLoad(new.buffer, self._shift(new.indices), new.predicate)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:  # noqa: N802
        new = self.generic(node)
        if new.buffer is node.buffer or node.buffer is not self._old:
            return new
        return BufferStore(new.buffer, new.value, self._shift(new.indices), new.predicate)

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:  # noqa: N802
        new = self.generic(node)
        if new.buffer is node.buffer or node.buffer is not self._old:
            return new
        low = self._shift([r.min for r in new.region])
        ranges = [Range.from_min_extent(m, r.extent) for m, r in zip(low, new.region, strict=True)]
        return BufferRegion(new.buffer, ranges)


class Insertion:
    """A statement to be put into the body of a loop or of the scope block."""

    def __init__(
        self, location: StmtSRef, before: StmtSRef | None, at_start: bool, stmt: Stmt
    ) -> None:
        self._location = location
        self._before = before
        self._at_start = at_start
        self._stmt = stmt

    def into_scope(self, scope: StmtSRef) -> Stmt:
        """Return the body of the scope block with the statement in its place."""
        body = scope.block.body
        if self._location is scope:
            return self._into(body)
        target = self._location.loop
        old: Stmt = target
        new: Stmt = target.with_(body=self._into(target.body))
        outer = self._location.parent
        while outer is not None and outer is not scope:
            rebuilt = outer.loop.with_(body=_swap(outer.loop.body, old, new))
            old, new = outer.loop, rebuilt
            outer = outer.parent
        return _swap(body, old, new)

    def _into(self, body: Stmt) -> Stmt:
        if self._at_start:
            return sequence([self._stmt, body])
        if self._before is None:
            return sequence([body, self._stmt])
        assert isinstance(body, SeqStmt)
        position = next(k for k, s in enumerate(body.seq) if lies_in(s, self._before))
        return sequence([*body.seq[:position], self._stmt, *body.seq[position:]])


def _swap(body: Stmt, old: Stmt, new: Stmt) -> Stmt:
    if body is old:
        return new
    assert isinstance(body, SeqStmt)
    return sequence([new if s is old else s for s in body.seq])
