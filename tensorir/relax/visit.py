"""Walking and rewriting graph functions: the rules for bindings, in addition to the nodes' field
tables.

If the rebuilt value of a binding has another struct info, a new variable replaces the bound
variable. A rewriter may replace a binding by several bindings or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorir.arith import Analyzer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.node import Node, same_or_new
from tensorir.relax import expr as g
from tensorir.relax import struct_info as si
from tensorir.relax.function import Function
from tensorir.relax.relations import is_base_of
from tensorir.rewriting.visit import Rewriter, walk


class GraphRewriter(Rewriter):
    """Rebuilds graph functions.

    `replaced` maps variables to their replacements in the rest of the function; variables in
    `renamed` are replaced in their bindings, too. Override `binding` to turn a binding into several
    or none. A variable whose value has another struct info than before is replaced by a fresh
    variable of the same name. While a block is rebuilt, `inner` is the class of its local
    variables.
    """

    inner: type[g.GraphVar] = g.GraphVar

    def __init__(self, renamed: Mapping[g.GraphVar, g.GraphVar] | None = None) -> None:
        self.replaced: dict[g.GraphVar, g.GraphExpr] = dict(renamed or {})
        self._renamed = renamed or {}

    def define(self, var: Any) -> Any:
        """Return the variable that is bound instead of `var`."""
        return self._renamed.get(var, var)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the bindings that replace a binding."""
        rebuilt = self.generic(node)
        if rebuilt is node:
            return (node,)
        before, info = _value_info(node), _value_info(rebuilt)
        if before is info or (is_base_of(before, info) and is_base_of(info, before)):
            return (rebuilt,)
        return (rebuilt.with_(var=self.redefined(node.var, info)),)

    def redefined(self, var: g.GraphVar, info: si.StructInfo) -> g.GraphVar:
        """Return a variable that replaces `var` and has this struct info."""
        new = var.with_struct_info(info)
        self.replaced[var] = new
        return new

    def alias(self, node: g.VarBinding, value: g.GraphExpr) -> Sequence[g.Binding]:
        """Return the bindings that replace a binding of a variable or constant: usually none.

        Later uses of the bound variable are replaced by the value. The binding is kept if it makes
        a variable that is local to a dataflow block an output.
        """
        if isinstance(value, g.DataflowVar) and not isinstance(node.var, g.DataflowVar):
            return (node.changed(value=value),)
        self.replaced[node.var] = value
        return ()

    def rewrite_GraphVar(self, node: g.GraphVar) -> g.GraphExpr:  # noqa: N802
        """Return the expression that replaces a variable."""
        return self.replaced.get(node, node)

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block, binding by binding."""
        outer = self.inner
        self.inner = g.DataflowVar if isinstance(node, g.DataflowBlock) else g.GraphVar
        bindings = [new for old in node.bindings for new in self.binding(old)]
        self.inner = outer
        return node.changed(bindings=same_or_new(node.bindings, bindings))


class SizeSubstitution(GraphRewriter):
    """Replaces symbolic sizes by expressions, also in the struct infos of variables.

    The enclosing expressions are simplified.
    """

    def __init__(self, sizes: dict[Var, PrimExpr]) -> None:
        super().__init__()
        self._sizes = sizes

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Return the expression that replaces a size."""
        return self._sizes.get(node, node)

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Return an expression with sizes replaced."""
        new = self.generic(node)
        return node if new is node else Analyzer().simplify(new)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Rebuild a binding and the struct info of its variable."""
        rebuilt, info = self.generic(node), self(node.var.struct_info)
        if info is node.var.struct_info:
            return (rebuilt,)
        return (rebuilt.with_(var=self.redefined(node.var, info)),)

    def rewrite_Function(self, node: Function) -> Function:  # noqa: N802
        """Rebuild a function with the sizes of its parameters."""
        for param in node.params:
            info = self(param.struct_info)
            if info is not param.struct_info:
                self.redefined(param, info)
        return self.generic(node)


def _value_info(node: g.Binding) -> si.StructInfo:
    return node.struct_info if isinstance(node, g.MatchCast) else node.value.struct_info


def used_vars(node: Node) -> Iterator[g.GraphVar]:
    """Yield the variables that an expression uses, including those in the branches of an `If`."""
    return (part for part in walk(node) if isinstance(part, g.GraphVar))


def leaves_of(value: Node) -> list[Node]:
    """Return the leaves of a value, in order."""
    if isinstance(value, g.Tuple):
        return [leaf for part in value.elements for leaf in leaves_of(part)]
    return [value]


class BuiltTuples:
    """The tuples to which variables are bound, recorded while the bindings are visited in order."""

    def __init__(self) -> None:
        self._tuples: dict[g.GraphVar, g.Tuple] = {}

    def bind(self, var: g.GraphVar, value: g.GraphExpr) -> None:
        """Record the value of a variable if it is a tuple or an alias of a tuple."""
        built = self.of(value)
        if built is not None:
            self._tuples[var] = built

    def of(self, value: g.GraphExpr) -> g.Tuple | None:
        """Return the tuple to which a value refers; None if its fields are unknown."""
        if isinstance(value, g.GraphVar):
            return self._tuples.get(value)
        return value if isinstance(value, g.Tuple) else None

    def field(self, item: g.TupleGetItem) -> g.GraphExpr | None:
        """Return the value of a field of a tuple; None if it is unknown."""
        built = self.of(item.tuple_value)
        return None if built is None else built.elements[item.index]
