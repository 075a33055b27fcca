"""Removal of inverse transposes, including those with element-wise calls between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tensorir import te
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.element_shape import for_order, has_shape, with_parameters_in_order
from tensorir.memory.op_pattern import OpPattern, op_pattern
from tensorir.memory.reshaping import permutation
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.calls import CALL_TIR, DestinationPassing, call_tir, destination_passing
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.te.tensor import Tensor
from tensorir.transform.pass_context import ModulePass, PassContext
from tensorir.transform.rebuild_graph import rewritten_graphs


class CombineTransposes(ModulePass):
    """Merges consecutive transposes, and removes transposes that are inverse to each other.

    Before: a = R.call_tir(transpose, (x,), R.Tensor((8, 4), "float32"))
            b = R.call_tir(exp, (a,), R.Tensor((8, 4), "float32"))
            c = R.call_tir(transpose1, (b,), R.Tensor((4, 8), "float32"))
    After:  c = R.call_tir(exp1, (x,), R.Tensor((4, 8), "float32"))

    An element-wise call on transposed tensors becomes the transpose of a call on the original
    tensors, if every non-constant argument of its shape is transposed in the same way.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with fewer transposes."""
        orders = {name: permutation(func) for name, func in mod.prim_funcs().items()}
        if all(axes is None for axes in orders.values()):
            return mod
        return rewritten_graphs(mod, lambda builder: _Combining(mod, builder, orders))


class _Transposed(NamedTuple):
    """The value of a variable: a tensor with permuted dimensions, as for `numpy.transpose`."""

    source: g.GraphVar
    axes: tuple[int, ...]


class _Combining(GraphRewriter):
    def __init__(
        self, mod: IRModule, builder: BlockBuilder, orders: dict[str, tuple[int, ...] | None]
    ) -> None:
        super().__init__()
        self._mod = mod
        self._builder = builder
        self._orders = orders
        self._known: dict[g.GraphVar, _Transposed] = {}
        self._functions: dict[tuple[str, tuple[Any, ...]], GlobalVar | None] = {}

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block; transposes are combined within it."""
        outer, self._known = self._known, {}
        result = super().rewrite_BindingBlock(node)
        self._known = outer
        return result

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the bindings that replace a binding."""
        rebuilt = super().binding(node)
        (new,) = rebuilt
        call = destination_passing(new.value)
        if call is None or not isinstance(new, g.VarBinding) or call.gives_tuple:
            return rebuilt
        if new.value.op is not CALL_TIR or not isinstance(call.callee, GlobalVar):  # type: ignore[attr-defined]
            return rebuilt
        axes = self._orders.get(call.callee.name)
        if axes is not None:
            return self._transpose(new, call.args[0], axes)
        name = call.callee.name
        return self._element_wise(new, call, name) or self._opaque(new, call, name) or rebuilt

    def _transpose(
        self, node: g.VarBinding, source: g.GraphExpr, axes: tuple[int, ...]
    ) -> Sequence[g.Binding]:
        """Return the binding of a transpose; its source is the tensor before earlier transposes."""
        known = self._known.get(source) if isinstance(source, g.GraphVar) else None
        if known is None:
            if isinstance(source, g.GraphVar):
                self._known[node.var] = _Transposed(source, axes)
            return (node,)
        return self._transposed(node, known.source, tuple(known.axes[axis] for axis in axes))

    def _transposed(
        self, node: g.VarBinding, source: g.GraphVar, axes: tuple[int, ...]
    ) -> Sequence[g.Binding]:
        if axes == tuple(range(len(axes))):
            return self.alias(node, source)
        self._known[node.var] = _Transposed(source, axes)
        call = self._builder.call_te(_formula(axes), source, primfunc_name_hint="transpose")
        return (node.with_(value=call),)

    def _element_wise(
        self, node: g.VarBinding, call: DestinationPassing, name: str
    ) -> Sequence[g.Binding] | None:
        """Return the bindings of an element-wise call on the tensors before transposes."""
        found = [self._known.get(arg) for arg in call.args if isinstance(arg, g.GraphVar)]
        orders = {known.axes for known in found if known is not None}
        if len(orders) != 1 or call.scalars:
            return None
        (axes,) = orders
        func = self._mod.functions.get(name)
        if not isinstance(func, PrimFunc) or len(axes) != call.outputs[0].ndim:
            return None
        args: list[g.GraphExpr] = []
        for param, arg in zip(func.params, call.args, strict=False):
            is_whole = _is_whole(func, param)
            if not is_whole:
                args.append(arg)
            elif isinstance(arg, g.Constant):
                args.append(arg.transposed([axes.index(k) for k in range(len(axes))]))
            elif isinstance(arg, g.GraphVar) and arg in self._known:
                args.append(self._known[arg].source)
            else:
                return None
        gvar = self._function(name, func, axes)
        if gvar is None:
            return None
        return self._in_order(node, gvar, args, call.outputs[0], axes)

    def _opaque(
        self, node: g.VarBinding, call: DestinationPassing, name: str
    ) -> Sequence[g.Binding] | None:
        """Return the bindings of an opaque call on the tensors before transposes."""
        func = self._mod.functions.get(name)
        if call.scalars or not isinstance(func, PrimFunc):
            return None
        args, orders = list(call.args), []
        for k, arg in enumerate(call.args):
            known = self._known.get(arg) if isinstance(arg, g.GraphVar) else None
            stays = known is not None and known.axes[-1] == len(known.axes) - 1
            orders.append(known.axes if known is not None and stays else None)
            if known is not None and stays:
                args[k] = known.source
        result, first = call.outputs[0], orders[0] if orders else None
        axes = first if first is not None and len(first) == result.ndim else None
        gvar = self._reordered(name, func, (*orders, axes)) if any(orders) else None
        if gvar is None:
            return None
        if axes is None:
            return (node.with_(value=call_tir(gvar, args, result)),)
        return self._in_order(node, gvar, args, result, axes)

    def _in_order(
        self,
        node: g.VarBinding,
        gvar: GlobalVar,
        args: Sequence[g.GraphExpr],
        result: TensorStructInfo,
        axes: tuple[int, ...],
    ) -> Sequence[g.Binding]:
        """Return a call whose result is in the order before a transpose, and the transpose."""
        assert result.shape is not None
        shape = [result.shape[axes.index(k)] for k in range(len(axes))]
        made = TensorStructInfo(shape, result.dtype)
        inner = self.inner(node.var.name, made)
        first = g.VarBinding(inner, call_tir(gvar, args, made))
        return [first, *self._transposed(node, inner, axes)]

    def _reordered(
        self, name: str, func: PrimFunc, orders: tuple[tuple[int, ...] | None, ...]
    ) -> GlobalVar | None:
        """Return an opaque function with parameters in other orders, None if it cannot be."""
        if (name, orders) not in self._functions:
            wanted = {p: o for p, o in zip(func.params, orders, strict=False) if o is not None}
            is_opaque = op_pattern(func) is OpPattern.OPAQUE
            made = with_parameters_in_order(func, wanted) if is_opaque else None
            self._functions[name, orders] = (
                None if made is None else self._builder.add_func(made, name)
            )
        return self._functions[name, orders]

    def _function(self, name: str, func: PrimFunc, axes: tuple[int, ...]) -> GlobalVar | None:
        """Return an element-wise function for another order of dimensions; None if impossible."""
        if (name, axes) not in self._functions:
            created = for_order(func, axes)
            self._functions[name, axes] = (
                None if created is None else self._builder.add_func(created, name)
            )
        return self._functions[name, axes]


def _is_whole(func: PrimFunc, param: object) -> bool:
    """Return True if a parameter has the shape of the result."""
    buffer = func.buffer_map[param]  # type: ignore[index]
    result = func.buffer_map[func.params[-1]]
    return has_shape(buffer, result.shape)


def _formula(axes: Sequence[int]) -> Callable[[Tensor], Tensor]:
    places = [axes.index(k) for k in range(len(axes))]

    def transpose(x: Tensor) -> Tensor:
        shape = [x.shape[axis] for axis in axes]
        return te.compute(shape, lambda *i: x[tuple(i[k] for k in places)], name="T_transpose")

    return transpose
