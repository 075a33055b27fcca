"""Reshapes as views of the same memory, and views moved after element-wise calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.element_shape import for_shape
from tensorir.memory.reshaping import is_reshape
from tensorir.nodes.expr import GlobalVar, PrimExpr
from tensorir.relax import expr as g
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.calls import CALL_TIR, VIEW, call_tir, destination_passing, view
from tensorir.relax.function import Function
from tensorir.relax.struct_info import StructInfo, TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.visit import walk
from tensorir.transform.pass_context import ModulePass, PassContext, map_functions
from tensorir.transform.rebuild_graph import rewritten_graphs


class RewriteDataflowReshape(ModulePass):
    """Turns reshapes into views of the same memory, without a kernel.

    Before: lv = R.call_tir(reshape, (x,), out_sinfo=R.Tensor((2, 3), "float32"))
    After:  lv = R.memory.view(x, R.shape([2, 3]))

    The pass proves from its indices that a tensor function copies its only argument in row-major
    order: reshapes, squeezes, new dimensions, transposes of dimensions of extent 1. A view of a
    view becomes a view of the original tensor; a view with the tensor's own shape becomes the
    tensor.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with views."""
        known: dict[str, bool] = {}

        def reshapes(name: str) -> bool:
            if name not in known:
                func = mod.functions.get(name)
                known[name] = isinstance(func, PrimFunc) and is_reshape(func)
            return known[name]

        return map_functions(mod, lambda func: _Views(reshapes)(func))


class _Views(GraphRewriter):
    def __init__(self, reshapes: Callable[[str], bool]) -> None:
        super().__init__()
        self._reshapes = reshapes
        self._sources: dict[g.GraphVar, g.GraphExpr] = {}
        """The tensors that variables view."""

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block; views of its local variables are dropped after it."""
        result = super().rewrite_BindingBlock(node)
        for binding in node.bindings:
            if isinstance(self._sources.get(binding.var), g.DataflowVar):
                del self._sources[binding.var]
        return result

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return a binding; a call that reshapes becomes a view."""
        (new,) = super().binding(node)
        if not isinstance(new, g.VarBinding):
            return (new,)
        created = self._view(new.value)
        if created is None:
            return (new,)
        source, shape = created
        if same_shape(source.struct_info, new.value.struct_info):
            return self.alias(new, source)
        self._sources[new.var] = source
        value = new.value
        if isinstance(value, g.GraphCall) and value.op is VIEW and value.args[0] is source:
            return (new,)
        return (new.with_(value=view(source, shape)),)

    def _view(self, value: g.GraphExpr) -> tuple[g.GraphExpr, Sequence[PrimExpr]] | None:
        """Return the tensor of a view and its shape; None for other values."""
        if not isinstance(value, g.GraphCall):
            return None
        if value.op is VIEW:
            tensor = value.args[0]
            assert isinstance(tensor, g.GraphExpr)
        else:
            call = destination_passing(value)
            if call is None or value.op is not CALL_TIR or len(call.args) != 1:
                return None
            if not isinstance(call.callee, GlobalVar) or not self._reshapes(call.callee.name):
                return None
            tensor = call.args[0]
        info, given = value.struct_info, tensor.struct_info
        assert isinstance(info, TensorStructInfo)
        assert info.shape is not None
        if not isinstance(given, TensorStructInfo) or given.shape is None or given.dtype is None:
            return None
        source = self._sources.get(tensor, tensor) if isinstance(tensor, g.GraphVar) else tensor
        return source, info.shape


def same_shape(a: StructInfo, b: StructInfo) -> bool:
    """Return True if two tensors provably have the same shape."""
    if not isinstance(a, TensorStructInfo) or not isinstance(b, TensorStructInfo):
        return False
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return False
    return all(map(Analyzer().can_prove_equal, a.shape, b.shape))


class SinkViews(ModulePass):
    """Moves views after element-wise calls, so that these are fused with earlier calls.

    Before: a = R.call_tir(matmul, (x, w), R.Tensor((6, 8), "float32"))
            b = R.memory.view(a, R.shape([2, 3, 8]))
            c = R.call_tir(exp, (b,), R.Tensor((2, 3, 8), "float32"))
    After:  a = R.call_tir(matmul, (x, w), R.Tensor((6, 8), "float32"))
            b = R.call_tir(exp1, (a,), R.Tensor((6, 8), "float32"))
            c = R.memory.view(b, R.shape([2, 3, 8]))

    Such views occur in models where a layer expects matrices and the next function expects more
    dimensions. Only views of results of tensor functions are moved. Other arguments of the call get
    a view of the new shape. Shapes must be constant.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with views after element-wise calls."""
        return rewritten_graphs(mod, lambda builder: _Sinking(mod, builder), _has_views)


def _has_views(func: Function) -> bool:
    nodes = walk(func.body)
    return any(isinstance(node, g.GraphCall) and node.op is VIEW for node in nodes)


class _Sinking(GraphRewriter):
    def __init__(self, mod: IRModule, builder: BlockBuilder) -> None:
        super().__init__()
        self._mod = mod
        self._builder = builder
        self._sources: dict[g.GraphVar, g.GraphVar] = {}
        """For each view in the block, the result of a tensor function that it views."""
        self._made: set[g.GraphVar] = set()
        """Results of tensor functions in the block."""
        self._functions: dict[tuple[str, tuple[int, ...]], tuple[GlobalVar, PrimFunc] | None] = {}

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block; views are moved within it."""
        outer = self._sources, self._made
        self._sources, self._made = {}, set()
        result = super().rewrite_BindingBlock(node)
        self._sources, self._made = outer
        return result

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the bindings that replace a binding."""
        rebuilt = super().binding(node)
        (new,) = rebuilt
        if not isinstance(new, g.VarBinding) or not isinstance(new.value, g.GraphCall):
            return rebuilt
        call = new.value
        if call.op is VIEW:
            source = call.args[0]
            source = self._sources.get(source, source) if isinstance(source, g.GraphVar) else source
            if not isinstance(source, g.GraphVar) or source not in self._made:
                return rebuilt
            if same_shape(source.struct_info, call.struct_info):
                return self.alias(new, source)
            self._sources[new.var] = source
            if source is call.args[0]:
                return rebuilt
            return (new.with_(value=g.GraphCall(VIEW, [source, call.args[1]])),)
        if call.op is not CALL_TIR:
            return rebuilt
        sunk = self._sink_view(new.var, call)
        if sunk is not None:
            return sunk
        self._made.add(new.var)
        return rebuilt

    def _sink_view(self, var: g.GraphVar, call: g.GraphCall) -> Sequence[g.Binding] | None:
        """Return the bindings of an element-wise call before a view; None if impossible."""
        parts = destination_passing(call)
        assert parts is not None
        shape = parts.outputs[0].static_shape
        if parts.gives_tuple or parts.scalars or shape is None:
            return None
        sources = [
            self._sources[arg]
            for arg in parts.args
            if arg in self._sources and same_shape(arg.struct_info, parts.outputs[0])
        ]
        if not sources or not isinstance(parts.callee, GlobalVar):
            return None
        info = g.tensor_info(sources[0])
        other = info.static_shape
        found = None if other is None else self._function(parts.callee.name, other)
        if found is None or info.shape is None:
            return None
        gvar, func = found
        bindings: list[g.Binding] = []
        args: list[g.GraphExpr] = []
        for param, arg in zip(func.params, parts.args, strict=False):
            args.append(self._argument_in_shape(arg, func.buffer_map[param].shape, bindings))
        result = TensorStructInfo(info.shape, parts.outputs[0].dtype)
        inner = self.inner(var.name, result)
        bindings.append(g.VarBinding(inner, call_tir(gvar, args, result)))
        self._made.add(inner)
        self._sources[var] = inner
        return [*bindings, g.VarBinding(var, view(inner, shape))]

    def _argument_in_shape(
        self, value: g.GraphExpr, shape: Sequence[PrimExpr], bindings: list[g.Binding]
    ) -> g.GraphExpr:
        """Return an argument with this shape: the argument itself, or a view of it."""
        wanted = TensorStructInfo(shape, None).static_shape
        source = self._sources.get(value, value) if isinstance(value, g.GraphVar) else value
        for known in (value, source):
            info = known.struct_info
            if isinstance(info, TensorStructInfo) and info.static_shape == wanted:
                return known
        assert wanted is not None
        seen = self.inner("seen", view(source, wanted).struct_info)
        bindings.append(g.VarBinding(seen, view(source, wanted)))
        return seen

    def _function(self, name: str, shape: tuple[int, ...]) -> tuple[GlobalVar, PrimFunc] | None:
        """Return a tensor function for another shape; None if impossible."""
        if (name, shape) not in self._functions:
            func = self._mod.functions.get(name)
            created = None
            if isinstance(func, PrimFunc):
                created = for_shape(func, TensorStructInfo(shape).shape or ())
            found = None if created is None else (self._builder.add_func(created, name), created)
            self._functions[name, shape] = found
        return self._functions[name, shape]
