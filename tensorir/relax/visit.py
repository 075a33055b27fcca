"""Walking and rebuilding graph functions: their rows in the tables of `tensorir.rewriting.visit`.

`GraphRewriter` adds what bindings need: a variable whose value changed its struct info is replaced,
and a binding may become several or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from tensorir.arith import Analyzer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax import struct_info as si
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.relax.relations import is_base_of
from tensorir.rewriting.visit import Rewriter, register_node

N = TypeVar("N", bound=Node)


def _given(*nodes: Node | None) -> tuple[Node, ...]:
    return tuple(n for n in nodes if n is not None)


def _leaf(_: Rewriter, node: N) -> N:
    return node


# ------------------------------------------------------------------------------------ struct infos


def _prim_info(r: Rewriter, n: si.PrimStructInfo) -> si.StructInfo:
    value = r.maybe(n.value)
    return n if value is n.value else si.PrimStructInfo(n.dtype, value)


def _shape_info(r: Rewriter, n: si.ShapeStructInfo) -> si.StructInfo:
    values = None if n.values is None else r.each(n.values)
    return n if values is n.values else si.ShapeStructInfo(values, n.ndim)


def _tensor_info(r: Rewriter, n: si.TensorStructInfo) -> si.StructInfo:
    shape = None if n.shape is None else r.each(n.shape)
    return n if shape is n.shape else si.TensorStructInfo(shape, n.dtype, n.ndim)


def _tuple_info(r: Rewriter, n: si.TupleStructInfo) -> si.StructInfo:
    elements = r.each(n.elements)
    return n if elements is n.elements else si.TupleStructInfo(elements)


def _func_info(r: Rewriter, n: si.FuncStructInfo) -> si.StructInfo:
    params = None if n.params is None else r.each(n.params)
    ret = r(n.ret)
    same = params is n.params and ret is n.ret
    return n if same else si.FuncStructInfo(params, ret, n.purity)


# ------------------------------------------------------------------------------------- expressions


def _shape(r: Rewriter, n: g.ShapeExpr) -> g.GraphExpr:
    values = r.each(n.values)
    return n if values is n.values else g.ShapeExpr(values)


def _prim_value(r: Rewriter, n: g.PrimValue) -> g.GraphExpr:
    value = r(n.value)
    return n if value is n.value else g.PrimValue(value)


def _tuple(r: Rewriter, n: g.Tuple) -> g.GraphExpr:
    elements = r.each(n.elements)
    return n if elements is n.elements else g.Tuple(elements)


def _field(r: Rewriter, n: g.TupleGetItem) -> g.GraphExpr:
    whole = r(n.tuple_value)
    return n if whole is n.tuple_value else g.TupleGetItem(whole, n.index)


def _call(r: Rewriter, n: g.GraphCall) -> g.GraphExpr:
    op = r(n.op) if isinstance(n.op, g.GraphVar) else n.op
    args, sinfo_args, attrs = r.each(n.args), r.each(n.sinfo_args), r.value(n.attrs)
    info = r(n.struct_info)
    same = op is n.op and args is n.args and sinfo_args is n.sinfo_args and attrs is n.attrs
    if same and info is n.struct_info:
        return n
    # What a function gives was found where it was called; only operators are asked again.
    told = None if isinstance(op, Operator) else info
    return g.GraphCall(op, args, attrs, sinfo_args, told)


def _if(r: Rewriter, n: g.If) -> g.GraphExpr:
    cond, yes, no = r(n.cond), r(n.true_branch), r(n.false_branch)
    same = cond is n.cond and yes is n.true_branch and no is n.false_branch
    return n if same else g.If(cond, yes, no)


def _sequence(r: Rewriter, n: g.SeqExpr) -> g.GraphExpr:
    blocks = r.each(n.blocks)
    body = r(n.body)
    if blocks is n.blocks and body is n.body:
        return n
    return g.SeqExpr(merged_blocks(blocks), body)


def merged_blocks(blocks: Iterable[g.BindingBlock]) -> list[g.BindingBlock]:
    """Return blocks without empty ones, neighbours of the same kind as one."""
    result: list[g.BindingBlock] = []
    for block in blocks:
        if not block.bindings:
            continue
        if result and type(result[-1]) is type(block):
            result[-1] = type(block)([*result[-1].bindings, *block.bindings])
        else:
            result.append(block)
    return result


# ---------------------------------------------------------------------------------------- bindings


def _var_binding(r: Rewriter, n: g.VarBinding) -> g.VarBinding:
    value = r(n.value)
    return n if value is n.value else g.VarBinding(n.var, value)


def _match_cast(r: Rewriter, n: g.MatchCast) -> g.MatchCast:
    value, info = r(n.value), r(n.struct_info)
    same = value is n.value and info is n.struct_info
    return n if same else g.MatchCast(n.var, value, info)


def _block(r: Rewriter, n: g.BindingBlock) -> g.BindingBlock:
    bindings = r.each(n.bindings)
    return n if bindings is n.bindings else type(n)(bindings)


def _function(r: Rewriter, n: Function) -> Function:
    params, body, ret = r.each(n.params), r(n.body), r(n.ret_struct_info)
    same = params is n.params and body is n.body and ret is n.ret_struct_info
    return n if same else Function(params, body, ret, n.is_pure, n.attrs)


for _kind in (si.ObjectStructInfo, g.ExternFunc, g.Constant, g.StringValue, g.DataTypeValue,
              g.GraphVar, g.DataflowVar):  # fmt: skip
    register_node(_kind, lambda n: (), _leaf)
register_node(si.PrimStructInfo, lambda n: _given(n.value), _prim_info)
register_node(si.ShapeStructInfo, lambda n: n.values or (), _shape_info)
register_node(si.TensorStructInfo, lambda n: n.shape or (), _tensor_info)
register_node(si.TupleStructInfo, lambda n: n.elements, _tuple_info)
register_node(si.FuncStructInfo, lambda n: (*(n.params or ()), n.ret), _func_info)
register_node(g.ShapeExpr, lambda n: n.values, _shape)
register_node(g.PrimValue, lambda n: (n.value,), _prim_value)
register_node(g.Tuple, lambda n: n.elements, _tuple)
register_node(g.TupleGetItem, lambda n: (n.tuple_value,), _field)
register_node(
    g.GraphCall,
    lambda n: (*((n.op,) if isinstance(n.op, Node) else ()), *n.args, *n.sinfo_args),
    _call,
)
register_node(g.If, lambda n: (n.cond, n.true_branch, n.false_branch), _if)
register_node(g.SeqExpr, lambda n: (*n.blocks, n.body), _sequence)
register_node(g.VarBinding, lambda n: (n.value,), _var_binding)
register_node(g.MatchCast, lambda n: (n.value, n.struct_info), _match_cast)
register_node(g.BindingBlock, lambda n: n.bindings, _block)
register_node(g.DataflowBlock, lambda n: n.bindings, _block)
register_node(Function, lambda n: (n.body,), _function)


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
