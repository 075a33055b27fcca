"""A place among the statements that a loop or block runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from schedule.sref import StmtSRef, lone_loops, loops_above, path_up
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BlockRealize,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    is_no_op,
    sequence,
)

NOTHING: Final = Evaluate(const(0))
"""The empty statement that replaces a removed statement."""

_FOR_THE_BODY: Final = (IfThenElse, LetStmt, Allocate, AllocateConst, DeclBuffer, AttrStmt)
"""Statements without an effect if their body is empty.

A `While` without a body still runs until its condition fails, and an assertion still asserts.
"""


@dataclass(frozen=True, slots=True)
class StmtCursor:
    """The statements `parts[first:last]` of a sequence, or a gap between statements.

    A sequence is the body of a loop, a block or a wrapper. Wrappers are the other statements with a
    body: conditions, bindings, declarations. A lone statement is a sequence of one. `replace` and
    `insert` return the whole body that the cursor was made for; unchanged statements are shared.
    """

    parts: tuple[Stmt, ...]
    first: int
    last: int
    outer: StmtCursor | None = None
    """The loop or wrapper in the body that runs the sequence; None for the body itself."""
    field: str = "body"
    """The name of the attribute of that statement which holds the sequence."""

    @classmethod
    def of(cls, body: Stmt, outer: StmtCursor | None = None, field: str = "body") -> StmtCursor:
        """Return the place of all statements of a body."""
        parts = body.seq if type(body) is SeqStmt else (body,)
        return cls(parts, 0, len(parts), outer, field)

    @classmethod
    def below(cls, place: StmtSRef, scope: StmtSRef | None = None) -> StmtCursor:
        """Return the place of all statements right below a loop or block.

        `replace` and `insert` will return the body of `scope`, by default that of `place`. `scope`
        is a loop or block around `place`, without another block in between.
        """
        assert place.stmt is not None
        if scope is None or place is scope:
            return cls.of(place.stmt.body)
        assert place.parent is not None
        loop = cls.below(place.parent, scope)
        if loop.parts != (place.stmt,):
            loop = loop.around(place)
        return cls.of(place.stmt.body, loop)

    @classmethod
    def of_scope(cls, scope: StmtSRef) -> StmtCursor:
        """Return the place of the body of a block, below its constants and declared buffers."""
        cursor = cls.below(scope)
        while len(cursor.parts) == 1 and isinstance(cursor.stmt, (AllocateConst, DeclBuffer)):
            cursor = cls.of(cursor.stmt.body, cursor)
        return cursor

    # ------------------------------------------------------------------------------------ looking

    @property
    def stmts(self) -> tuple[Stmt, ...]:
        """The statements here."""
        return self.parts[self.first : self.last]

    @property
    def stmt(self) -> Stmt:
        """The statement here, which must be one."""
        (stmt,) = self.stmts
        return stmt

    def wrappers(self) -> Iterator[tuple[Stmt, str]]:
        """Yield the loops and wrappers that run the sequence, innermost first.

        Each is paired with the name of its field that holds the sequence.
        """
        cursor = self
        while cursor.outer is not None:
            yield cursor.outer.stmt, cursor.field
            cursor = cursor.outer

    def position(self, sref: StmtSRef) -> int:
        """Return the position in `parts` of the statement that contains a loop or block.

        Raises IndexError if none.
        """
        for current in path_up(sref):
            stmt = current.realize or current.stmt
            if stmt in self.parts:
                return self.parts.index(stmt)
        path = _path(sref)
        for k, part in enumerate(self.parts):
            if any(stmt in path for stmt in top_nests(part)):
                return k
        raise IndexError(f"{sref!r} is not below this place")

    def around(self, *srefs: StmtSRef) -> StmtCursor:
        """Return the place of the fewest statements of one sequence that contain some blocks.

        The sequence is the innermost one; the search enters wrappers, but not loops and blocks.
        Raises IndexError if one of the blocks is not below this place.
        """
        positions = [self.position(sref) for sref in srefs]
        first, last = min(positions), max(positions)
        found = self.span(first, last + 1)
        if first == last:
            for field, body in _bodies(found.stmt):
                inner = StmtCursor.of(body, found, field)
                if all(inner._holds(sref) for sref in srefs):
                    return inner.around(*srefs)
        return found

    def _holds(self, sref: StmtSRef) -> bool:
        path = _path(sref)
        return any(stmt in path for part in self.parts for stmt in top_nests(part))

    # ------------------------------------------------------------------------------------- moving

    @property
    def before(self) -> StmtCursor:
        """The gap before these statements."""
        return self.gap(self.first)

    @property
    def after(self) -> StmtCursor:
        """The gap after these statements."""
        return self.gap(self.last)

    def gap(self, position: int) -> StmtCursor:
        """Return the gap before the statement at a position of the sequence."""
        return self.span(position, position)

    def span(self, first: int, last: int) -> StmtCursor:
        """Return the place of other statements of the sequence."""
        return StmtCursor(self.parts, first, last, self.outer, self.field)

    # ------------------------------------------------------------------------------------ changing

    def replace(self, *stmts: Stmt) -> Stmt:
        """Return the body with other statements in this place.

        Wrappers without an effect are removed with their last statement; if no
        statement remains, the result is `NOTHING`.
        """
        new = sequence([*self.parts[: self.first], *stmts, *self.parts[self.last :]])
        if self.outer is None:
            return NOTHING if is_no_op(new) else new
        rebuilt = self.outer.stmt.with_(**{self.field: new})
        if isinstance(rebuilt, _FOR_THE_BODY):
            if all(is_no_op(body) for _, body in _bodies(rebuilt)):
                return self.outer.replace()
            if self.field == "else_case" and is_no_op(new):
                rebuilt = rebuilt.with_(else_case=None)
        return self.outer.replace(rebuilt)


def with_child_replaced(body: Stmt, old: Stmt, new: Stmt | None) -> Stmt:
    """Return the body of a loop or block with the loop or realize `old` right below replaced.

    None removes it; see `StmtCursor.replace`.
    Raises LookupError if `old` is not there: the edit would be lost.
    """
    if body is old:
        return NOTHING if new is None else new
    if type(body) is SeqStmt and old in body.seq:
        k = body.seq.index(old)
        return sequence([*body.seq[:k], new, *body.seq[k + 1 :]])
    place = _place_of(old, StmtCursor.of(body))
    if place is None:
        raise LookupError("the statement to be replaced is not right below its parent")
    return place.replace() if new is None else place.replace(new)


def wrappers(sref: StmtSRef) -> Sequence[tuple[Stmt, str]]:
    """Return the wrappers between a loop or block and the one around it; see `StmtCursor`."""
    if sref.parent is None:
        return ()
    target = sref.realize or sref.stmt
    body = sref.parent.stmt.body  # type: ignore[union-attr]
    if body is target or (type(body) is SeqStmt and target in body.seq):
        return ()
    assert target is not None
    place = _place_of(target, StmtCursor.of(body))
    return () if place is None else list(place.wrappers())


def _place_of(child: Stmt, among: StmtCursor) -> StmtCursor | None:
    """Return the place of a loop or realize that is right below a loop or block."""
    for k, part in enumerate(among.parts):
        if part is child:
            return among.span(k, k + 1)
    for k, part in enumerate(among.parts):
        for field, body in _bodies(part):
            found = _place_of(child, StmtCursor.of(body, among.span(k, k + 1), field))
            if found is not None:
                return found
    return None


def lone_nest(block: StmtSRef, scope: StmtSRef) -> StmtCursor | None:
    """Return the place in a scope of a block's loop nest.

    None if the loops contain other blocks.
    """
    is_alone = len(lone_loops(block)) == len(loops_above(block))
    return StmtCursor.below(scope).around(block) if is_alone else None


def _path(sref: StmtSRef) -> set[Stmt]:
    """Return the loops and realizes around a loop or block, itself included."""
    stmts = (s.realize if s.is_block else s.stmt for s in path_up(sref))
    return {stmt for stmt in stmts if stmt is not None}


def top_nests(stmt: Stmt) -> Iterator[For | BlockRealize]:
    """Yield the loops and realizes in a statement that are not below another loop or realize."""
    pending: list[Stmt] = [stmt]
    while pending:
        node = pending.pop()
        if type(node) is For or type(node) is BlockRealize:
            yield node
        elif type(node) is SeqStmt:
            pending.extend(reversed(node.seq))
        else:
            pending.extend(body for _, body in reversed(_bodies(node)))


def _bodies(stmt: Stmt) -> list[tuple[str, Stmt]]:
    """Return the statements that a wrapper runs, each with the name of its field."""
    if type(stmt) is For or type(stmt) is BlockRealize:
        return []
    parts = [(name, getattr(stmt, name)) for name in stmt.fields]
    return [(name, part) for name, part in parts if isinstance(part, Stmt)]
