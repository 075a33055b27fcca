"""Common subexpression elimination: equal values are computed once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

from tensorir.comparison.equal import structural_equal
from tensorir.function import IRModule
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.callee import is_pure_call
from tensorir.relax.function import Function
from tensorir.relax.relations import is_base_of
from tensorir.relax.visit import GraphRewriter, leaves_of
from tensorir.transform.pass_context import FunctionPass, PassContext

SAMPLE: Final = 16
"""The maximum number of elements of a constant that is compared by its contents."""


class EliminateCommonSubexpr(FunctionPass):
    """Uses the result of an earlier equal call.

    Before: a = R.call_tir(f, (x,), ...); b = R.call_tir(f, (x,), ...); c = g(a, b)
    After:  a = R.call_tir(f, (x,), ...); b = a; c = g(a, a)

    Calls are equal if they have the same callee, attributes, arguments and stated results; calls
    that may have effects are kept. A call in a branch of an `if` may reuse a value from before the
    `if`; a call after a dataflow block may reuse its outputs. A `match_cast` is a check and is
    kept.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Return the function with every pure value computed once."""
        return _Common(mod)(func)


class _Common(GraphRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__()
        self._mod = mod
        self._known: dict[Hashable, list[tuple[g.GraphExpr, g.GraphVar]]] = {}
        self._added: list[Hashable] = []
        """The keys of available values, in order, so that they can be dropped at the end of a
        sequence.
        """
        self._outputs: list[tuple[g.GraphVar, g.GraphVar]] = []
        """Variables local to the current block, and the outputs with their values."""

    def rewrite_SeqExpr(self, node: g.SeqExpr) -> g.SeqExpr:  # noqa: N802
        """Rebuild a sequence; its values are available only inside of it."""
        before = len(self._added)
        result: g.SeqExpr = self.generic(node)
        for key in self._added[before:]:
            self._known[key].pop()
        del self._added[before:]
        return result

    def rewrite_DataflowBlock(self, node: g.DataflowBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block; after it only its outputs are available."""
        before = len(self._added)
        result = super().rewrite_BindingBlock(node)
        added = self._added[before:]
        del self._added[before:]
        found = [self._known[key].pop() for key in reversed(added)][::-1]
        outputs = dict(self._outputs)
        for key, (value, var) in zip(added, found, strict=True):
            seen = outputs.get(var, var)
            if not isinstance(seen, g.DataflowVar) and not _is_local(value):
                self._add(key, value, seen)
        for _, output in self._outputs:
            del self.replaced[output]
        self._outputs = []
        return result

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return a binding; an available value is replaced by its variable."""
        rebuilt = super().binding(node)
        (new,) = rebuilt
        if not isinstance(new, g.VarBinding) or not self._may_be_shared(new.value):
            return rebuilt
        key = _key(new.value)
        for value, var in self._known.get(key, ()):
            if structural_equal(value, new.value) and is_base_of(
                new.var.struct_info, var.struct_info
            ):
                self.replaced[node.var] = var
                if isinstance(var, g.DataflowVar) and not isinstance(node.var, g.DataflowVar):
                    self._outputs.append((var, node.var))
                return (new.with_(value=var),)
        self._add(key, new.value, new.var)
        return rebuilt

    def _may_be_shared(self, value: g.GraphExpr) -> bool:
        if isinstance(value, g.GraphCall):
            return is_pure_call(value, self._mod)
        return isinstance(value, g.TupleGetItem)

    def _add(self, key: Hashable, value: g.GraphExpr, var: g.GraphVar) -> None:
        self._known.setdefault(key, []).append((value, var))
        self._added.append(key)


def _is_local(value: g.GraphExpr) -> bool:
    """Return True if a value uses a variable that is local to its block."""
    parts = value.args if isinstance(value, g.GraphCall) else (value.tuple_value,)  # type: ignore[attr-defined]
    return any(isinstance(part, g.DataflowVar) for arg in parts for part in leaves_of(arg))


def _key(value: Any) -> Hashable:
    """Return a key that is equal for equal values."""
    if isinstance(value, g.GraphCall):
        return (_key(value.op), *map(_key, value.args))
    if isinstance(value, g.TupleGetItem):
        return (_key(value.tuple_value), value.index)
    if isinstance(value, g.Tuple):
        return tuple(map(_key, value.elements))
    if isinstance(value, GlobalVar):
        return value.name
    if isinstance(value, g.ExternFunc):
        return value.symbol
    if isinstance(value, g.Constant):
        data = value.data
        return data.shape, str(data.dtype), data.ravel()[:SAMPLE].tobytes()
    if isinstance(value, g.GraphExpr) and not isinstance(value, g.GraphVar):
        return type(value).__name__
    known: Hashable = value
    return known
