"""The check that the steps of a reduction may run in another order.

A reduction axis means that the block updates elements by an operation for which order does not
matter: a sum, a product, an extremum, a bitwise operation, or the choice of the better of two
tuples. Rounding is ignored, and so is which of two equally good tuples is chosen. Called functions
are assumed to respect the kinds of the axes.
"""

from __future__ import annotations

from functools import lru_cache

from schedule.analysis.axis_independence import PROMISE
from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from tensorir.arith.terms import choice_of
from tensorir.comparison.equal import expr_deep_equal
from tensorir.indices.accesses import loads_in, only_stores
from tensorir.nodes.expr import (
    Add,
    And,
    BufferLoad,
    Call,
    Cast,
    CmpOp,
    IterVar,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from tensorir.nodes.node import Node
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block, BufferStore, IfThenElse, LetStmt, Stmt
from tensorir.reducers import bound_values, written_out
from tensorir.rewriting.visit import children

ORDERED = Problem(
    "OrderedReductionError",
    "the order of its steps matters to {0}: it has reduction axes, but it does not update the "
    "stored elements by a known commutative operation",
    f"if the order does not matter, assert it by T.block_attr({{{{{PROMISE!r}: True}}}}) in the "
    "block; "
    "for a recurrence, declare the axis by T.axis.scan or T.axis.opaque",
)


def check_steps_commute(block: StmtSRef) -> None:
    """Raise unless the steps of a reduction may run in another order."""
    check(steps_commute(block.block), ORDERED, block)


@lru_cache(maxsize=512)
def steps_commute(block: Block) -> bool:
    """Return True if instances of a block that differ in its reduction axes may be reordered."""
    if block.annotations.get(PROMISE):
        return True
    reduce = any(
        axis.iter_type == IterVar.COMM_REDUCE
        and not (axis.dom is not None and is_const_int(axis.dom.extent, 1))
        for axis in block.iter_vars
    )
    return not reduce or _commutes(block.body, {region.buffer.data for region in block.writes})


def _commutes(body: Node, written: set[Var]) -> bool:
    if isinstance(body, Block):
        return steps_commute(body)
    if isinstance(body, BufferStore):
        if body.buffer.data not in written:
            return True
        return _is_update(body) or _is_choice(body.value, written)
    if isinstance(body, LetStmt):
        values, inner = bound_values(body)
        stores = only_stores(inner)
        if len(stores) < 2:
            return _commutes(written_out(body), written)
        # All values are computed before the first store.
        for store in stores:
            value = store.value
            if isinstance(value, Var):
                value = values.get(value, value)
            if not _commutes(BufferStore(store.buffer, value, store.indices), written):
                return False
        return True
    if isinstance(body, IfThenElse) and _loads(body.condition, written):
        return False
    inside = [part for part in children(body) if isinstance(part, (Stmt, Block))]
    return all(_commutes(part, written) for part in inside)


def _is_choice(value: PrimExpr, written: set[Var]) -> bool:
    """Return True if a value selects the old element or a new one, by comparing the two."""
    if not isinstance(value, Select):
        return False
    branches = (value.true_value, value.false_value)
    old = [isinstance(b, BufferLoad) and b.buffer.data in written for b in branches]
    new = [not _loads(b, written) for b in branches]
    return sorted(old) == sorted(new) == [False, True] and _compares(value.condition, written)


def _compares(condition: PrimExpr, written: set[Var]) -> bool:
    if isinstance(condition, (And, Or)):
        return _compares(condition.a, written) and _compares(condition.b, written)
    return isinstance(condition, CmpOp) and (
        _loads(condition.a, written) != _loads(condition.b, written)
    )


_FAMILIES: dict[type[PrimExpr], str] = {
    Add: "+",
    Sub: "+",
    Mul: "*",
    Min: "min",
    Max: "max",
    And: "and",
    Or: "or",
}
_CALLS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "fma": "+"}


def _is_update(store: BufferStore) -> bool:
    """Return True if a store combines the old element with another value by one operation."""
    families: set[str] = set()
    return _combines(store.value, store, families) and len(families) == 1


def _combines(value: PrimExpr, store: BufferStore, families: set[str]) -> bool:
    """Return True if a value combines the old element with others.

    Add the operations to `families`.
    """
    if isinstance(value, BufferLoad):
        return value.buffer is store.buffer and all(
            expr_deep_equal(a, b) for a, b in zip(value.indices, store.indices, strict=True)
        )
    if isinstance(value, Cast):
        return _combines(value.value, store, families)
    choice = choice_of(value)
    if choice is not None:
        condition, *branches = choice
        return not _loads(condition, {store.buffer.data}) and all(
            _combines(branch, store, families) for branch in branches
        )
    operands: tuple[PrimExpr, ...]
    if isinstance(value, Call):
        name = getattr(value.op, "short_name", "")
        family = _CALLS.get(name)
        operands = tuple(value.args)
        if name == "fma":
            operands = (operands[2], *operands[:2])
    else:
        family = _FAMILIES.get(type(value))
        operands = tuple(c for c in children(value) if isinstance(c, PrimExpr))
    if family is None:
        return False
    families.add(family)
    using = [k for k, operand in enumerate(operands) if _loads(operand, {store.buffer.data})]
    first_only = isinstance(value, Sub) or (isinstance(value, Call) and family == "+")
    if len(using) != 1 or (first_only and using != [0]):
        return False
    return _combines(operands[using[0]], store, families)


def _loads(expr: PrimExpr, buffers: set[Var]) -> bool:
    return any(load.buffer.data in buffers for load in loads_in(expr))
