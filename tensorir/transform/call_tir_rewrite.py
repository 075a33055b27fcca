"""Rewriting of calls as values to explicit memory: outputs are allocated and passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir.function import IRModule
from tensorir.nodes.expr import GlobalVar, Var
from tensorir.nodes.node import same_or_new
from tensorir.relax import expr as g
from tensorir.relax.calls import (
    FRESH,
    DestinationPassing,
    alloc_tensor,
    call_into,
    copy_into,
    destination_passing,
)
from tensorir.relax.function import Function
from tensorir.relax.struct_info import VOID, TensorStructInfo, TupleStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.transform.aliases import (
    Aliases,
    Memory,
    Owner,
    Places,
    arguments_handed_on,
    memories,
)
from tensorir.transform.bindings import live_after
from tensorir.transform.define_pass import FunctionPass
from tensorir.transform.pass_context import PassContext


class CallTIRRewrite(FunctionPass):
    """Makes the memory of graph functions explicit.

    Before: y = R.call_tir(f, (a, b), out_sinfo=R.Tensor((4,), "float32"))
    After:  y = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), ...)
            f(a, b, y)

    Blocks become plain ones. `call_tir_inplace` works on its argument where that is a tensor of the
    function that nothing needs afterwards, else on a copy. What a function returns lies in memory
    of its own: an argument, a constant, or a tensor that is returned twice is copied.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Return the function with explicit memory."""
        return _Lowering(func, arguments_handed_on(mod))(func)


class _Lowering(GraphRewriter):
    def __init__(self, func: Function, hands_on: Callable[[GlobalVar], bool]) -> None:
        super().__init__()
        self._live = live_after(func)
        self._aliases = Aliases(func, hands_on)

    def rewrite_Function(self, node: Function) -> Function:  # noqa: N802
        """Lower a function: its bindings, then its result."""
        body = self(node.body)
        extra: list[g.Binding] = []
        result = self._owned(node.body.body, body.body, extra, set())
        if extra:
            body = g.SeqExpr.rebuilt([*body.blocks, g.BindingBlock(extra)], result)
        return node.changed(body=body)

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Lower a block to a plain one."""
        lowered = super().rewrite_BindingBlock(node)
        if type(lowered) is g.BindingBlock:
            return lowered
        return g.BindingBlock(lowered.bindings)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the bindings that stand for one."""
        call = destination_passing(node.value)
        if call is not None:
            if isinstance(node, g.VarBinding):
                return self._call(node.var, call, self._live[node])
            called = g.GraphVar(node.var.name, node.value.struct_info)
            lowered = self._call(called, call, self._live[node])
            self._aliases.bind(node.var, self._aliases.of(called))
            var, value = self._plain(node.var), self(called)
            return [*lowered, g.MatchCast(var, value, self(node.struct_info))]
        rebuilt = self.generic(node)
        self._aliases.bind(node.var, self._aliases.of(node.value))
        return (rebuilt.changed(var=self._plain(node.var)),)

    def _plain(self, var: g.GraphVar) -> g.GraphVar:
        """Return the variable of a plain block for a variable."""
        if not isinstance(var, g.DataflowVar):
            return var
        plain = g.GraphVar(var.name, var.struct_info)
        self.replaced[var] = plain
        return plain

    def _call(
        self, var: g.GraphVar, call: DestinationPassing, live: frozenset[g.GraphVar]
    ) -> Sequence[g.Binding]:
        bindings: list[g.Binding] = []
        args = [self(arg) for arg in call.args]
        outputs: list[g.GraphExpr] = []
        own: list[g.GraphExpr] = []
        places: list[Places] = []
        for k, (info, index) in enumerate(zip(call.outputs, call.inplace, strict=True)):
            if index != FRESH and self._may_overwrite(call, index, live):
                outputs.append(args[index])
                places.append(self._aliases.of(call.args[index]))
                continue
            if call.gives_tuple:
                output = g.GraphVar(f"{var.name}_{k}", info)
            else:
                output = self._plain(var)
            bindings.append(_allocation(output, info))
            if index == FRESH:
                own.append(output)
            else:
                bindings.append(_step(copy_into(args[index], output)))
                args[index] = output
            outputs.append(output)
            places.append(frozenset({Memory(Owner.FUNCTION)}))
        scalars = [self(n) for n in call.scalars]
        bindings.append(_step(call_into(call.callee, args, own, scalars)))
        if call.gives_tuple:
            bindings.append(g.VarBinding(self._plain(var), g.Tuple(outputs)))
            self._aliases.bind(var, tuple(places))
        else:
            if outputs[0] is not var:
                self.replaced[var] = outputs[0]
            self._aliases.bind(var, places[0])
        return bindings

    def _may_overwrite(
        self, call: DestinationPassing, index: int, live: frozenset[g.GraphVar]
    ) -> bool:
        """Say whether nothing needs an argument of a call afterwards, or in another place of it."""
        aliases = self._aliases
        target = set(memories(aliases.of(call.args[index])))
        others = (arg for k, arg in enumerate(call.args) if k != index)
        return (
            bool(target)
            and all(memory.owner is Owner.FUNCTION for memory in target)
            and target.isdisjoint(aliases.kept)
            and not any(var in live for memory in target for var in aliases.holders[memory])
            and target.isdisjoint(memory for arg in others for memory in memories(aliases.of(arg)))
        )

    def _owned(
        self,
        old: g.GraphExpr,
        new: g.GraphExpr,
        extra: list[g.Binding],
        returned: set[Memory],
    ) -> g.GraphExpr:
        """Return a result in memory of its own: `new`, or copies that `extra` makes.

        `old` is the result before lowering, `returned` what other results lie in.
        """
        if isinstance(old, g.Tuple) and isinstance(new, g.Tuple):
            pairs = zip(old.elements, new.elements, strict=True)
            fields = [self._owned(a, b, extra, returned) for a, b in pairs]
            return new.changed(elements=same_or_new(new.elements, fields))
        places = self._aliases.of(old)
        if _are_own(places, set(returned)):
            returned.update(memories(places))
            return new
        info = old.struct_info
        if isinstance(info, TupleStructInfo):
            fields = []
            for k, field in enumerate(info.elements):
                before, after = g.TupleGetItem(old, k), g.GraphVar(f"result_{k}", field)
                extra.append(g.VarBinding(after, g.TupleGetItem(new, k)))
                fields.append(self._owned(before, after, extra, returned))
            return g.Tuple(fields)
        return _copied(new, info, extra) if isinstance(info, TensorStructInfo) else new


def _are_own(places: Places, returned: set[Memory]) -> bool:
    """Say whether tensors lie in memory that the function may give away, and each in another."""
    if isinstance(places, tuple):
        return all(_are_own(field, returned) for field in places)
    own = returned.isdisjoint(places) and all(
        memory.owner in (Owner.FUNCTION, Owner.LIBRARY) for memory in places
    )
    returned |= places
    return own


def _copied(value: g.GraphExpr, info: TensorStructInfo, extra: list[g.Binding]) -> g.GraphExpr:
    """Return a copy of a tensor; the tensor itself if its dtype or rank is known to nobody."""
    if info.dtype is None or info.ndim < 0:
        return value
    if info.shape is None:
        info = TensorStructInfo([Var(f"n{k}", "int64") for k in range(info.ndim)], info.dtype)
        sized = g.GraphVar("sized", info)
        extra.append(g.MatchCast(sized, value, info))
        value = sized
    result = g.GraphVar("result", info)
    extra.append(_allocation(result, info))
    extra.append(_step(copy_into(value, result)))
    return result


def _allocation(var: g.GraphVar, info: TensorStructInfo) -> g.VarBinding:
    assert info.shape is not None
    assert info.dtype is not None
    return g.VarBinding(var, alloc_tensor(info.shape, info.dtype))


def _step(call: g.GraphCall) -> g.VarBinding:
    return g.VarBinding(g.GraphVar("_", VOID), call)
