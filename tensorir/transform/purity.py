"""Whether an expression of a graph function only gives a value."""

from __future__ import annotations

from tensorir.expr import GlobalVar
from tensorir.function import IRModule
from tensorir.relax import expr as g
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.relax.struct_info import FuncStructInfo
from tensorir.visit import walk


def is_pure(value: g.GraphExpr, mod: IRModule) -> bool:
    """Say whether no call in an expression, branches included, has an effect."""
    return all(_is_pure_call(n, mod) for n in walk(value) if isinstance(n, g.GraphCall))


def _is_pure_call(call: g.GraphCall, mod: IRModule) -> bool:
    op = call.op
    if isinstance(op, Operator):
        return op.pure
    if isinstance(op, GlobalVar):
        func = mod.functions.get(op.name)
        return isinstance(func, Function) and func.is_pure
    info = op.struct_info
    return isinstance(op, g.GraphVar) and isinstance(info, FuncStructInfo) and info.purity
