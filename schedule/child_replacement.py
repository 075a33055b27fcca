"""Replacing a loop or block in the statements between it and the loop or block around it."""

from __future__ import annotations

from typing import Final

from tensorir.expr import PrimExpr
from tensorir.ops import const
from tensorir.stmt import (
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
from tensorir.visit import Rewriter, children

NOTHING: Final = Evaluate(const(0))
"""What is left where a statement is removed."""

_FOR_THE_BODY: Final = (IfThenElse, LetStmt, Allocate, AllocateConst, DeclBuffer, AttrStmt)
"""Statements that do nothing once there is nothing in them.

A `While` without a body still runs until its condition fails, and an assertion still asserts.
"""


def with_child_replaced(body: Stmt, old: Stmt, new: Stmt | None) -> Stmt:
    """Return the body of a loop or block with the loop or block `old` right below replaced.

    None removes `old`, together with statements that are there for their body alone and have no
    other left; where nothing at all is left, the result is `NOTHING`.

    Raises LookupError if `old` is not there: the edit would be lost.
    """
    if body is old:
        return NOTHING if new is None else new
    if type(body) is SeqStmt:
        # Most often a loop or block among its siblings.
        for k, part in enumerate(body.seq):
            if part is old:
                return sequence([*body.seq[:k], new, *body.seq[k + 1 :]])
    replacement = _Replacement(old, NOTHING if new is None else new)
    result = replacement(body)
    if not replacement.done:
        raise LookupError("the statement to be replaced is not right below its parent")
    return result


class _Replacement(Rewriter):
    """Rebuilds the statements above one loop or block, entering no other."""

    def __init__(self, old: Stmt, new: Stmt) -> None:
        self._old = old
        self._new = new
        self.done = False

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        return self._child(node)

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        return self._child(node)

    def _child(self, node: Stmt) -> Stmt:
        if node is not self._old:
            return node
        self.done = True
        return self._new

    def rewrite_IfThenElse(self, node: IfThenElse) -> Stmt:  # noqa: N802
        rebuilt = self.rewrite_Stmt(node)
        if rebuilt is node or not isinstance(rebuilt, IfThenElse):
            return rebuilt
        if rebuilt.else_case is None or not is_no_op(rebuilt.else_case):
            return rebuilt
        return IfThenElse(rebuilt.condition, rebuilt.then_case)

    def rewrite_Stmt(self, node: Stmt) -> Stmt:  # noqa: N802
        rebuilt = self.generic(node)
        if rebuilt is node or not isinstance(rebuilt, _FOR_THE_BODY):
            return rebuilt
        bodies = [part for part in children(rebuilt) if isinstance(part, Stmt)]
        return NOTHING if all(is_no_op(part) for part in bodies) else rebuilt

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        return node
