"""Walking and rebuilding graph functions: their rows in the tables of `tensorir.rewriting.visit`.

`GraphRewriter` adds what bindings need: a variable whose value changed its struct info is replaced,
and a binding may become several or none.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.arith import Analyzer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.relax import expr as g
from tensorir.relax import struct_info as si
from tensorir.relax.function import Function
from tensorir.relax.relations import is_base_of
from tensorir.rewriting.visit import Rewriter


class GraphRewriter(Rewriter):
    """Rebuilds graph functions.

    `replaced` says what stands for a variable from here on. Override `binding` to make several
    bindings of one, or none. A variable whose value has another struct info than before is
    replaced by a fresh one of the same name.
    """

    def __init__(self) -> None:
        self.replaced: dict[g.GraphVar, g.GraphExpr] = {}

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the bindings that stand for one."""
        rebuilt = self.generic(node)
        if rebuilt is node:
            return (node,)
        before, info = _value_info(node), _value_info(rebuilt)
        known = before is info or (is_base_of(before, info) and is_base_of(info, before))
        var = node.var if known else self.redefined(node.var, info)
        if isinstance(rebuilt, g.MatchCast):
            return (g.MatchCast(var, rebuilt.value, rebuilt.struct_info),)
        return (g.VarBinding(var, rebuilt.value),)

    def redefined(self, var: g.GraphVar, info: si.StructInfo) -> g.GraphVar:
        """Return the variable that stands for `var`, which now has this struct info."""
        new = var.with_struct_info(info)
        self.replaced[var] = new
        return new

    def rewrite_GraphVar(self, node: g.GraphVar) -> g.GraphExpr:  # noqa: N802
        """Return the expression that replaces a variable."""
        return self.replaced.get(node, node)

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block, binding by binding."""
        bindings = [new for old in node.bindings for new in self.binding(old)]
        same = len(bindings) == len(node.bindings) and all(
            a is b for a, b in zip(bindings, node.bindings, strict=True)
        )
        return node if same else type(node)(bindings)


class SizeSubstitution(GraphRewriter):
    """Puts expressions in the place of symbolic sizes, also in what is known of variables.

    What they become a part of is simplified.
    """

    def __init__(self, sizes: dict[Var, PrimExpr]) -> None:
        super().__init__()
        self._sizes = sizes

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Return the expression that replaces a size."""
        return self._sizes.get(node, node)

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Return an expression over what stands for sizes."""
        new = self.generic(node)
        return node if new is node else Analyzer().simplify(new)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Rebuild a binding and what is known of its variable."""
        value, info = self(node.value), self(node.var.struct_info)
        same = info is node.var.struct_info
        var = node.var if same else self.redefined(node.var, info)
        if isinstance(node, g.MatchCast):
            return (g.MatchCast(var, value, self(node.struct_info)),)
        return (node,) if same and value is node.value else (g.VarBinding(var, value),)

    def rewrite_Function(self, node: Function) -> Function:  # noqa: N802
        """Rebuild a function with the sizes of its parameters."""
        params = []
        for param in node.params:
            info = self(param.struct_info)
            params.append(param if info is param.struct_info else self.redefined(param, info))
        body, ret = self(node.body), self(node.ret_struct_info)
        return Function(params, body, ret, node.is_pure, node.attrs)


def _value_info(node: g.Binding) -> si.StructInfo:
    return node.struct_info if isinstance(node, g.MatchCast) else node.value.struct_info
