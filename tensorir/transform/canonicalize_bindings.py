"""One name for each value."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.function import IRModule
from tensorir.relax import expr as g
from tensorir.relax.function import Function
from tensorir.relax.relations import is_base_of
from tensorir.relax.visit import BuiltTuples, GraphRewriter, used_vars
from tensorir.transform.pass_context import FunctionPass, PassContext


class CanonicalizeBindings(FunctionPass):
    """Replaces uses of aliases, fields and casts by the value itself.

    Before: t = (a, b); x = t[0]; y = x; z = R.match_cast(y, R.Tensor((4,), "float32")); g(z)
    After:  t = (a, b); g(a)

    Before: t = (a, b); return t
    After:  t = (a, b); return (a, b)

    The pass removes aliases, fields of tuples that the function builds, and a `match_cast` that
    proves nothing new. A local value of a dataflow block that is an output under another name gets
    that name directly.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Return the function without aliases of values."""
        return _Canonical()(func)


class _Canonical(GraphRewriter):
    def __init__(self) -> None:
        super().__init__()
        self._tuples = BuiltTuples()
        self._local: set[g.GraphVar] = set()
        """Dataflow variables of the current block."""

    def rewrite_Function(self, node: Function) -> Function:  # noqa: N802
        """Rebuild a function; a returned tuple is written as its fields."""
        body = self(node.body)
        built = self._tuples.of(body.body)
        if built is not None and not any(isinstance(v, g.DataflowVar) for v in used_vars(built)):
            body = body if built is body.body else g.SeqExpr(body.blocks, built)
        return node.changed(body=body)

    def rewrite_DataflowBlock(self, node: g.DataflowBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block whose outputs are computed under the names of the outputs."""
        renamed = _bind_outputs_directly(node)
        self._local = {b.var for b in renamed.bindings if isinstance(b.var, g.DataflowVar)}
        result = super().rewrite_BindingBlock(renamed)
        self._local = set()
        # A second time, because fields of tuples were replaced by local variables.
        return _bind_outputs_directly(result)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return a binding; nothing for an alias of a value."""
        rebuilt = super().binding(node)
        (new,) = rebuilt
        same = self._same_value(new.value)
        stated = new.struct_info if isinstance(new, g.MatchCast) else new.var.struct_info
        if same is not None and is_base_of(stated, same.struct_info):
            locals_of = [v for v in used_vars(same) if isinstance(v, g.DataflowVar)]
            if self._local.issuperset(locals_of):
                if not locals_of or isinstance(node.var, g.DataflowVar):
                    self.replaced[node.var] = same
                    return ()
                if isinstance(
                    new, g.VarBinding
                ):  # an output is a field of a tuple: use the element
                    return [new.with_(value=same)]
        if isinstance(new, g.VarBinding):
            self._tuples.bind(new.var, new.value)
        return rebuilt

    def _same_value(self, value: g.GraphExpr) -> g.GraphExpr | None:
        """Return a leaf that is equal to the value; None if there is none."""
        if isinstance(value, g.TupleGetItem):
            return self._tuples.field(value)
        return value if isinstance(value, (g.GraphVar, g.Constant)) else None


def _bind_outputs_directly(block: g.BindingBlock) -> g.BindingBlock:
    """Return a block without outputs that are aliases of its variables.

    Before: lv = f(x); gv = lv
    After:  gv = f(x)
    """
    outputs: dict[g.GraphVar, g.GraphVar] = {}
    dropped: set[g.Binding] = set()
    defined = {b.var: b for b in block.bindings}
    for binding in block.bindings:
        local = binding.value
        if (
            isinstance(binding, g.VarBinding)
            and isinstance(local, g.DataflowVar)
            and not isinstance(binding.var, g.DataflowVar)
            and local in defined
            and local not in outputs
            and is_base_of(binding.var.struct_info, local.struct_info)
            and is_base_of(local.struct_info, binding.var.struct_info)
        ):
            outputs[local] = binding.var
            dropped.add(binding)
    if not outputs:
        return block
    return GraphRewriter(outputs)(
        g.DataflowBlock(binding for binding in block.bindings if binding not in dropped)
    )
