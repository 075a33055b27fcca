"""Commutative reducers, and finding one in the body of a reduction block.

A reducer combines tuples: a sum is over tuples of one, an argmax over pairs of index and value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

from schedule.analysis.bound_values import bound_values
from schedule.errors import Problem, check, fail
from schedule.sref import StmtSRef
from tensorir.buffer import Buffer
from tensorir.dtype import DataType
from tensorir.equal import expr_deep_equal, structural_equal
from tensorir.expr import BufferLoad, PrimExpr, Select, Var
from tensorir.node import Node
from tensorir.ops import const, logical_and, logical_or, max_, max_value, min_, min_value
from tensorir.stmt import BufferStore, LetStmt, SeqStmt, Stmt

Combine = Callable[[Sequence[PrimExpr], Sequence[PrimExpr]], Sequence[PrimExpr]]
Identity = Callable[[Sequence[DataType]], Sequence[PrimExpr]]

FORM = Problem(
    "RFactorNotApplicableError",
    "{0} is no reduction of a form that can be factored: {reason}",
    "its init stores identities, and its body stores the combination of what is there and a value",
)
NO_REDUCER = Problem(
    "NoMatchedReducerError",
    "no known reducer has the identity and the combiner of {0}",
    "register one with schedule.analysis.reducer.register_reducer",
)


@dataclass(frozen=True)
class Reducer:
    """A commutative and associative combination of tuples of `size`, and its identity."""

    size: int
    combine: Combine
    identity: Identity


_reducers: Final[list[Reducer]] = []


def register_reducer(size: int, combine: Combine, identity: Identity) -> Reducer:
    """Make a reducer known; of several that match, the first one is taken.

    `combine(x, y)` returns the combined tuple of expressions, `identity(dtypes)` the tuple that
    changes nothing. That it is commutative and associative is the caller's word.
    """
    reducer = Reducer(size, combine, identity)
    _reducers.append(reducer)
    return reducer


@dataclass(frozen=True, eq=False)
class Reduction:
    """What a reduction block does: `buffers[indices] = combine(buffers[indices], values)`."""

    reducer: Reducer
    buffers: tuple[Buffer, ...]
    indices: tuple[PrimExpr, ...]
    values: tuple[PrimExpr, ...]
    names: tuple[str, ...]
    """The names of the variables that hold the combined tuple, empty for tuples of one."""

    def update(
        self,
        old: Sequence[PrimExpr],
        new: Sequence[PrimExpr],
        buffers: Sequence[Buffer],
        indices: Sequence[PrimExpr],
    ) -> Stmt:
        """Return the statement that stores the combination of two tuples."""
        combined = self.reducer.combine(old, new)
        if len(buffers) == 1:
            return BufferStore(buffers[0], combined[0], indices)
        return stores_through_lets(self.names, combined, buffers, indices)


def stores_through_lets(
    names: Sequence[str],
    values: Sequence[PrimExpr],
    buffers: Sequence[Buffer],
    indices: Sequence[PrimExpr],
) -> Stmt:
    """Return stores of several values, all of which are computed before the first store."""
    variables = [Var(name, value.dtype) for name, value in zip(names, values, strict=True)]
    body: Stmt = SeqStmt(
        [BufferStore(b, v, indices) for b, v in zip(buffers, variables, strict=True)]
    )
    for variable, value in reversed(list(zip(variables, values, strict=True))):
        body = LetStmt(variable, value, body)
    return body


def find_reduction(block: StmtSRef) -> Reduction:
    """Return what a reduction block does; ScheduleError if its form or reducer is unknown.

    The buffers are in the order of the reducer's tuple, whichever the block stores to first.
    """
    node = block.block
    assert node.init is not None
    inits = _stores(block, node.init, "init")
    buffers = [store.buffer for store in inits]
    check(len(set(buffers)) == len(buffers), FORM, block, reason="init stores to a buffer twice")
    values, names = _stored_values(block, node.body, buffers)
    updates = _store_of(block, node.body, buffers)
    indices = updates[0].indices
    for store in (*inits, *updates):
        same = len(store.indices) == len(indices) and all(
            expr_deep_equal(a, b) for a, b in zip(store.indices, indices, strict=True)
        )
        check(same, FORM, block, reason="init and body store at different indices")
    for order in permutations(range(len(buffers))):
        ordered = [buffers[k] for k in order]
        old = [BufferLoad(buffer, indices) for buffer in ordered]
        identity, new = [inits[k].value for k in order], [values[k] for k in order]
        for reducer in _reducers:
            found = _match_reducer(reducer, old, identity, new)
            if found is not None:
                held = tuple(names[k] for k in order if names)
                return Reduction(reducer, tuple(ordered), tuple(indices), found, held)
    fail(NO_REDUCER, block)


def _stores(block: StmtSRef, body: Stmt, what: str) -> list[BufferStore]:
    parts = body.seq if isinstance(body, SeqStmt) else (body,)
    stores = [part for part in parts if isinstance(part, BufferStore)]
    check(len(stores) == len(parts), FORM, block, reason=f"its {what} is more than stores")
    return stores


def _store_of(block: StmtSRef, body: Stmt, buffers: Sequence[Buffer]) -> list[BufferStore]:
    """Return the stores of the body in the order of the buffers."""
    stores = {store.buffer: store for store in _stores(block, bound_values(body)[1], "body")}
    same = set(stores) == set(buffers)
    check(same, FORM, block, reason="init and body store to different buffers")
    return [stores[buffer] for buffer in buffers]


def _stored_values(
    block: StmtSRef, body: Stmt, buffers: Sequence[Buffer]
) -> tuple[list[PrimExpr], list[str]]:
    lets, _ = bound_values(body)
    stores = _store_of(block, body, buffers)
    if not lets:
        check(len(stores) == 1, FORM, block, reason="several values are stored without lets")
        return [stores[0].value], []
    values, names = [], []
    for store in stores:
        held = isinstance(store.value, Var) and store.value in lets
        check(held, FORM, block, reason="what is stored is not what a let computed")
        assert isinstance(store.value, Var)
        values.append(lets[store.value])
        names.append(store.value.name)
    check(len(lets) == len(stores), FORM, block, reason="a let is not stored")
    return values, names


def _match_reducer(
    reducer: Reducer,
    old: Sequence[PrimExpr],
    inits: Sequence[PrimExpr],
    values: Sequence[PrimExpr],
) -> tuple[PrimExpr, ...] | None:
    """Return the tuple that is combined into `old`, None if it is another reducer."""
    if reducer.size != len(old):
        return None
    dtypes = [load.dtype for load in old]
    identity = reducer.identity(dtypes)
    if not all(structural_equal(a, b) for a, b in zip(identity, inits, strict=True)):
        return None
    holes = [Var(f"y{k}", dtype) for k, dtype in enumerate(dtypes)]
    for swapped in (False, True):
        template = reducer.combine(holes, old) if swapped else reducer.combine(old, holes)
        found: dict[Var, PrimExpr] = {}
        if all(_match(t, v, holes, found) for t, v in zip(template, values, strict=True)):
            return tuple(found[hole] for hole in holes)
    return None


def _match(template: Any, value: Any, holes: Sequence[Var], found: dict[Var, PrimExpr]) -> bool:
    if isinstance(template, Var) and template in holes:
        known = found.setdefault(template, value)
        return known is value or expr_deep_equal(known, value)
    if isinstance(template, tuple):
        return (
            isinstance(value, tuple)
            and len(template) == len(value)
            and all(_match(t, v, holes, found) for t, v in zip(template, value, strict=True))
        )
    if not isinstance(template, Node) or isinstance(template, (Var, Buffer)):
        return template is value or bool(template == value)
    if type(template) is not type(value):
        return False
    return all(
        _match(getattr(template, name), getattr(value, name), holes, found)
        for name in type(template).fields
    )


def _best(better: Callable[[PrimExpr, PrimExpr], PrimExpr], ties: bool) -> Combine:
    """Return the combiner of (index, value) pairs that keeps the better value."""

    def combine(x: Sequence[PrimExpr], y: Sequence[PrimExpr]) -> list[PrimExpr]:
        take = better(x[1], y[1])
        if ties:
            take = logical_or(take, logical_and(x[1] == y[1], x[0] < y[0]))
        return [Select(take, x[0], y[0]), Select(take, x[1], y[1])]

    return combine


def _zeros(dtypes: Sequence[DataType]) -> list[PrimExpr]:
    return [const(0, dtype) for dtype in dtypes]


register_reducer(1, lambda x, y: [x[0] + y[0]], _zeros)
register_reducer(1, lambda x, y: [x[0] * y[0]], lambda dtypes: [const(1, dtypes[0])])
register_reducer(1, lambda x, y: [min_(x[0], y[0])], lambda dtypes: [max_value(dtypes[0])])
register_reducer(1, lambda x, y: [max_(x[0], y[0])], lambda dtypes: [min_value(dtypes[0])])
register_reducer(2, lambda x, y: [x[0] + y[0], x[1] + y[1]], _zeros)
for _ties in (False, True):
    register_reducer(
        2,
        _best(lambda a, b: a > b, True) if _ties else _best(lambda a, b: a >= b, False),
        lambda dtypes: [const(-1, dtypes[0]), min_value(dtypes[1])],
    )
    register_reducer(
        2,
        _best(lambda a, b: a < b, True) if _ties else _best(lambda a, b: a <= b, False),
        lambda dtypes: [const(-1, dtypes[0]), max_value(dtypes[1])],
    )
