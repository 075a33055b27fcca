"""A loop nest that runs longer for one of its blocks, and not for the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from schedule.analysis.accesses import accessing
from schedule.analysis.opaque_access import is_opaque
from schedule.analysis.redirect import RedirectBuffers
from schedule.errors import Problem, check
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.nodes.ops import all_of
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, LetStmt, SeqStmt, Stmt
from tensorir.rewriting.visit import walk

SHARED = Problem(
    "NotOnlyChildError",
    "{0} shares its loop nest with {1}, {reason}",
    "pad before other blocks are computed in the nest",
)
NOT_PLAIN = Problem(
    "NonEinsumError",
    "{0} is no Einstein summation that can be padded: there is a condition or a binding in its "
    "loop nest",
)


class PaddedNest:
    """The loops around a block in its scope, some of which run longer from now on."""

    def __init__(
        self,
        state: ScheduleState,
        scope: StmtSRef,
        block: StmtSRef,
        loops: Mapping[Var, PrimExpr],
    ) -> None:
        """Raise ScheduleError if more than loops and blocks would run in the added iterations.

        `loops` gives the new extents.
        """
        self._scope = scope
        self._block = block
        self.loops = loops
        above = loops_above(block)
        others = [] if not above else state.child_blocks(above[0])
        self._others = [other for other in others if other is not block]
        self._outside = [
            other
            for other in state.child_blocks(scope)
            if other is not block and other not in self._others
        ]
        inner: Stmt = block.block_realize
        for loop in reversed(above):
            body = loop.loop.body
            beside = body.seq if isinstance(body, SeqStmt) else (body,)
            check(inner in beside, NOT_PLAIN, block)
            inner = loop.loop
        self._guards: dict[Block, PrimExpr] = {}
        for other in self._others:
            inside = self._limits(other)
            if inside is not None:
                self._guards[other.block] = inside

    def guard(self, block: Block) -> PrimExpr | None:
        """Return the condition under which another block still runs, None if it always does."""
        return self._guards.get(block)

    @property
    def place(self) -> StmtCursor:
        """The place of the nest in the scope."""
        return StmtCursor.below(self._scope).around(self._block)

    @cached_property
    def other_blocks(self) -> set[Block]:
        """The other blocks in the nest."""
        return {other.block for other in self._others}

    def exchanged(self, buffer: Buffer, stored: bool) -> bool:
        """Say whether the block and others in the nest pass values to each other in a buffer.

        `stored` says whether the block stores to it. Raises ScheduleError if others touch it in a
        way that no other buffer could take.
        """
        touching = [other for other in self._others if _touches(other, buffer)]
        if not stored and not any(_touches(other, buffer, write=True) for other in touching):
            return False
        for other in touching:
            opaque = any(is_opaque(node, buffer) for node in accessing(other.block))
            reason = f"which does not touch {buffer.name} element by element"
            check(not opaque, SHARED, self._block, other, reason=reason)
        return bool(touching)

    def check_whole(self, buffer: Buffer, whole: bool) -> None:
        """Raise unless what is padded is the whole of a buffer that others in the nest use."""
        other = next(other for other in self._others if _touches(other, buffer))
        reason = f"which also uses {buffer.name}, of which the axes index a part only"
        check(whole, SHARED, self._block, other, reason=reason)

    def is_filled_here(self, buffer: Buffer) -> bool:
        """Say whether nothing outside of the nest stores to a buffer."""
        outside = any(_touches(other, buffer, write=True) for other in self._outside)
        return buffer in self._scope.block.alloc_buffers and not outside

    def is_used_elsewhere(self, buffer: Buffer) -> bool:
        """Say whether a buffer may be touched outside of the nest."""
        own = buffer in self._scope.block.alloc_buffers
        return not own or any(_touches(other, buffer) for other in self._outside)

    def is_stored_by_others(self, buffer: Buffer) -> bool:
        """Say whether another block in the nest stores to a buffer."""
        return any(_touches(other, buffer, write=True) for other in self._others)

    def _limits(self, other: StmtSRef) -> PrimExpr | None:
        """Return the condition that keeps another block out of the iterations that are added."""
        above = loops_above(other)
        longer = [loop for loop in above if loop.loop.loop_var in self.loops]
        if not longer:
            return None
        reason = "which is below a condition or a binding"
        parent: StmtSRef | None = other
        while parent is not None and parent is not longer[0]:
            stmt = parent.realize or parent.stmt
            parent = parent.parent
            assert parent is not None
            assert parent.stmt is not None
            body = parent.stmt.body
            beside = body.seq if isinstance(body, SeqStmt) else (body,)
            check(stmt in beside, SHARED, self._block, other, reason=reason)
        reason = "which reads memory to find out where it runs"
        inner = above[above.index(longer[0]) + 1 :]
        places = [*other.block_realize.iter_values]
        places += [bound for loop in inner for bound in (loop.loop.min, loop.loop.extent)]
        for value in places:
            loads = any(isinstance(node, BufferLoad) for node in walk(value))
            check(not loads, SHARED, self._block, other, reason=reason)
        return all_of([loop.loop.loop_var < loop.loop.extent for loop in longer])


def _touches(block: StmtSRef, buffer: Buffer, *, write: bool = False) -> bool:
    regions = block.block.writes if write else (*block.block.reads, *block.block.writes)
    return any(region.buffer.data is buffer.data for region in regions)


class Enlarge(RedirectBuffers):
    """Lets a block use padded buffers, and run over more steps.

    `shared` are those of the padded buffers that the other blocks in its nest use as well.
    """

    def __init__(
        self,
        block: Block,
        update: Stmt,
        nest: PaddedNest,
        axes: Mapping[Var, PrimExpr],
        buffers: Mapping[Buffer, Buffer],
        shared: Collection[Buffer],
    ) -> None:
        super().__init__(buffers, {block})
        self._block = block
        self._update = update
        self._nest = nest
        self._axes = axes
        exchanged = {old: buffers[old] for old in shared}
        self._others = RedirectBuffers(exchanged, nest.other_blocks) if shared else None

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        """Rewrite a block; others than the one to be padded do not run for longer."""
        if node.block not in self._nest.other_blocks:
            return self.generic(node)
        new = node if self._others is None else self._others(node)
        if self._others is not None:
            self.reuse.update(self._others.reuse)
        inside = self._nest.guard(node.block)
        if inside is None:
            return new
        return BlockRealize(new.iter_values, all_of([inside, new.predicate]), new.block)

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        """Rewrite a loop; those that drive the axes become longer."""
        new = self.generic(node)
        extent = self._nest.loops.get(node.loop_var)
        return new if extent is None else new.with_(extent=extent)

    def rewrite_IterVar(self, node: IterVar) -> IterVar:  # noqa: N802
        """Rewrite an axis; those that are padded become longer."""
        extent = self._axes.get(node.var)
        if extent is None:
            return super().rewrite_IterVar(node)
        return IterVar(Range(extent), node.var, node.iter_type, node.thread_tag)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:  # noqa: N802
        """Rewrite a store; the update is one that added steps leave alone."""
        return self.generic(self._update if node is self._block.body else node)

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:  # noqa: N802
        """Rewrite a let; the update of a tuple is one that added steps leave alone."""
        return self.generic(self._update if node is self._block.body else node)
