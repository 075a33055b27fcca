"""Comparing and copying graph functions: their rows in the tables of
`tensorir.comparison.equal` and `tensorir.rewriting.fresh_copy`.

Variables are defined by parameters and bindings, symbolic sizes by the struct infos of parameters
and by `match_cast`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.nodes.expr import PrimExpr, Var
from tensorir.relax import expr as g
from tensorir.relax import struct_info as si
from tensorir.relax.function import Function
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.fresh_copy import register_copy
from tensorir.rewriting.visit import collect_vars


class GraphFreshCopy(GraphRewriter):
    """Copies graph functions, with new variables and new symbolic sizes."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[Var, PrimExpr] = {}

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Return the size of the copy."""
        return self._sizes.get(node, node)

    def _define_sizes(self, info: si.StructInfo) -> None:
        for var in collect_vars(info):
            if var not in self._sizes:
                self._sizes[var] = var.with_name(var.name)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Copy a binding with a variable of its own."""
        value = self(node.value)
        if isinstance(node, g.MatchCast):
            self._define_sizes(node.struct_info)
            info = self(node.struct_info)
            var = self.redefined(node.var, self(node.var.struct_info))
            return (g.MatchCast(var, value, info),)
        return (g.VarBinding(self.redefined(node.var, self(node.var.struct_info)), value),)

    def rewrite_Function(self, node: Function) -> Function:  # noqa: N802
        """Copy a function with parameters of its own."""
        for param in node.params:
            self._define_sizes(param.struct_info)
        params = [self.redefined(param, self(param.struct_info)) for param in node.params]
        body, ret = self(node.body), self(node.ret_struct_info)
        return Function(params, body, ret, node.is_pure, self.value(node.attrs))


register_copy(Function, lambda func: GraphFreshCopy()(func))
