"""Rewriting the graph functions of a module with a builder, which adds functions and bindings.

A `GraphRewriter` replaces nodes by nodes. A `GraphRebuilder` emits the whole function again through
a `BlockBuilder`; use it if new values need new bindings or tensor functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorir.function import IRModule
from tensorir.relax import expr as g
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.call_graph import callees_first
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.visit import GraphRewriter

PRIMITIVE: Final = "Primitive"
"""The attribute of a graph function that `FuseTIR` turns into one tensor function."""


class GraphRebuilder:
    """Emits each binding of each graph function again; override `value` to replace values.

    `builder` adds tensor functions and emits bindings before the current binding.
    """

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        others = {n: f for n, f in mod.functions.items() if not isinstance(f, Function)}
        self.builder = BlockBuilder(IRModule(others, mod.attrs))
        self._variables = GraphRewriter()
        """Replaces the variables of the old functions by new ones."""

    def rebuilt(self) -> IRModule:
        """Return the module of the functions that were built, in their order."""
        graphs = graph_functions(self._mod)
        for name in callees_first(graphs):
            self._function(name, graphs[name])
        result = self.builder.get()
        order = [
            *self._mod.functions,
            *(n for n in result.functions if n not in self._mod.functions),
        ]
        return IRModule({name: result.functions[name] for name in order}, self._mod.attrs)

    def value(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return the replacement of a value whose parts are replaced already."""
        return value

    def plain(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return the replacement of a result, a condition or the value of a cast."""
        return value

    def emitted(self, expr: g.GraphExpr) -> g.GraphExpr:
        """Return an expression whose nested parts are emitted, each after `value` replaced it."""
        memo: dict[g.GraphExpr, g.GraphExpr] = {}
        return self._of_parts(expr, memo)

    def _of_parts(self, expr: g.GraphExpr, memo: dict[g.GraphExpr, g.GraphExpr]) -> g.GraphExpr:
        if isinstance(expr, g.Tuple):
            return g.Tuple([self._part(e, memo) for e in expr.elements])
        if isinstance(expr, g.TupleGetItem):
            return g.TupleGetItem(self._part(expr.tuple_value, memo), expr.index)
        if isinstance(expr, g.GraphCall):
            args = [self._part(a, memo) if isinstance(a, g.GraphExpr) else a for a in expr.args]
            same = all(a is b for a, b in zip(args, expr.args, strict=True))
            return self.value(expr if same else expr.with_(args=args))
        return expr

    def _part(self, expr: g.GraphExpr, memo: dict[g.GraphExpr, g.GraphExpr]) -> g.GraphExpr:
        """Return a leaf, or a tuple of leaves, for a part of an expression."""
        if isinstance(expr, g.LEAVES):
            return expr
        if expr not in memo:
            value = self._of_parts(expr, memo)
            memo[expr] = (
                value if isinstance(value, (*g.LEAVES, g.Tuple)) else self.builder.emit(value)
            )
        return memo[expr]

    # -------------------------------------------------------------------------- functions, bindings

    def _function(self, name: str, func: Function) -> None:
        private = "global_symbol" not in func.attrs
        with self.builder.function(name, func.params, func.attrs, func.is_pure, private):
            self.builder.emit_func_output(self._sequence(func.body))

    def _sequence(self, sequence: g.SeqExpr) -> g.GraphExpr:
        for block in sequence.blocks:
            if isinstance(block, g.DataflowBlock):
                with self.builder.dataflow():
                    self._bindings(block)
            else:
                self._bindings(block)
        return self.plain(self._variables(sequence.body))

    def _bindings(self, block: g.BindingBlock) -> None:
        for binding in block.bindings:
            self._variables.replaced[binding.var] = self.bound(binding)

    def bound(self, binding: g.Binding) -> g.GraphVar:
        """Emit a binding again; return the variable that replaces its own."""
        name, value = binding.var.name, binding.value
        inner = (
            isinstance(binding.var, g.DataflowVar) or not self.builder.current_block_is_dataflow()
        )
        if isinstance(binding, g.MatchCast):
            return self.builder.match_cast(
                self.plain(self._variables(value)),
                self._variables(binding.struct_info),
                name,
                output=not inner,
            )
        if isinstance(value, g.If):
            return self.builder.emit_if(
                self.plain(self._variables(value.cond)),
                lambda: self._sequence(value.true_branch),
                lambda: self._sequence(value.false_branch),
                name,
            )
        new = self.value(self._variables(value))
        if isinstance(new, g.GraphVar) and (inner or not isinstance(new, g.DataflowVar)):
            return new  # an alias
        return self.builder.emit(new, name) if inner else self.builder.emit_output(new, name)


def rewritten_graphs(
    mod: IRModule,
    rewriting: Callable[[BlockBuilder], Callable[[Any], Function]],
    may_change: Callable[[Function], bool] = lambda _: True,
) -> IRModule:
    """Return a module with its graph functions rewritten, except those with the attribute
    `Primitive`.

    `rewriting` receives a builder of the module, to which the rewriter may add functions.
    """
    graphs = {
        name: func
        for name, func in graph_functions(mod).items()
        if PRIMITIVE not in func.attrs and may_change(func)
    }
    if not graphs:
        return mod
    builder = BlockBuilder(mod)
    rewrite = rewriting(builder)
    for name, func in graphs.items():
        new = rewrite(func)
        if new is not func:
            builder.update_func(name, new)
    return builder.get()
