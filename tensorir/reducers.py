"""Commutative reducers, and finding one in the body of a reduction block.

A reducer combines tuples: a sum is over tuples of one, an argmax over pairs of index and value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import inf
from typing import Any, Final

from tensorir.comparison.equal import expr_deep_equal, structural_equal
from tensorir.indices.accesses import only_stores
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    BinaryOp,
    BufferLoad,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Select,
    Var,
)
from tensorir.nodes.node import Node
from tensorir.nodes.ops import (
    FALSE,
    TRUE,
    const,
    logical_and,
    logical_or,
    max_,
    max_value,
    min_,
    min_value,
)
from tensorir.nodes.stmt import Block, BufferStore, LetStmt, SeqStmt, Stmt
from tensorir.rewriting.visit import substitute
from tensorir.te.reduction import Reducer as TeReducer
from tensorir.te.reduction import largest, place_of_best, smallest

Combine = Callable[[Sequence[PrimExpr], Sequence[PrimExpr]], Sequence[PrimExpr]]
Identity = Callable[[Sequence[DataType]], Sequence[PrimExpr]]
Limit = Callable[[DataType], PrimExpr]
Compare = Callable[[PrimExpr, PrimExpr], PrimExpr]
Choice = Callable[[Sequence[PrimExpr], Sequence[PrimExpr]], PrimExpr]


class NotAReduction(Exception):  # noqa: N818 - the caller says what it asked for
    """A block is not of the form of a reduction, for the reason in the message."""


class NoReducer(Exception):  # noqa: N818
    """No known reducer has the identity and the combiner of a block."""


@dataclass(frozen=True)
class Reducer:
    """A commutative and associative combination of tuples of `size`, and its identity."""

    size: int
    combine: Combine
    identity: Identity

    @property
    def turned(self) -> Reducer:
        """The reducer with swapped operands, which differs where operands are equally good."""
        return Reducer(self.size, lambda x, y: self.combine(y, x), self.identity)


_reducers: Final[list[Reducer]] = []


def register_reducer(size: int, combine: Combine, identity: Identity) -> Reducer:
    """Register a reducer; if several match, the first one is used.

    `combine(x, y)` returns the combined tuple of expressions, `identity(dtypes)` the tuple that
    changes nothing. The caller guarantees that it is commutative and associative.
    """
    reducer = Reducer(size, combine, identity)
    _reducers.append(reducer)
    return reducer


@dataclass(frozen=True, eq=False)
class Reduction:
    """The update of a reduction block: `buffers[indices] = combine(buffers[indices], values)`."""

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
        return self.stored(self.reducer.combine(old, new), buffers, indices)

    def stored(
        self, values: Sequence[PrimExpr], buffers: Sequence[Buffer], indices: Sequence[PrimExpr]
    ) -> Stmt:
        """Return the stores of a tuple; all its values are computed before the first store runs."""
        if len(buffers) == 1:
            return BufferStore(buffers[0], values[0], indices)
        held = [Var(name, value.dtype) for name, value in zip(self.names, values, strict=True)]
        stores = [BufferStore(b, v, indices) for b, v in zip(buffers, held, strict=True)]
        body: Stmt = SeqStmt(stores)
        for variable, value in reversed(list(zip(held, values, strict=True))):
            body = LetStmt(variable, value, body)
        return body


def reduction_of(block: Block) -> Reduction:
    """Return the update of a reduction block.

    The buffers are in the order of the reducer's tuple, whichever the block stores to first. Raises
    NotAReduction for another form, NoReducer for a combination that is not registered.
    """
    if block.init is None:
        raise NotAReduction("it has no init, so the start value is unknown")
    inits = _stores(block.init, "init")
    buffers = [store.buffer for store in inits]
    _check(len(set(buffers)) == len(buffers), "init stores to a buffer twice")
    lets, body = bound_values(block.body)
    stores = {store.buffer: store for store in _stores(body, "body")}
    _check(set(stores) == set(buffers), "init and body store to different buffers")
    updates = [stores[buffer] for buffer in buffers]
    values, names = _stored_values(lets, updates)
    indices = updates[0].indices
    for store in (*inits, *updates):
        same = len(store.indices) == len(indices) and all(
            expr_deep_equal(a, b) for a, b in zip(store.indices, indices, strict=True)
        )
        _check(same, "init and body store at different indices")
    for order in permutations(range(len(buffers))):
        ordered = [buffers[k] for k in order]
        old = [BufferLoad(buffer, indices) for buffer in ordered]
        identity, new = [inits[k].value for k in order], [values[k] for k in order]
        for known in _reducers:
            for reducer in (known, known.turned):
                found = _match_reducer(reducer, old, identity, new)
                if found is not None:
                    held = tuple(names[k] for k in order if names)
                    return Reduction(reducer, tuple(ordered), tuple(indices), found, held)
    raise NoReducer


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotAReduction(otherwise)


def _stores(body: Stmt, what: str) -> Sequence[BufferStore]:
    stores = only_stores(body)
    _check(bool(stores), f"its {what} has statements other than stores")
    return stores


def _stored_values(
    lets: Mapping[Var, PrimExpr], stores: Sequence[BufferStore]
) -> tuple[list[PrimExpr], list[str]]:
    """Return the stored values, and the names of the lets that bind them if there are several."""
    if not lets:
        _check(len(stores) == 1, "several values are stored without lets")
        return [stores[0].value], []
    held = [s.value for s in stores if isinstance(s.value, Var) and s.value in lets]
    _check(len(held) == len(stores), "a stored value is not bound by a let")
    _check(len(lets) == len(stores), "a let is not stored")
    return [lets[var] for var in held], [var.name for var in held]


def _match_reducer(
    reducer: Reducer,
    old: Sequence[PrimExpr],
    inits: Sequence[PrimExpr],
    values: Sequence[PrimExpr],
) -> tuple[PrimExpr, ...] | None:
    """Return the tuple that is combined into `old`, None if the reducer does not match."""
    if reducer.size != len(old):
        return None
    dtypes = [load.dtype for load in old]
    identity = reducer.identity(dtypes)
    if not all(structural_equal(a, b) for a, b in zip(identity, inits, strict=True)):
        return None
    holes = [Var(f"y{k}", dtype) for k, dtype in enumerate(dtypes)]
    found = _match(tuple(reducer.combine(old, holes)), tuple(values), holes, {})
    return None if found is None else tuple(found[hole] for hole in holes)


def _match(
    template: Any, value: Any, holes: Sequence[Var], found: Mapping[Var, PrimExpr]
) -> Mapping[Var, PrimExpr] | None:
    """Return the expressions in the holes of a template, None if a value is not of its form.

    Operands of a commutative operation may come in either order, and a comparison may be mirrored.
    `found` has the expressions already matched to holes.
    """
    if isinstance(template, Var) and template in holes:
        known = found.get(template)
        if known is None:
            return {**found, template: value}
        return found if known is value or expr_deep_equal(known, value) else None
    if isinstance(template, tuple):
        if not isinstance(value, tuple) or len(template) != len(value):
            return None
        matched: Mapping[Var, PrimExpr] | None = found
        for t, v in zip(template, value, strict=True):
            if matched is not None:
                matched = _match(t, v, holes, matched)
        return matched
    if not isinstance(template, Node) or isinstance(template, (Var, Buffer)):
        return found if template is value or bool(template == value) else None
    if type(template) is type(value):
        fields = type(template).fields
        wanted = tuple(getattr(template, name) for name in fields)
        given = tuple(getattr(value, name) for name in fields)
        matched = _match(wanted, given, holes, found)
        if matched is not None:
            return matched
    if _TURNED.get(type(template)) is type(value):
        assert isinstance(template, BinaryOp)
        assert isinstance(value, BinaryOp)
        return _match((template.a, template.b), (value.b, value.a), holes, found)
    return None


_TURNED: Final[dict[type, type]] = {
    **{kind: kind for kind in (Add, And, EQ, Max, Min, Mul, Or)},
    **{GT: LT, LT: GT, GE: LE, LE: GE},
}
"""The equivalent operation for swapped operands, by operation."""


def _yield_best_combiners(better: Compare, as_good: Compare, best: Compare) -> Iterator[Combine]:
    """Yield the combiners of (index, value) pairs that keep the better of two values.

    Of equal values the combiner keeps the first, or the value with the smaller or the larger index.
    The value itself may then be chosen without the index.
    """

    def wins(x: Sequence[PrimExpr], y: Sequence[PrimExpr]) -> PrimExpr:
        return better(x[1], y[1])

    def first(x: Sequence[PrimExpr], y: Sequence[PrimExpr]) -> PrimExpr:
        return as_good(x[1], y[1])

    def smaller(x: Sequence[PrimExpr], y: Sequence[PrimExpr]) -> PrimExpr:
        return logical_or(wins(x, y), logical_and(x[1] == y[1], x[0] < y[0]))

    def larger(x: Sequence[PrimExpr], y: Sequence[PrimExpr]) -> PrimExpr:
        return logical_or(wins(x, y), logical_and(x[1] == y[1], x[0] > y[0]))

    for taken in (first, smaller, larger):
        index = _select_part(taken, 0)
        for value in (_select_part(taken, 1), _select_part(wins, 1), lambda x, y: best(x[1], y[1])):
            yield _pair(index, value)


def _select_part(taken: Choice, part: int) -> Choice:
    return lambda x, y: Select(taken(x, y), x[part], y[part])


def _pair(index: Choice, value: Choice) -> Combine:
    return lambda x, y: [index(x, y), value(x, y)]


def _zeros(dtypes: Sequence[DataType]) -> list[PrimExpr]:
    return [const(0, dtype) for dtype in dtypes]


def _extremum_identities(limit: Limit, infinity: float) -> list[Limit]:
    """Return the identities of an extremum: the limit of the type, and for floats infinity."""
    return [limit, lambda dtype: const(infinity, dtype) if dtype.is_float else limit(dtype)]


def _index_and(worst: Limit) -> Identity:
    return lambda dtypes: [const(-1, dtypes[0]), worst(dtypes[1])]


def _alone(worst: Limit) -> Identity:
    return lambda dtypes: [worst(dtypes[0])]


_lowest = _extremum_identities(min_value, -inf)
_highest = _extremum_identities(max_value, inf)
register_reducer(1, lambda x, y: [x[0] + y[0]], _zeros)
register_reducer(1, lambda x, y: [x[0] * y[0]], lambda dtypes: [const(1, dtypes[0])])
for _identity in _highest:
    register_reducer(1, lambda x, y: [min_(x[0], y[0])], _alone(_identity))
for _identity in _lowest:
    register_reducer(1, lambda x, y: [max_(x[0], y[0])], _alone(_identity))
register_reducer(1, lambda x, y: [logical_and(x[0], y[0])], lambda _: [TRUE])
register_reducer(1, lambda x, y: [logical_or(x[0], y[0])], lambda _: [FALSE])
register_reducer(2, lambda x, y: [x[0] + y[0], x[1] + y[1]], _zeros)
for _identity in _lowest:
    for _combine in _yield_best_combiners(lambda a, b: a > b, lambda a, b: a >= b, max_):
        register_reducer(2, _combine, _index_and(_identity))
for _identity in _highest:
    for _combine in _yield_best_combiners(lambda a, b: a < b, lambda a, b: a <= b, min_):
        register_reducer(2, _combine, _index_and(_identity))


def _register_of_te(size: int, reducer: TeReducer) -> None:
    """Register a `te` reducer with `size` outputs."""

    def combine(x: Sequence[PrimExpr], y: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        return [reducer.combine(x[0], y[0])] if size == 1 else reducer.combine(x, y)

    def identity(dtypes: Sequence[DataType]) -> Sequence[PrimExpr]:
        return [reducer.identity(dtypes[0])] if size == 1 else reducer.identity(*dtypes)

    register_reducer(size, combine, identity)


for _extremum in (largest, smallest):
    _register_of_te(1, _extremum)
for _of_largest, _last in product((True, False), repeat=2):
    _register_of_te(2, place_of_best(_of_largest, _last))


# ----------------------------------------------------------------------------- values bound by lets


def bound_values(body: Stmt) -> tuple[dict[Var, PrimExpr], Stmt]:
    """Return the values of the lets around a statement, outermost first, and the statement."""
    values: dict[Var, PrimExpr] = {}
    while isinstance(body, LetStmt):
        values[body.var] = body.value
        body = body.body
    return values, body


def written_out(body: Stmt) -> Stmt:
    """Return the statement inside lets, with the variables replaced by their values."""
    values, inner = bound_values(body)
    for var, value in reversed(values.items()):
        inner = substitute(inner, {var: value})
    return inner
