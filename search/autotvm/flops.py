"""How many operations a task does, which its speed is given by."""

from __future__ import annotations

from math import prod
from typing import Final

from search.autotvm.errors import TemplateError
from tensorir import expr as e
from tensorir import stmt as s
from tensorir.expr import IntImm, PrimExpr
from tensorir.function import IRModule
from tensorir.visit import post_order_visit

_ONE_OPERATION: Final = (
    *(e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Max, e.Min),
    *(e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or),
)


def compute_flop(mod: IRModule) -> float:
    """Return the number of operations of a program, scheduled or not.

    The iterations of each innermost block times the operations of what it stores: binary
    arithmetic, comparisons and logic count 1, casts, calls and loads only what is in them, a choice
    its condition and the dearer side, indices and initial values nothing. Iterations are those of
    the block, so that guards and tails of loops do not count.

    TemplateError where that gives nothing or extents are not constant: `cfg.add_flop` says it.
    """
    total = 0.0
    for func in mod.prim_funcs().values():
        total += _of(func.body, 1.0)
    if total <= 0:
        raise TemplateError(
            "the program does no arithmetic that is counted; say how many operations it does with "
            "cfg.add_flop(n) in the template"
        )
    return total


def _of(stmt: s.Stmt, outside: float) -> float:
    """Return the operations of a statement that runs `outside` times for each block around it."""
    total = 0.0
    nested: list[s.Block] = []
    inner: set[int] = set()

    def visit(node: object) -> None:
        if isinstance(node, s.Block):
            nested.append(node)
            post_order_visit(node.body, lambda below: _note(below, inner))
            if node.init is not None:
                post_order_visit(node.init, lambda below: _note(below, inner))

    post_order_visit(stmt, visit)
    for block in nested:
        if id(block) in inner:
            continue
        iterations = outside * prod(_extent(axis) for axis in block.iter_vars)
        below = _of(block.body, iterations)
        total += below if below else iterations * _stored(block.body)
    return total


def _note(node: object, inner: set[int]) -> None:
    if isinstance(node, s.Block):
        inner.add(id(node))


def _extent(axis: e.IterVar) -> int:
    extent = None if axis.dom is None else axis.dom.extent
    if not isinstance(extent, IntImm):
        raise TemplateError(
            f"the extent of {axis.var.name} is not constant; say how many operations the program "
            "does with cfg.add_flop(n) in the template"
        )
    return extent.value


def _stored(body: s.Stmt) -> float:
    """Return the operations of all that a body without blocks stores, loops of it counted."""
    if isinstance(body, s.BufferStore):
        return _operations(body.value)
    if isinstance(body, s.For):
        extent = body.extent
        return (extent.value if isinstance(extent, IntImm) else 1) * _stored(body.body)
    if isinstance(body, s.SeqStmt):
        return sum(map(_stored, body.seq))
    if isinstance(body, s.IfThenElse):
        other = 0.0 if body.else_case is None else _stored(body.else_case)
        return _operations(body.condition) + max(_stored(body.then_case), other)
    if isinstance(body, s.LetStmt):
        return _operations(body.value) + _stored(body.body)
    inside: s.Stmt | None = getattr(body, "body", None)
    return 0.0 if inside is None else _stored(inside)


def _operations(value: PrimExpr) -> float:
    if isinstance(value, _ONE_OPERATION):
        assert isinstance(value, e.BinaryOp)
        return 1 + _operations(value.a) + _operations(value.b)
    if isinstance(value, e.Not):
        return 1 + _operations(value.a)
    if isinstance(value, e.Select):
        branches = max(_operations(value.true_value), _operations(value.false_value))
        return _operations(value.condition) + branches
    if isinstance(value, e.Call):
        return sum(map(_operations, value.args))
    if isinstance(value, (e.Cast, e.Broadcast)):
        return _operations(value.value)
    if isinstance(value, e.Let):
        return _operations(value.value) + _operations(value.body)
    return 0.0
