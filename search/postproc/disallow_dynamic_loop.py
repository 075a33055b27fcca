"""The postprocessor that rejects loops of unknown length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from schedule import Schedule
from search.postproc.postproc import Postproc
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IntImm, Let, Var
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, For, LetStmt, Stmt
from tensorir.rewriting.visit import collect_vars, pre_order_visit, walk

if TYPE_CHECKING:
    from search.task import Task


class DisallowDynamicLoop(Postproc):
    """Rejects a schedule with a loop whose extent is not constant.

    With `keep_program_loops`, as in the presets, a loop of the unscheduled program may have an
    extent that depends on loops and axes around it, such as the window of an adaptive pooling, or
    on data, but not on a symbolic size.
    """

    def __init__(self, keep_program_loops: bool = False) -> None:
        self._keep = keep_program_loops
        self._own: frozenset[Var] = frozenset()
        """The loops of the unscheduled program whose extents need not be constant."""

    def _initialize_with_tune_context(self, context: Task) -> None:
        if self._keep and context.mod is not None:
            self._own = frozenset(_loops_of_known_length(context.mod))

    def apply(self, sch: Schedule) -> bool:
        """Return True if all extents are constant or allowed."""
        return self._refused_loop(sch) is None

    def reason(self, sch: Schedule) -> str:
        """Return the name of a loop whose extent is not constant, with advice."""
        loop = self._refused_loop(sch)
        if loop is None:
            return ""
        return (
            f"the extent of loop {loop.loop_var.name} is not constant: {loop.extent}; fix the "
            "sizes with PrimFunc.specialize"
        )

    def _refused_loop(self, sch: Schedule) -> For | None:
        dynamic = _dynamic_loops(sch.mod)
        return next((loop for loop in dynamic if loop.loop_var not in self._own), None)


def _dynamic_loops(mod: IRModule) -> Iterator[For]:
    for func in mod.prim_funcs().values():
        yield from (loop for loop in _loops(func.body) if not isinstance(loop.extent, IntImm))


def _loops_of_known_length(mod: IRModule) -> Iterator[Var]:
    """Yield the loops whose extents depend on values that the function computes, not on sizes."""
    dynamic = list(_dynamic_loops(mod))
    if dynamic:
        inside = {var for func in mod.prim_funcs().values() for var in _bound_inside(func)}
        yield from (x.loop_var for x in dynamic if inside.issuperset(collect_vars(x.extent)))


def _bound_inside(func: PrimFunc) -> Iterator[Var]:
    """Yield the variables that a function defines: all but its symbolic sizes."""
    for node in walk(func.body):
        if isinstance(node, For):
            yield node.loop_var
        elif isinstance(node, Block):
            yield from (axis.var for axis in node.iter_vars)
        elif isinstance(node, (LetStmt, Let)):
            yield node.var


def _loops(body: Stmt) -> list[For]:
    """Return the loops of a statement; expressions are not visited."""
    found: list[For] = []

    def visit(node: Node) -> bool:
        if isinstance(node, For):
            found.append(node)
        return isinstance(node, Stmt)

    pre_order_visit(body, visit)
    return found
