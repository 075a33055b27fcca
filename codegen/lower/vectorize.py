"""Turning vectorized loops into statements on vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from codegen.lower.forms import PIECES
from codegen.lower.indices import run_of
from codegen.lower.loop_accesses import Aliasing
from codegen.lower.remarks import done, missed, stands_for
from codegen.lower.rewriters import StatementRewriter
from codegen.lower.widen import CannotWiden, Widener, may_load
from codegen.target import Target, as_target
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Ramp, Sub, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.node import Node
from tensorir.nodes.ops import add, const, logical_and, logical_not, mul
from tensorir.rewriting.visit import children, substitute, walk
from tensorir.semantics.purity import has_effects, is_exit, is_pure

MAX_PIECES = 32
"""The maximum number of pieces of a long vector that are written out; more pieces become a loop."""


def vectorize(func: PrimFunc) -> PrimFunc:
    """Run each statement of a vectorized loop for all iterations at once.

    Before: for j in T.vectorized(32): C[i * 32 + j] = A[j] * 2.0
    After:  for p in 2: C[Ramp(i * 32 + p * 16, 1, 16)] = A[Ramp(p * 16, 1, 16)] * Broadcast(2.0)

    Vectors have the length of a target register for the widest element of the statement, with one
    shorter vector for the rest. A condition that differs between lanes becomes a mask on loads and
    stores. A statement with a call that cannot be vectorized becomes a serial loop over the lanes.
    If lanes share a result, a loop bound or memory, the whole loop becomes serial. A vector of a
    GPU has 2, 3, 4, 8 or 16 adjacent lanes without a mask; other statements are written out lane by
    lane.
    """
    return func.with_body(_Vectorize(as_target(None), func)(func.body))


_DEVICE_LANES: Final = (16, 8, 4, 3, 2, 1)
"""The lengths of vectors that GPUs access."""


class _Serial(Exception):  # noqa: N818 - not an error: the loop takes another form
    """The loop has to run lane by lane, for the reason in the message."""


class _Vectorize(StatementRewriter):
    def __init__(self, target: Target, func: PrimFunc) -> None:
        self._target = target
        self._func = func
        self._aliasing = Aliasing(func)

    @cached_property
    def _values(self) -> frozenset[Var]:
        return value_variables(self._func)

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        body = self(node.body)
        if node.kind is not s.ForKind.VECTORIZED:
            return node.changed(body=body)
        if type(node.extent) is IntImm and node.extent.value == 1 and is_pure(node.min):
            return substitute(body, {node.loop_var: node.min})
        serial = s.For(node.loop_var, node.min, node.extent, s.ForKind.SERIAL, body)
        if type(node.extent) is not IntImm:
            missed("vectorize", "its extent is not constant", node.loop_var)
            return serial
        lanes = _Lanes(
            node.loop_var,
            node.min,
            node.extent.value,
            self._target,
            self._values,
            self._aliasing,
            _is_one_store(body),
        )
        try:
            return lanes.stmt(body, None)
        except _Serial as reason:
            missed("vectorize", str(reason), node.loop_var)
            return serial


@dataclass(slots=True)
class _Lanes:
    """The statements of one vectorized loop."""

    var: Var
    low: PrimExpr
    lanes: int
    target: Target
    values: frozenset[Var]
    aliasing: Aliasing
    is_one_store: bool
    _inlined: dict[Var, PrimExpr] = field(default_factory=dict)
    _may_have_stored: bool = False
    """True if a statement may have stored before the next one runs, in the same or another
    iteration.
    """

    def _varies(self, node: Node) -> bool:
        return any(
            part is self.var or (isinstance(part, Var) and part in self._inlined)
            for part in walk(node)
        )

    def stmt(self, node: s.Stmt, mask: PrimExpr | None) -> s.Stmt:
        """Return `node` for all lanes in which the scalar condition `mask` holds."""
        if isinstance(node, s.SeqStmt):
            return s.sequence([self.stmt(part, mask) for part in node.seq])
        write = _FORMS.get(type(node))
        if write is not None:
            return write(self, node, mask)
        if s.is_no_op(node):
            return node
        raise _Serial(f"{_SPOKEN.get(type(node), type(node).__name__)} has no vector form")

    def _assertion(self, node: s.AssertStmt, mask: PrimExpr | None) -> s.Stmt:
        """Assert a condition once for all lanes, if the first lane asserts it first of all."""
        if mask is not None or self._varies(node.condition):
            raise _Serial("an assertion has no vector form")
        if self._may_have_stored or not is_pure(node.condition):
            raise _Serial("an assertion may fail after some lanes have stored")
        return s.AssertStmt(node.condition, node.message, self.stmt(node.body, None))

    def _loop(self, node: s.For, mask: PrimExpr | None) -> s.Stmt:
        what = f"the range of {node.loop_var.name}"
        self._must_be_shared(node.min, mask, what)
        self._must_be_shared(node.extent, mask, what)
        # The first statement of an iteration runs after the previous iteration.
        self._may_have_stored = True
        return node.with_(body=self.stmt(node.body, mask))

    def _branch(self, node: s.IfThenElse, mask: PrimExpr | None) -> s.Stmt:
        if not self._varies(node.condition):
            self._must_be_shared(node.condition, mask, "a condition")
            else_case = None if node.else_case is None else self.stmt(node.else_case, mask)
            return s.IfThenElse(node.condition, self.stmt(node.then_case, mask), else_case)
        if not self._stays_true(node):
            raise _Serial("a store under a condition may change the condition")
        parts = []
        for case, holds in (
            (node.then_case, node.condition),
            (node.else_case, logical_not(node.condition)),
        ):
            if case is not None:
                parts.append(self.stmt(case, holds if mask is None else logical_and(mask, holds)))
        return s.sequence(parts)

    def _stays_true(self, node: s.IfThenElse) -> bool:
        """Return True if a condition may be evaluated again for each statement under it."""
        if is_pure(node.condition):
            return True
        if node.else_case is None and type(node.then_case) is s.BufferStore:
            return True  # It is evaluated once.
        if has_effects(node.condition):
            return False
        loaded = {part.buffer.data for part in walk(node.condition) if type(part) is BufferLoad}
        stored = {part.buffer.data for part in walk(node) if type(part) is s.BufferStore}
        return not self.aliasing.may_overlap(loaded, stored)

    def _let(self, node: s.LetStmt, mask: PrimExpr | None) -> s.Stmt:
        if not self._varies(node.value):
            self._must_be_shared(node.value, mask, f"the value of {node.var.name}")
            return s.LetStmt(node.var, node.value, self.stmt(node.body, mask))
        # The value is substituted for the variable, which is correct if no store is in between.
        if is_pure(node.value) or (
            type(node.body) is s.BufferStore and not has_effects(node.value)
        ):
            self._inlined[node.var] = node.value
            body = self.stmt(substitute(node.body, {node.var: node.value}), mask)
            del self._inlined[node.var]
            return body
        return self._vectorize_let(node, mask)

    def _vectorize_let(self, node: s.LetStmt, mask: PrimExpr | None) -> s.Stmt:
        """Return the vector form of a let whose value must be loaded before its body stores.

        Each piece of the lanes loads its values and stores them.
        """
        stores: list[s.BufferStore] = []
        bits = 0
        for part in walk(node):
            if isinstance(part, s.BufferStore):
                stores.append(part)
                bits = max(bits, _widest(part))
            elif isinstance(part, s.LetStmt):
                if has_effects(part.value):
                    raise _Serial(f"the value of {part.var.name} is a call with a side effect")
                bits = max(bits, _widest_value(part.value))
            elif isinstance(part, s.Stmt) and not isinstance(part, s.SeqStmt):
                raise _Serial(f"the value of {node.var.name} is loaded and differs between lanes")
        for store in stores:
            self._must_be_scalar(store)
            if not self._varies(store.indices[0]):
                raise _Serial(f"its lanes store to one element of {store.buffer.name}")
        if any(is_exit(part) for part in walk(node) if isinstance(part, PrimExpr)):
            raise _Serial("a call may fail after some lanes have stored")
        self._may_have_stored = True
        try:
            return self._pieces(node, stores, mask, max(1, self.target.vector_bits // bits))
        except CannotWiden as reason:
            raise _Serial(str(reason)) from reason

    def _attribute(self, node: s.AttrStmt, mask: PrimExpr | None) -> s.Stmt:
        for part in (node.node, node.value):
            if isinstance(part, PrimExpr):
                self._must_be_shared(part, mask, f"attribute {node.attr_key}")
        return s.AttrStmt(node.node, node.attr_key, node.value, self.stmt(node.body, mask))

    def _must_be_shared(self, node: PrimExpr, mask: PrimExpr | None, what: str) -> None:
        """Raise unless one evaluation suffices for all lanes, even if the mask disables all."""
        if self._varies(node):
            raise _Serial(f"{what} differs between lanes")
        if has_effects(node):
            raise _Serial(f"{what} is a call with a side effect")
        if mask is not None and not is_pure(node):
            raise _Serial(f"{what} is loaded, and the mask may disable all lanes")

    # --------------------------------------------------------------------------------------- stores

    def _store(self, node: s.BufferStore, mask: PrimExpr | None) -> s.Stmt:
        self._must_be_scalar(node)
        if not self.is_one_store and any(is_exit(part) for part in walk(node.value)):
            raise _Serial("a call may fail after some lanes have stored")
        self._may_have_stored = True
        (index,) = node.indices
        if not self._varies(index):
            return self._store_shared(node, mask)
        native = max(1, self.target.vector_bits // _widest(node))
        try:
            return self._pieces(node, [node], mask, native)
        except CannotWiden as reason:
            missed("vectorize", str(reason), self.var, node.buffer.data)
            return self._one_by_one(node, mask)

    def _must_be_scalar(self, node: s.BufferStore) -> None:
        if node.value.dtype.lanes > 1 or node.predicate is not None:
            raise _Serial(f"a store to {node.buffer.name} is a vector or masked already")

    def _store_shared(self, node: s.BufferStore, mask: PrimExpr | None) -> s.Stmt:
        """Store to one place from all lanes, by one store if all lanes store the same value."""
        for part in walk(node.value):
            if part is self.var or (
                type(part) is BufferLoad and part.buffer.data is node.buffer.data
            ):
                raise _Serial(f"its lanes store to one element of {node.buffer.name}")
        if mask is not None or has_effects(node.value):
            raise _Serial(f"some lanes only store to one element of {node.buffer.name}")
        return node

    def _one_by_one(self, node: s.BufferStore, mask: PrimExpr | None) -> s.Stmt:
        var = self.var.with_name(self.var.name + "_s")
        stands_for(var, self.var)
        body: s.Stmt = node if mask is None else s.IfThenElse(mask, node)
        extent = const(self.lanes, var.dtype)
        body = substitute(body, {self.var: var})
        kind = s.ForKind.SERIAL if self.target.gpu is None else s.ForKind.UNROLLED
        return s.For(var, self.low, extent, kind, body)

    def _pieces(
        self, node: s.Stmt, stores: Sequence[s.BufferStore], mask: PrimExpr | None, native: int
    ) -> s.Stmt:
        """Return a statement with these stores for all lanes, at most `native` of them at once."""
        count, rest = divmod(self.lanes, native)
        tail = self._tail(rest)
        parts: list[s.Stmt] = []
        if count == 1:
            parts.append(self._piece(node, mask, self.low, native))
        elif count > 1:
            dtype = self.var.dtype
            piece = Var(self.var.name + "_p", dtype)
            stands_for(piece, self.var)
            start = add(self.low, mul(piece, const(native, dtype)))
            body = self._piece(node, mask, start, native)
            kind = s.ForKind.UNROLLED if count <= MAX_PIECES else s.ForKind.SERIAL
            annotations = {PIECES: 1} if count <= MAX_PIECES else None
            bounds = const(0, dtype), const(count, dtype)
            parts.append(s.For(piece, *bounds, kind, body, None, annotations))
        done_lanes = count * native
        for lanes in tail:
            start = add(self.low, const(done_lanes, self.var.dtype))
            parts.append(self._piece(node, mask, start, lanes))
            done_lanes += lanes
        if self.target.gpu is not None and not all(map(_accesses_runs, parts)):
            raise CannotWiden("its lanes do not lie side by side, or some are off")
        self._remark_vectors(stores, (native,) * count + tail)
        return s.sequence(parts)

    def _tail(self, rest: int) -> tuple[int, ...]:
        """Return the lengths of the vectors for the lanes behind those of whole registers."""
        if self.target.gpu is None:
            return (rest,) if rest else ()
        lengths: tuple[int, ...] = ()
        while rest:
            longest = next(n for n in _DEVICE_LANES if n <= rest)
            lengths += (longest,)
            rest -= longest
        return lengths

    def _remark_vectors(self, stores: Sequence[s.BufferStore], lanes: tuple[int, ...]) -> None:
        for store in stores:
            done("vectorize", "vectors", self.var, store.buffer.data, lanes)

    def _piece(self, node: s.Stmt, mask: PrimExpr | None, start: PrimExpr, lanes: int) -> s.Stmt:
        if lanes == 1:
            body: s.Stmt = node if mask is None else s.IfThenElse(mask, node)
            return substitute(body, {self.var: start})
        widen = Widener(self.var, start, lanes, self.values)
        if mask is None:
            return _widen(node, widen, None)
        wide = widen.to_vector(widen(mask))
        predicate = Var("mask", wide.dtype) if may_load(wide) else wide
        some = self._some_lane(mask, start, lanes)
        with widen.masked(predicate, some_lane_is_on=some is not None):
            body = _widen(node, widen, predicate)
        if isinstance(predicate, Var):
            body = s.LetStmt(predicate, wide, body)
        return body if some is None else s.IfThenElse(some, body)

    def _some_lane(self, mask: PrimExpr, start: PrimExpr, lanes: int) -> PrimExpr | None:
        """Return a scalar condition that is true if and only if `mask` holds in some lane.

        A comparison of linear expressions changes once from lane to lane, so the lane at one end
        decides. None for other masks.
        """
        if type(mask) is not e.LT and type(mask) is not e.LE:
            return None
        if any(self._may_wrap(side) for side in (mask.a, mask.b)):
            return None
        slope = Widener(self.var, start, lanes, self.values)(Sub(mask.a, mask.b))
        if type(slope) is not Ramp or type(slope.stride) is not IntImm:
            return None
        last = add(start, const(lanes - 1, self.var.dtype))
        return substitute(mask, {self.var: start if slope.stride.value > 0 else last})

    def _may_wrap(self, side: PrimExpr) -> bool:
        return self._varies(side) and not is_index_arithmetic(side, self.values)


def _widen(node: s.Stmt, widen: Widener, predicate: PrimExpr | None) -> s.Stmt:
    """Return stores, and the lets around them, on vectors."""
    if isinstance(node, s.BufferStore):
        value = widen.to_vector(widen(node.value))
        return s.BufferStore(node.buffer, value, (widen(node.indices[0]),), predicate)
    if isinstance(node, s.SeqStmt):
        return s.sequence([_widen(part, widen, predicate) for part in node.seq])
    assert isinstance(node, s.LetStmt)
    value = widen(node.value)
    var = node.var if value is node.value else widen.bind(node.var, value)
    return s.LetStmt(var, value, _widen(node.body, widen, predicate))


def _accesses_runs(node: s.Stmt) -> bool:
    """Say whether each access of several elements is one to neighbours, without a mask."""
    return not any(
        part.predicate is not None or run_of(part.indices[-1]) is None
        for part in walk(node)
        if isinstance(part, (BufferLoad, s.BufferStore))
    )


def _is_one_store(body: s.Stmt) -> bool:
    """Return True if an iteration has one store, so that lanes in order are the serial order."""
    kinds = [type(part) for part in walk(body) if isinstance(part, s.Stmt)]
    return kinds.count(s.BufferStore) == 1 and s.For not in kinds


_FORMS: Final[dict[type, Callable[[_Lanes, Any, PrimExpr | None], s.Stmt]]] = {
    s.BufferStore: _Lanes._store,
    s.For: _Lanes._loop,
    s.IfThenElse: _Lanes._branch,
    s.LetStmt: _Lanes._let,
    s.AttrStmt: _Lanes._attribute,
    s.AssertStmt: _Lanes._assertion,
}
_SPOKEN: Final[dict[type, str]] = {
    s.Evaluate: "a call with a side effect",
    s.Allocate: "an allocation in an iteration",
    s.While: "a while loop",
}


def _widest(node: s.BufferStore) -> int:
    """Return the bits of the widest element that a statement computes with."""
    return max(_working_bits(node.buffer.dtype), _widest_value(node.value))


def _widest_value(value: PrimExpr) -> int:
    """Return the bits of the widest element that is loaded or converted to."""
    widest = 0
    stack: list[Node] = [value]
    while stack:
        part = stack.pop()
        kind = type(part)
        if kind is BufferLoad or kind is e.Cast:
            widest = max(widest, _working_bits(part.dtype))  # type: ignore[attr-defined]
        if kind is not BufferLoad:
            stack.extend(children(part))
    return widest


def _working_bits(dtype: DataType) -> int:
    """Return the bits an element has in arithmetic; 16-bit floats are computed in 32 bits."""
    if dtype.is_floating and dtype.bits == 16:
        return 32
    return max(8, dtype.bits)
