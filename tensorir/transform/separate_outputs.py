"""A call with several results becomes one call for each."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.function import IRModule, PrimFunc
from tensorir.memory.op_pattern import OpPattern, op_pattern
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, GlobalVar, Var
from tensorir.nodes.ops import TRUE
from tensorir.relax import expr as g
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.calls import CALL_TIR, call_tir, destination_passing
from tensorir.relax.function import Function
from tensorir.relax.struct_info import TupleStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.transform.fuse_ops import FUSED_OPERATORS, operators_of
from tensorir.transform.pass_context import ModulePass, PassContext
from tensorir.transform.rebuild_graph import rewritten_graphs


class SeparateOutputs(ModulePass):
    """Computes each result of a call by a separate function, which can be fused with its user.

    Before: lv = R.call_tir(split, (x,), [R.Tensor((2,), "float32"), R.Tensor((2,), "float32")])
            a = lv[0]; b = lv[1]
    After:  a = R.call_tir(split_0, (x,), R.Tensor((2,), "float32"))
            b = R.call_tir(split_1, (x,), R.Tensor((2,), "float32"))

    The function must move or transform single elements (`OpPattern.INJECTIVE` at most), and no
    output may depend on another one.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with a call for each output."""
        return rewritten_graphs(
            mod, lambda builder: _Separating(mod, builder), _has_several_results
        )


def _has_several_results(func: Function) -> bool:
    calls = (node for node in walk(func.body) if isinstance(node, g.GraphCall))
    return any(
        call.op is CALL_TIR and isinstance(call.struct_info, TupleStructInfo) for call in calls
    )


class _Part:
    """The function of one output."""

    def __init__(self, gvar: GlobalVar, inputs: Sequence[int], scalars: Sequence[int]) -> None:
        self.gvar = gvar
        self.inputs = inputs
        self.scalars = scalars


class _Separating(GraphRewriter):
    def __init__(self, mod: IRModule, builder: BlockBuilder) -> None:
        super().__init__()
        self._mod = mod
        self._builder = builder
        self._parts: dict[str, Sequence[_Part] | None] = {}

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the calls for each output and their tuple, or the binding itself."""
        rebuilt = super().binding(node)
        (new,) = rebuilt
        call = destination_passing(new.value)
        if call is None or not isinstance(new, g.VarBinding) or not call.gives_tuple:
            return rebuilt
        value = new.value
        if not isinstance(value, g.GraphCall) or value.op is not CALL_TIR:
            return rebuilt
        assert isinstance(call.callee, GlobalVar)
        parts = self._parts_of(call.callee.name, len(call.args), len(call.outputs))
        if parts is None:
            return rebuilt
        kind = self.inner if isinstance(new.var, g.DataflowVar) else type(new.var)
        bindings: list[g.Binding] = []
        for k, (part, info) in enumerate(zip(parts, call.outputs, strict=True)):
            sizes = [call.scalars[j] for j in part.scalars]
            one = call_tir(part.gvar, [call.args[j] for j in part.inputs], info, sizes or None)
            bindings.append(g.VarBinding(kind(f"{new.var.name}_{k}", info), one))
        return [*bindings, new.with_(value=g.Tuple(binding.var for binding in bindings))]

    def _parts_of(self, name: str, inputs: int, outputs: int) -> Sequence[_Part] | None:
        """Return the functions of the outputs of a function, None if it cannot be separated."""
        if name not in self._parts:
            func = self._mod.functions.get(name)
            self._parts[name] = (
                self._made(name, func, inputs, outputs) if isinstance(func, PrimFunc) else None
            )
        return self._parts[name]

    def _made(self, name: str, func: PrimFunc, inputs: int, outputs: int) -> list[_Part] | None:
        if outputs < 2 or op_pattern(func) > OpPattern.INJECTIVE:
            return None
        assert isinstance(func.body, s.BlockRealize)
        root = func.body.block
        nests = root.body.seq if isinstance(root.body, s.SeqStmt) else (root.body,)
        if len(nests) != outputs or root.alloc_buffers:
            return None
        given, results = func.params[:inputs], func.params[inputs : inputs + outputs]
        read_only = {func.buffer_map[param].data for param in given}
        found: dict[Var, s.Stmt] = {}
        for nest in nests:
            nodes = list(walk(nest))
            stored = {n.buffer for n in nodes if isinstance(n, s.BufferStore)}
            loaded = {n.buffer.data for n in nodes if isinstance(n, BufferLoad)}
            if len(stored) != 1 or not loaded <= read_only:
                return None
            (buffer,) = stored
            found[buffer.data] = nest
        if any(func.buffer_map[param].data not in found for param in results):
            return None
        return [
            self._part(name, k, func, found[func.buffer_map[result].data], inputs)
            for k, result in enumerate(results)
        ]

    def _part(self, name: str, number: int, func: PrimFunc, nest: s.Stmt, inputs: int) -> _Part:
        """Return the function of an output, which one loop nest computes."""
        result = func.params[inputs + number]
        operators = operators_of(func, name, self._mod)
        loaded = {n.buffer for n in walk(nest) if isinstance(n, BufferLoad)}
        kept = [k for k in range(inputs) if func.buffer_map[func.params[k]] in loaded]
        tensors = [*(func.params[k] for k in kept), result]
        shapes = [n for param in tensors for n in func.buffer_map[param].shape]
        used = {*collect_vars(nest), *(var for n in shapes for var in collect_vars(n))}
        scalars = [param for param in func.params if param not in func.buffer_map]
        sizes = [k for k, param in enumerate(scalars) if param in used]
        assert isinstance(func.body, s.BlockRealize)
        root = func.body.block.with_(body=nest)
        made = PrimFunc(
            [*tensors, *(scalars[k] for k in sizes)],
            s.BlockRealize((), TRUE, root),
            buffer_map={param: func.buffer_map[param] for param in tensors},
            attrs={**func.attrs.without("global_symbol"), FUSED_OPERATORS: operators},
        )
        gvar = self._builder.add_func(renew_defs(made), f"{name}_{number}")
        return _Part(gvar, kept, sizes)
