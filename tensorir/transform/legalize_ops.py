"""Lowering of operators: composite operators become other operators, the rest tensor functions."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import TypeAlias

from tensorir.function import IRModule
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.call_te import Formula
from tensorir.relax.declaration import (
    CompositeOperator,
    DeclaredOperator,
    FormulaOperator,
    LibraryOperator,
)
from tensorir.relax.function import Function, graph_functions
from tensorir.rewriting.visit import walk
from tensorir.transform.pass_context import ModulePass, PassContext
from tensorir.transform.rebuild_graph import GraphRebuilder


class DecomposeOps(ModulePass):
    """Replaces composite operators by their expressions.

    Before: y = R.nn.silu(x)
    After:  lv = R.sigmoid(x)
            y = R.multiply(x, lv)

    Operators in `kept` (names without `relax.`) are not replaced.
    """

    def __init__(self, kept: Container[str] = ()) -> None:
        self.kept = kept

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module without such operators; `mod` itself if there are none."""
        if not any(has_operators(f, CompositeOperator) for f in graph_functions(mod).values()):
            return mod
        return Decomposing(mod, self.kept).rebuilt()


class Decomposing(GraphRebuilder):
    """Emits functions again, with composite operators replaced by their expressions."""

    def __init__(self, mod: IRModule, kept: Container[str] = ()) -> None:
        super().__init__(mod)
        self._kept = kept

    def value(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return the replacement of a value, part by part."""
        if not isinstance(value, g.GraphCall) or not isinstance(value.op, CompositeOperator):
            return value
        op = value.op
        if op.short_name in self._kept:
            return value
        return self.emitted(op.expression(op.arguments(value)))


def has_operators(func: Function, kind: type[DeclaredOperator] = DeclaredOperator) -> bool:
    """Return True if a graph function calls operators of a kind."""
    return any(
        isinstance(node, g.GraphCall) and isinstance(node.op, kind) for node in walk(func.body)
    )


Legalize: TypeAlias = "Callable[[BlockBuilder, g.GraphCall], g.GraphExpr]"
"""Returns the replacement of the call of an operator, or the call itself to keep it."""


class LegalizeOps(ModulePass):
    """Replaces operators by calls of functions that compute them.

    Before: lv = R.add(x, y)
    After:  lv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((2, 3), "float32"))

    A formula becomes a tensor function, which equal calls share; a composite operator becomes its
    expression; a library operator becomes the call of a library function. `custom` maps names of
    operators (without `relax.`) to functions that take precedence. Raises IRTypeError for operands
    of unknown shape; use `match_cast` to state it.
    """

    def __init__(self, custom: Mapping[str, Legalize] | None = None) -> None:
        self.custom = dict(custom or {})

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module without operators; `mod` itself if there are none."""
        if not any(map(has_operators, graph_functions(mod).values())):
            return mod
        return _Legalizing(mod, self.custom).rebuilt()


class _Legalizing(Decomposing):
    def __init__(self, mod: IRModule, custom: Mapping[str, Legalize]) -> None:
        super().__init__(mod)
        self._custom = custom
        self._functions: dict[Formula, GlobalVar] = {}
        """The functions of formulas; equal calls share one."""

    def value(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return the replacement of a value; expressions are legalized part by part."""
        if not isinstance(value, g.GraphCall) or not isinstance(value.op, DeclaredOperator):
            return value
        op = value.op
        if op.short_name in self._custom:
            instead = self._custom[op.short_name](self.builder, value)
            if instead is not value:
                return self.emitted(instead)
        if isinstance(op, LibraryOperator):
            return op.library_call(value)
        return (
            self._kernel_call(op, value)
            if isinstance(op, FormulaOperator)
            else super().value(value)
        )

    def _kernel_call(self, op: FormulaOperator, call: g.GraphCall) -> g.GraphExpr:
        name = op.short_name.rpartition(".")[2]
        formula = op.formula(call)
        if formula is None:  # raises an error that names the operand of unknown shape
            arguments = op.formula_arguments(op.arguments(call))
            return self.builder.call_te(op.function, primfunc_name_hint=name, **arguments)
        gvar = self._functions.get(formula)
        if gvar is None:
            gvar = self._functions[formula] = self.builder.add_func(formula.func, name)
        result = op.kernel_call(call, formula, gvar)
        is_alone = formula.is_list and len(formula.outputs) == 1
        return g.Tuple([result]) if is_alone else result
