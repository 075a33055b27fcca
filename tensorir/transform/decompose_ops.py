"""Composite operators become the operators that they consist of."""

from __future__ import annotations

from collections.abc import Container

from tensorir.function import IRModule
from tensorir.relax import expr as g
from tensorir.relax.declaration import CompositeOperator, DeclaredOperator
from tensorir.relax.function import Function, graph_functions
from tensorir.rewriting.visit import walk
from tensorir.transform.define_pass import ModulePass
from tensorir.transform.pass_context import PassContext
from tensorir.transform.rebuild_graph import GraphRebuilder


class DecomposeOps(ModulePass):
    """Replaces composite operators by their expressions.

    Before: y = R.nn.silu(x)
    After:  lv = R.sigmoid(x)
            y = R.multiply(x, lv)

    Operators whose names are among `kept` (without `relax.`) stay.
    """

    def __init__(self, kept: Container[str] = ()) -> None:
        self.kept = kept

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module without such operators; `mod` itself if there are none."""
        if not any(has_operators(f, CompositeOperator) for f in graph_functions(mod).values()):
            return mod
        return Decomposing(mod, self.kept).rebuilt()


class Decomposing(GraphRebuilder):
    """Emits functions again, with the expressions of composite operators."""

    def __init__(self, mod: IRModule, kept: Container[str] = ()) -> None:
        super().__init__(mod)
        self._kept = kept

    def value(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return the replacement of a value, part by part."""
        if not isinstance(value, g.GraphCall) or not isinstance(value.op, CompositeOperator):
            return value
        op = value.op
        if op.short_name in self._kept:
            return value
        return self.emitted(op.expression(op.signature.arguments(value.args, value.attrs)))  # type: ignore[arg-type]


def has_operators(func: Function, kind: type[DeclaredOperator] = DeclaredOperator) -> bool:
    """Say whether a graph function calls operators of a kind."""
    return any(
        isinstance(node, g.GraphCall) and isinstance(node.op, kind) for node in walk(func.body)
    )
