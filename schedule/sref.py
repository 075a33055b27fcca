"""References to the loops and blocks of a changing program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tensorir.nodes.stmt import Block, BlockRealize, For, Stmt


class StmtSRef:
    """A reference that follows a loop or block through changes of the program.

    Statements are immutable, so a transformation builds new ones; a reference is re-pointed at the
    statement that took the old one's place. `stmt` is None once the loop or block is gone, and
    `consumed_by` then names the primitive that removed it.
    """

    __slots__ = ("__weakref__", "consumed_by", "parent", "realize", "stmt")

    def __init__(
        self, stmt: For | Block | None, parent: StmtSRef | None, realize: BlockRealize | None = None
    ) -> None:
        self.stmt = stmt
        self.parent = parent
        """The nearest enclosing loop or block."""
        self.realize = realize
        """For a block: the statement that binds its axes."""
        self.consumed_by = ""

    @property
    def loop(self) -> For:
        """The loop that the reference points to."""
        assert type(self.stmt) is For
        return self.stmt

    @property
    def block(self) -> Block:
        """The block that the reference points to."""
        assert type(self.stmt) is Block
        return self.stmt

    @property
    def block_realize(self) -> BlockRealize:
        """The statement that binds the axes of the referenced block."""
        assert self.realize is not None
        return self.realize

    @property
    def is_block(self) -> bool:
        """True if the reference points to a block."""
        return type(self.stmt) is Block

    def __repr__(self) -> str:
        if self.stmt is None:
            return "StmtSRef(gone)"
        if type(self.stmt) is For:
            return f"StmtSRef(loop {self.stmt.loop_var.name})"
        return f"StmtSRef(block {self.block.name_hint})"


INLINE_MARK: Final = StmtSRef(None, None)
"""The compute location "inline into the consumers"."""
ROOT_MARK: Final = StmtSRef(None, None)
"""The compute location "keep it in its place"."""


def path_up(sref: StmtSRef | None) -> Iterator[StmtSRef]:
    """Yield a loop or block and those around it, innermost first."""
    while sref is not None:
        yield sref
        sref = sref.parent


def scope_root(sref: StmtSRef) -> StmtSRef | None:
    """Return the nearest block that encloses `sref`, None for a function's root block."""
    parent = sref.parent
    while parent is not None and type(parent.stmt) is For:
        parent = parent.parent
    return parent


def loops_above(sref: StmtSRef) -> list[StmtSRef]:
    """Return the loops between `sref` and its scope root, outermost first."""
    loops = []
    parent = sref.parent
    while parent is not None and type(parent.stmt) is For:
        loops.append(parent)
        parent = parent.parent
    loops.reverse()
    return loops


def lone_loops(block: StmtSRef) -> list[StmtSRef]:
    """Return the loops in the scope that contain only a block, innermost first."""
    found: list[StmtSRef] = []
    inner: Stmt = block.block_realize
    for loop in reversed(loops_above(block)):
        if loop.loop.body is not inner:
            break
        found.append(loop)
        inner = loop.loop
    return found


def loops_seen_through(scope: StmtSRef) -> list[StmtSRef]:
    """Return the loops around a scope whose variables its blocks may bind, outermost first.

    These are all loops up to a block with axes, because its body can use only the axes.
    """
    loops: list[StmtSRef] = []
    current: StmtSRef | None = scope
    while current is not None and not current.block.iter_vars:
        loops[:0] = loops_above(current)
        current = scope_root(current)
    return loops


def is_ancestor(outer: StmtSRef, inner: StmtSRef) -> bool:
    """Return whether `outer` encloses `inner` (a statement encloses itself)."""
    current: StmtSRef | None = inner
    while current is not None and current is not outer:
        current = current.parent
    return current is outer


def lowest_common_ancestor(srefs: Sequence[StmtSRef]) -> StmtSRef:
    """Return the innermost loop or block that encloses all of `srefs`, or is one of them."""
    path = list(path_up(srefs[0]))
    depth = 0
    for other in srefs[1:]:
        seen = set(path_up(other))
        while path[depth] not in seen:
            depth += 1
    return path[depth]
