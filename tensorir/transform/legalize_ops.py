"""Operators become calls of tensor functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeAlias

from tensorir.function import IRModule
from tensorir.relax import expr as g
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.call_key import call_key
from tensorir.relax.call_te import tensors_in
from tensorir.relax.declaration import DeclaredOperator, FormulaOperator, LibraryOperator
from tensorir.relax.function import graph_functions
from tensorir.relax.struct_info import TupleStructInfo
from tensorir.transform.decompose_ops import Decomposing, has_operators
from tensorir.transform.define_pass import ModulePass
from tensorir.transform.pass_context import PassContext

Legalize: TypeAlias = "Callable[[BlockBuilder, g.GraphCall], g.GraphExpr]"
"""Return the replacement of the call of an operator: the call itself to keep it."""


class LegalizeOps(ModulePass):
    """Replaces operators by what computes them.

    Before: lv = R.add(x, y)
    After:  lv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((2, 3), "float32"))

    A formula becomes a tensor function, which equal calls share; a composite operator becomes its
    expression; a library operator becomes the call of a library function. `custom` maps
    names of operators (without `relax.`) to functions that come first. IRTypeError for operands of
    unknown shape: `match_cast` states it.
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
        self._calls: dict[tuple[FormulaOperator, Hashable], tuple[g.GraphCall, g.GraphCall]] = {}
        """Calls of kernels, and the calls of operators that they replace, by operators and keys."""

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
        arguments = op.formula_arguments(op.signature.arguments(call.args, call.attrs))  # type: ignore[arg-type]
        key = op, call_key(call.args, call.attrs)
        same, _ = self._calls.get(key, (None, call))
        if same is None:
            name = op.short_name.rpartition(".")[2]
            result = self.builder.call_te(op.function, primfunc_name_hint=name, **arguments)
            if key[1] is not None:
                self._calls[key] = result, call
        else:
            gvar, _, *sizes = same.args
            args = [gvar, g.Tuple(tensors_in(arguments)), *sizes]
            result = g.GraphCall(same.op, args, same.attrs, same.sinfo_args, same.struct_info)
        info = call.struct_info
        is_alone = isinstance(info, TupleStructInfo) and len(info) == 1
        return g.Tuple([result]) if is_alone else result
