"""Bringing every index expression of a program to canonical form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.recursion import any_depth
from tensorir.rewriting.visit import Rewriter

T = TypeVar("T", bound=PrimFunc | IRModule | s.Stmt | PrimExpr)


@any_depth
def simplify(program: T) -> T:
    """Return a module, function, statement or expression with its index arithmetic simplified.

    Loop bounds, bindings, predicates, regions and indices come out in a form that does not depend
    on how they were written: two programs that differ only in that become structurally equal.
    Floating point values are left as they are, except for the indices inside them; so are the graph
    functions of a module.
    """
    if isinstance(program, IRModule):
        functions = {name: simplify(func) for name, func in program.prim_funcs().items()}
        return cast(T, IRModule({**program.functions, **functions}, program.attrs))
    if isinstance(program, PrimFunc):
        return cast(T, program.with_body(_SimplifyProgram(value_variables(program))(program.body)))
    return _SimplifyProgram()(program)


class _SimplifyProgram(Rewriter):
    def __init__(self, values: Iterable[Var] = ()) -> None:
        self._analyzer = Analyzer(values)

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        return self._analyzer.simplify(node, sort=True)

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        low, extent = self(node.min), self(node.extent)
        with self._analyzer.loop_scope(node.loop_var, low, extent):
            body = self(node.body)
        annotations = self.value(node.annotations)
        return s.For(node.loop_var, low, extent, node.kind, body, node.thread_binding, annotations)

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        with self._analyzer.scope():
            for axis in self.each(node.iter_vars):
                if axis.dom is not None:
                    self._analyzer.bind(axis.var, axis.dom, allow_override=True)
            return self.generic(node)

    def value(self, value: Any) -> Any:
        return value if isinstance(value, e.StringImm) else super().value(value)
