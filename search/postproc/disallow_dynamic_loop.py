"""Rejecting loops of unknown length."""

from __future__ import annotations

from collections.abc import Iterator

from schedule import Schedule
from search.postproc.postproc import Postproc
from tensorir.expr import IntImm
from tensorir.stmt import Block, BlockRealize, For, SeqStmt, Stmt


class DisallowDynamicLoop(Postproc):
    """Rejects a schedule with a loop whose extent is not constant."""

    def apply(self, sch: Schedule) -> bool:
        """Say whether all extents are constant."""
        return _dynamic_loop(sch) is None

    def reason(self, sch: Schedule) -> str:
        """Name a loop whose extent is not constant."""
        loop = _dynamic_loop(sch)
        if loop is None:
            return ""
        return f"the extent of loop {loop.loop_var.name} is not constant: {loop.extent}"


def _dynamic_loop(sch: Schedule) -> For | None:
    loops = (loop for func in sch.mod.functions.values() for loop in _loops(func.body))
    return next((loop for loop in loops if not isinstance(loop.extent, IntImm)), None)


def _loops(stmt: Stmt) -> Iterator[For]:
    """Yield the loops of a statement; expressions are not visited."""
    if isinstance(stmt, For):
        yield stmt
        yield from _loops(stmt.body)
    elif isinstance(stmt, BlockRealize):
        yield from _loops(stmt.block)
    elif isinstance(stmt, Block):
        if stmt.init is not None:
            yield from _loops(stmt.init)
        yield from _loops(stmt.body)
    elif isinstance(stmt, SeqStmt):
        for part in stmt.seq:
            yield from _loops(part)
    else:
        for name in ("body", "then_case", "else_case"):
            inner = getattr(stmt, name, None)
            if inner is not None:
                yield from _loops(inner)
