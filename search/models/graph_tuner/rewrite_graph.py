"""The rewriting of a graph function to the chosen layouts of its kernels and tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from search.models.graph_tuner.candidates import Candidate
from search.models.graph_tuner.kernel_graph import (
    KernelCall,
    KernelGraph,
    Layout,
    Tensor,
    physical_shape,
)
from search.models.graph_tuner.layout_choice import Choice, slot_layout
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.building import UniqueNames
from tensorir.relax.calls import call_tir
from tensorir.relax.function import Function
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.fresh_copy import renew_defs

TransformKernel: TypeAlias = Callable[[Tensor, Layout, Layout], PrimFunc]


class GraphRewriting:
    """Adds the kernels that graph functions need to a module, and rewrites the functions."""

    def __init__(self, mod: IRModule, transform_kernel: TransformKernel) -> None:
        self.mod = mod
        """The module to which kernels are added."""
        self._transform_kernel = transform_kernel
        self._names = UniqueNames(mod)
        self._kernels: dict[tuple[str, str], str] = {}
        """The names of kernels by prefix and text."""

    def rewrite(self, func: Function, graph: KernelGraph, choice: Choice) -> Function:
        """Return a graph function with the chosen kernels and layouts.

        Its parameters and results stay row-major, and all values that are not of kernels.
        """
        return _Rewriter(self, graph, choice).function(func)

    def kernel(self, call: KernelCall, chosen: Candidate) -> str:
        """Add a chosen form of a kernel to the module, and return its name.

        A form with row-major parameters replaces the kernel under its name.
        """
        if any(layout is not None for layout in chosen.layouts):
            return self._name_kernel(f"{call.name}_blocked", chosen.func)
        self.mod[call.name] = chosen.func
        return call.name

    def transform(self, tensor: Tensor, source: Layout, destination: Layout) -> str:
        """Return the name of the kernel that transforms a tensor to another layout."""
        return self._name_kernel(
            "layout_transform", self._transform_kernel(tensor, source, destination)
        )

    def _name_kernel(self, prefix: str, func: PrimFunc) -> str:
        key = (prefix, func.without_attr("global_symbol").script())
        name = self._kernels.get(key)
        if name is None:
            name = self._kernels[key] = self._names.unique(prefix)
            symbol = {"global_symbol": name} if "global_symbol" in func.attrs else {}
            self.mod[name] = renew_defs(func.with_attr(symbol) if symbol else func)
        return name


class _Rewriter(GraphRewriter):
    def __init__(self, rewriting: GraphRewriting, graph: KernelGraph, choice: Choice) -> None:
        super().__init__()
        self._rewriting = rewriting
        self._graph = graph
        self._choice = choice
        self._held: dict[tuple[g.GraphVar, Layout], g.GraphVar] = {}
        """The variable of a tensor in a layout."""

    def function(self, func: Function) -> Function:
        """Return the function, which begins with the transforms of its parameters."""
        first = [binding for param in func.params for binding in self._transforms(param)]
        body = self(func.body)
        if first:
            body = g.SeqExpr([g.BindingBlock(first), *body.blocks], body.body)
        return func if body is func.body else func.with_(body=body)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return a binding, followed by the transforms of its value."""
        call = self._graph.calls.get(node.var)
        made = super().binding(node) if call is None else [self._call(node, call)]
        return [*made, *self._transforms(node.var)]

    def _call(self, node: g.Binding, call: KernelCall) -> g.Binding:
        """Return the call of the chosen kernel."""
        chosen = self._choice.kernels[call.var].candidate
        name = self._rewriting.kernel(call, chosen)
        args = [self(arg) for arg in call.args]
        for position in call.inputs:
            layout = slot_layout(call, chosen, position)
            args[position] = self._held.get((call.argument(position), layout), args[position])
        made = slot_layout(call, chosen, call.output)
        assert isinstance(node.value, g.GraphCall)
        if made is None:
            operands: list[g.GraphExpr | GlobalVar] = [GlobalVar(name), g.Tuple(args)]
            value = g.GraphCall(node.value.op, operands, node.value.attrs, node.value.sinfo_args)
            return g.VarBinding(node.var, value)
        tensor = self._graph.tensors[call.var]
        held = self._hold(tensor, made)
        return g.VarBinding(held, call_tir(GlobalVar(name), args, held.struct_info))

    def _hold(self, tensor: Tensor, layout: Layout) -> g.GraphVar:
        """Return the variable for a tensor in a layout, visible where the tensor itself is."""
        if layout is None:
            return tensor.var
        shape = physical_shape(layout, tensor.shape)
        kind = g.DataflowVar if isinstance(tensor.var, g.DataflowVar) else g.GraphVar
        held = kind(f"{tensor.var.name}_blocked", TensorStructInfo(shape, tensor.dtype))
        self._held[tensor.var, layout] = held
        return held

    def _transforms(self, var: g.GraphVar) -> list[g.Binding]:
        """Return bindings that transform a tensor to the other layouts of its readers."""
        tensor = self._graph.tensors.get(var)
        if tensor is None:
            return []
        made = self._choice.made_in(tensor)
        source = self.replaced.get(var, var) if made is None else self._held[var, made]
        bindings: list[g.Binding] = []
        for layout in self._choice.available[var]:
            if layout != made:
                name = self._rewriting.transform(tensor, made, layout)
                held = self._hold(tensor, layout)
                value = call_tir(GlobalVar(name), [source], held.struct_info)
                bindings.append(g.VarBinding(held, value))
        return bindings
