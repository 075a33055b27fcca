"""A copy of a buffer that blocks use instead: its place, its lifetime, and whether it is filled."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from schedule.analysis.bindings import analyzer_with_ranges, axis_domain, loop_domain
from schedule.analysis.rebuild import BlockRewriter
from schedule.analysis.region_cover import clip, written_below
from schedule.analysis.regions import (
    Region,
    bound_region,
    box_of,
    path_domain,
    reads_memory,
    region_of,
    relax,
    union,
)
from schedule.analysis.sure_writes import holds, may_not_store, surely_written, written_within
from schedule.analysis.surroundings import guards, guards_of_place
from schedule.errors import Problem, check
from schedule.sref import StmtSRef, loops_above, loops_seen_through
from schedule.staging.nests import Staged
from schedule.staging.old_values import init_runs_first, reads_old_values
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Block, ForKind

UNSAFE = Problem(
    "UnsafeStageError",
    "{0} cannot use a copy of {buffer}: {reason}",
    "a schedule made with enable_check=False does not check it",
)
OUTSIDE = Problem(
    "UnsafeStageError",
    "{0} cannot use a copy of {buffer}: the copy would touch {extent} elements from {first} on in "
    "a dimension of {size}",
    "a schedule made with enable_check=False does not check it",
)


@dataclass(frozen=True)
class StagingPlan:
    """A copy of a buffer, which some blocks of a scope use while the statements at a place run.

    The copy is filled before these statements if necessary, and copied back after them if they
    write it. It is undefined at first, and is copied in whole boxes, independent of the conditions
    under which the blocks run. So every element that a block or the copy back reads must have been
    stored to it before. `must_be_filled` checks that. `read` and `written` return the part of the
    buffer that is copied.
    """

    state: ScheduleState
    scope: StmtSRef
    location: StmtSRef
    """The innermost loop around the copy, or the scope."""
    cursor: StmtCursor
    """The statements that use the copy; for a copy that is only read, the gap where it is made."""
    block: StmtSRef
    """The block that errors name."""
    buffer: Buffer
    users: Sequence[StmtSRef]
    """The blocks that use the copy, in the order in which they run."""
    threads: str = "global"
    """A storage scope: threads that share its memory use one copy."""
    source: StmtSRef | None = None
    """The writer of the values in a copy that is only read; None for values from outside of the
    scope.
    """

    @cached_property
    def readers(self) -> list[StmtSRef]:
        """The users that declare to read the buffer."""
        return [u for u in self.users if any(r.buffer is self.buffer for r in u.block.reads)]

    @cached_property
    def writers(self) -> list[StmtSRef]:
        """The users that write the buffer."""
        return [u for u in self.users if any(r.buffer is self.buffer for r in u.block.writes)]

    @cached_property
    def known(self) -> Analyzer:
        """The known ranges at the place of the variables that regions of the buffer may use."""
        above = loops_above(self.location)
        around = above if self.location.is_block else [*above, self.location]
        loops = loop_domain([*loops_seen_through(self.scope), *around])
        return analyzer_with_ranges({**loops, **axis_domain(self.scope.block.iter_vars)})

    # ------------------------------------------------------------------------------------ the part

    def read(self, blocks: Sequence[StmtSRef]) -> Region | None:
        """Return the smallest known box that blocks read at the place, None if they do not read.

        "At the place" means while the statements below the location run once.
        """
        return self._bounding_region([(b, r) for b in blocks for r in b.block.reads])

    def written(self, blocks: Sequence[StmtSRef]) -> Region:
        """Return the box that blocks surely write at the place, None if it is unknown."""
        regions = []
        for block in blocks:
            analyzer = Analyzer()
            within = written_within(block.block_realize, self.buffer, {}, analyzer)
            box = union(within, analyzer)
            if box is not None:
                inside = region_of(box, self.buffer, analyzer)
                regions.append((block, BufferRegion(self.buffer, inside)))
            for region in block.block.writes:
                if region.buffer is self.buffer:
                    surely = surely_written(block.block, region) or region.region
                    regions.append((block, BufferRegion(self.buffer, surely)))
        found = self._bounding_region(regions)
        assert found is not None
        return found

    def _bounding_region(self, regions: Sequence[tuple[StmtSRef, BufferRegion]]) -> Region | None:
        # Loops of one iteration stay visible in the region, so their ranges are left unsaid.
        analyzer = Analyzer()
        boxes = []
        for block, region in regions:
            if region.buffer is self.buffer:
                realize = block.block_realize
                domain = path_domain(block, self.location, self.threads)
                bound = bound_region(region, realize)
                box = relax(bound, domain, realize.predicate, analyzer, upper=True)
                assert box is not None
                boxes.append(box)
        joined = union(boxes, analyzer)
        return None if joined is None else region_of(joined, self.buffer, analyzer)

    # ---------------------------------------------------------------------------------- the checks

    def must_be_filled(self, stores_all: bool) -> bool:
        """Return True if the buffer must be copied to the copy before its users run.

        `stores_all` is True if the users surely store all elements that are copied back. Elements
        that they skip are copied back unchanged: raise if others may write them at the same time.
        """
        if not self.state.enable_check:
            return False
        if not stores_all:
            self._check_sequential()
        first = self.users[0]
        relying = [w for w in self.writers if self._relies_on_old_values(w)]
        # In a stage pipeline, later readers find what they declare to read written before them.
        return (
            not stores_all
            or first not in self.writers
            or any(w is first or w not in self.readers for w in relying)
        )

    def stores_all(self, region: Region) -> bool:
        """Return True if one of the users stores all of a region."""
        needed = clip(box_of(region), self.buffer, self.known)
        for writer in self.writers:
            if self.surely_runs(writer):
                written = written_below(self.location, self.buffer, [writer], self.known)
                if holds(written, needed, self.known):
                    return True
        return False

    def surely_runs(self, block: StmtSRef) -> bool:
        """Return True if a block runs whenever the copy is made.

        No condition skips it, and no loop around it is empty. A loop that only determines which
        elements are written may be empty, because the region to copy is then empty, too.
        """
        own = guards(block, self.scope)
        if own and not all(guard in guards_of_place(self.cursor) for guard in own):
            return False
        extents = [sref.loop.extent for sref in loops_above(block)]
        if all(type(extent) is IntImm and extent.value > 0 for extent in extents):
            return True
        loops, realize = path_domain(block, self.location), block.block_realize
        regions = [r for r in realize.block.writes if r.buffer is self.buffer]
        written = [dim for region in regions for dim in bound_region(region, realize)]
        return not may_not_store(realize, self.buffer, written, loops, self.known)

    def _relies_on_old_values(self, block: StmtSRef) -> bool:
        """Return True if a user may read earlier contents of a buffer that it writes.

        Raises ScheduleError if it does not declare that read.
        """
        relies = reads_old_values(block.block, self.buffer)
        reason = "it reads the earlier contents of the buffer without declaring that"
        declared = block in self.readers
        check(declared or not relies, UNSAFE, block, buffer=self.buffer.name, reason=reason)
        return relies or not init_runs_first(block, in_scope=True)

    def _check_sequential(self) -> None:
        """Raise if copying back unchanged elements could overwrite concurrent writes."""
        reason = "it may skip elements that concurrent iterations may write"
        current: StmtSRef | None = self.location
        while current is not None:
            ordered = current.is_block or current.loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
            check(ordered, UNSAFE, self.block, buffer=self.buffer.name, reason=reason)
            current = current.parent

    def check_fixed(self, region: Sequence[Range]) -> None:
        """Raise if the position of a region depends on memory, which may change before the copy."""
        fixed = not self.state.enable_check or not any(reads_memory(dim) for dim in region)
        reason = "the elements that it touches depend on values in memory"
        check(fixed, UNSAFE, self.block, buffer=self.buffer.name, reason=reason)

    def check_inside(self, region: Sequence[Range], known: Analyzer | None = None) -> None:
        """Raise unless a region, which will be copied unconditionally, is inside the buffer.

        `known` are the variable ranges for the region, by default those at the place.
        """
        if not self.state.enable_check:
            return
        proves = (known or self.known).can_prove_greater_equal
        for dim, size in zip(region, self.buffer.shape, strict=True):
            inside = proves(dim.min, 0) and proves(size - dim.extent - dim.min, 0)
            values = {"first": dim.min, "extent": dim.extent, "size": size}
            check(inside, OUTSIDE, self.block, buffer=self.buffer.name, **values)

    # ------------------------------------------------------------------------------------ applying

    def apply(
        self,
        layout: Layout,
        held: Sequence[Range] | None,
        written: Sequence[Range] | None,
    ) -> list[StmtSRef]:
        """Let the users use a copy, and return the blocks that fill it and copy it back.

        `held` is copied to it first, and `written` is copied back; None skips that copy.
        """
        fills = [] if held is None else [layout.copy_nest(held, back=False)]
        backs = [] if written is None else [layout.copy_nest(written, back=True)]
        redirect = layout.redirecting_rewriter({user.block for user in self.users})
        add_stages(self.state, self.scope, self.cursor, fills, backs, [layout.copy], redirect)
        return [self.state.get_sref(staged.block) for staged in (*fills, *backs)]


class Layout(Protocol):
    """The arrangement of the elements of a buffer in its copy."""

    copy: Buffer

    def copy_nest(self, region: Sequence[Range], *, back: bool) -> Staged:
        """Return a nest that copies a region to the copy, or back to the buffer."""

    def redirecting_rewriter(self, blocks: Collection[Block]) -> BlockRewriter:
        """Return the rewriter that lets blocks use the copy."""


def add_stages(
    state: ScheduleState,
    scope: StmtSRef,
    cursor: StmtCursor,
    before: Sequence[Staged],
    after: Sequence[Staged],
    buffers: Sequence[Buffer],
    redirect: BlockRewriter,
    unused: Collection[Buffer] = (),
) -> None:
    """Insert nests before and after a place in a scope, and rewrite the blocks that use them.

    The scope allocates `buffers`, and stops allocating buffers in `unused`.
    """
    nests = [[staged.nest for staged in side] for side in (before, after)]
    body = redirect(cursor.replace(*nests[0], *cursor.stmts, *nests[1]))
    old = scope.block
    kept = [buffer for buffer in old.alloc_buffers if buffer not in unused]
    new = old.with_(body=body, alloc_buffers=(*kept, *buffers))
    state.replace(scope, new, redirect.reuse)
