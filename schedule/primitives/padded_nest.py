"""A loop nest whose extents are enlarged for one of its blocks, and not for the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from schedule.analysis.accesses import accessing, is_opaque
from schedule.analysis.rebuild import RedirectBuffers
from schedule.errors import Problem, check
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from schedule.stmt_cursor import wrappers
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.nodes.ops import all_of
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, LetStmt, Stmt
from tensorir.rewriting.visit import walk

SHARED = Problem(
    "NotOnlyChildError",
    "{0} shares its loop nest with {1}, {reason}",
    "pad before other blocks are moved into the nest",
)
NOT_PLAIN = Problem(
    "NonEinsumError",
    "{0} is not an Einstein summation that can be padded: there is a condition or a binding in its "
    "loop nest",
    "write the condition as T.where of the block and the binding into its value",
)


class PaddedNest:
    """The loops around a block in its scope, some of them enlarged."""

    def __init__(
        self,
        state: ScheduleState,
        scope: StmtSRef,
        block: StmtSRef,
        loops: Mapping[Var, PrimExpr],
    ) -> None:
        """Raise ScheduleError if statements other than loops and blocks are in the nest.

        `loops` gives the new extents.
        """
        self._block = block
        self.loops = loops
        above = loops_above(block)
        inside = [] if not above else state.child_blocks(above[0])
        self.others = [other for other in inside if other is not block]
        self.outside = [c for c in state.child_blocks(scope) if c is not block and c not in inside]
        check(not any(map(wrappers, [block, *above[1:]])), NOT_PLAIN, block)
        self.guards = {other.block: self._limits(other) for other in self.others}
        """The conditions under which the other blocks still run, None if they always do."""

    def exchanges(self, buffer: Buffer, stored: bool, is_whole: Callable[[], bool]) -> bool:
        """Return True if the block and others in the nest pass values to each other in a buffer.

        `stored` is True if the block stores to it, `is_whole` if all of it is padded. Raises
        ScheduleError if other accesses to the buffer cannot be redirected.
        """
        touching = touching_blocks(self.others, buffer)
        if not stored and not touching_blocks(touching, buffer, write=True):
            return False
        for other in touching:
            opaque = any(is_opaque(node, buffer) for node in accessing(other.block))
            reason = f"which does not touch {buffer.name} element by element"
            check(not opaque, SHARED, self._block, other, reason=reason)
            reason = f"which also uses {buffer.name}, but the axes index only a part of that buffer"
            check(is_whole(), SHARED, self._block, other, reason=reason)
        return bool(touching)

    def _limits(self, other: StmtSRef) -> PrimExpr | None:
        """Return the condition that excludes another block from the added iterations."""
        above = loops_above(other)
        longer = [loop for loop in above if loop.loop.loop_var in self.loops]
        if not longer:
            return None
        inner = above[above.index(longer[0]) + 1 :]
        reason = "which is below a condition or a binding"
        check(not any(map(wrappers, [other, *inner])), SHARED, self._block, other, reason=reason)
        reason = "whose conditions read memory"
        places = [*other.block_realize.iter_values]
        places += [bound for loop in inner for bound in (loop.loop.min, loop.loop.extent)]
        for value in places:
            loads = any(isinstance(node, BufferLoad) for node in walk(value))
            check(not loads, SHARED, self._block, other, reason=reason)
        return all_of([loop.loop.loop_var < loop.loop.extent for loop in longer])


def touching_blocks(
    blocks: Sequence[StmtSRef], buffer: Buffer, *, write: bool = False
) -> list[StmtSRef]:
    """Return the blocks that access, or write, the memory of a buffer."""

    def touches(block: Block) -> bool:
        regions = block.writes if write else (*block.reads, *block.writes)
        return any(region.buffer.data is buffer.data for region in regions)

    return [sref for sref in blocks if touches(sref.block)]


class Enlarge(RedirectBuffers):
    """Rewrites a block to use padded buffers and enlarged axes.

    `shared` are the padded buffers that other blocks in its nest also use.
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
        self._others = RedirectBuffers({old: buffers[old] for old in shared}, nest.guards)

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        """Rewrite a block; blocks other than the padded one get a condition."""
        if node.block not in self._nest.guards:
            return super().rewrite_BlockRealize(node)
        new = self._others(node)
        self.reuse.update(self._others.reuse)
        inside = self._nest.guards[node.block]
        if inside is None:
            return new
        return BlockRealize(new.iter_values, all_of([inside, new.predicate]), new.block)

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        """Rewrite a loop; loops that drive the axes become longer."""
        extent = self._nest.loops.get(node.loop_var)
        return super().rewrite_For(node if extent is None else node.with_(extent=extent))

    def rewrite_IterVar(self, node: IterVar) -> IterVar:  # noqa: N802
        """Rewrite an axis; padded axes become longer."""
        extent = self._axes.get(node.var)
        if extent is None:
            return super().rewrite_IterVar(node)
        return IterVar(Range(extent), node.var, node.iter_type, node.thread_tag)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:  # noqa: N802
        """Rewrite a store; added steps do not change the result of the new update."""
        return self.generic(self._update if node is self._block.body else node)

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:  # noqa: N802
        """Rewrite a let; added steps do not change the result of the new update of a tuple."""
        return self.generic(self._update if node is self._block.body else node)
