"""The variables of a function that hold run-time values, on which arithmetic wraps around."""

from __future__ import annotations

from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.rewriting.visit import collect_vars, walk_once


def scalar_values(func: PrimFunc) -> set[Var]:
    """Return the scalar parameters that no buffer's shape, strides or offset contains."""
    layouts = {
        var
        for buffer in func.buffer_map.values()
        for dim in buffer.layout
        for var in collect_vars(dim)
    }
    return {p for p in func.params if p not in func.buffer_map and p not in layouts}


def value_variables(func: PrimFunc) -> frozenset[Var]:
    """Return the variables of a function that hold run-time values, on which arithmetic wraps
    around.

    These are the `scalar_values`, and the axes and bound variables whose binding is not index
    arithmetic. Loop variables are never among them.
    """
    values = scalar_values(func)

    def note(var: Var, bound: PrimExpr) -> None:
        if not is_index_arithmetic(bound, values):
            values.add(var)

    for node in walk_once(func.body):
        # A binding is visited before the statements in its scope.
        kind = type(node)
        if kind is e.Let or kind is s.LetStmt:
            note(node.var, node.value)  # type: ignore[attr-defined]
        elif kind is s.BlockRealize:
            for axis, bound in zip(node.block.iter_vars, node.iter_values, strict=True):  # type: ignore[attr-defined]
                note(axis.var, bound)
    return frozenset(values)
