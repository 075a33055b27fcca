"""Reshapes as views: calls that only change the shape of a tensor need no kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.reshaping import is_reshape
from tensorir.nodes.expr import GlobalVar, PrimExpr
from tensorir.relax import expr as g
from tensorir.relax.calls import CALL_TIR, VIEW, destination_passing, view
from tensorir.relax.struct_info import StructInfo, TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.transform.pass_context import ModulePass, PassContext, map_functions


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
