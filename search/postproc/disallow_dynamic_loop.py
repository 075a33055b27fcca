"""Rejecting loops of unknown length."""

from __future__ import annotations

from collections.abc import Iterator

from schedule import Schedule
from search.postproc.postproc import Postproc
from tensorir.expr import BufferLoad, IntImm, PrimExpr
from tensorir.function import PrimFunc
from tensorir.stmt import Block, BlockRealize, For, SeqStmt, Stmt
from tensorir.visit import post_order_visit, walk


class DisallowDynamicLoop(Postproc):
    """Rejects a schedule with a loop whose extent is not constant."""

    def apply(self, sch: Schedule) -> bool:
        """Say whether all extents are constant."""
        return _dynamic_loop(sch) is None

    def reason(self, sch: Schedule) -> str:
        """Name a loop whose extent is not constant, and say what to do about it."""
        found = _dynamic_loop(sch)
        if found is None:
            return ""
        loop, func = found
        remedy = "fix the sizes with PrimFunc.specialize"
        if _varies(loop.extent, func):
            remedy = "give it the largest extent and a condition inside"
        return f"the extent of loop {loop.loop_var.name} is not constant: {loop.extent}; {remedy}"


def _dynamic_loop(sch: Schedule) -> tuple[For, PrimFunc] | None:
    loops = ((loop, func) for func in sch.mod.prim_funcs().values() for loop in _loops(func.body))
    return next((found for found in loops if not isinstance(found[0].extent, IntImm)), None)


def _varies(extent: PrimExpr, func: PrimFunc) -> bool:
    """Say whether an extent changes while the function runs."""
    inside: set[object] = set()

    def visit(node: object) -> None:
        if isinstance(node, For):
            inside.add(node.loop_var)
        elif isinstance(node, Block):
            inside.update(axis.var for axis in node.iter_vars)

    post_order_visit(func.body, visit)
    return any(isinstance(n, BufferLoad) or n in inside for n in walk(extent))


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
