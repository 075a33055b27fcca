"""Evaluating an expression for several values of one variable at once."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tensorir.nodes import expr as e
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Ramp, StringImm, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.ops import add, cast, compare, const, mul, sub
from tensorir.rewriting.visit import walk

_IF_THEN_ELSE: Final = Op.get("if_then_else")
_LIKELY: Final = Op.get("likely")
_ELEMENTWISE: Final = frozenset(Op.get(name) for name in ("isnan", "reinterpret", "clz"))
"""Intrinsics that work lane by lane, although the table does not mark them as vectorizable."""


class CannotWiden(Exception):  # noqa: N818 - not an error: the statement takes another form
    """An expression without a vector form, which the message names."""


class Widener:
    """Widens expressions from `var` to the lanes `start, start + 1, ...`.

    A call returns the node itself if it does not depend on `var`, else a vector. An index that is
    linear in `var` becomes a `Ramp`. Arithmetic on the variables in `values` wraps
    (`tensorir.nodes.index_arithmetic`).
    """

    def __init__(
        self, var: Var, start: PrimExpr, lanes: int, values: Container[Var] = frozenset()
    ) -> None:
        self._ramp = Ramp(start, const(1, var.dtype), lanes)
        self._var = var
        self._lanes = lanes
        self._values = values
        self._mask: PrimExpr | None = None
        self._may_share = True
        self._memo: dict[PrimExpr, PrimExpr] = {}
        self._bound: dict[Var, Var] = {}

    def bind(self, var: Var, value: PrimExpr) -> Var:
        """Return a variable for the lanes of `value`, which replaces a scalar variable."""
        wide = self._bound[var] = Var(var.name, value.dtype)
        return wide

    def __call__(self, node: PrimExpr) -> PrimExpr:
        """Return `node` for all lanes; CannotWiden if that is impossible."""
        known = self._memo.get(node)
        if known is None:
            rule = _RULES.get(type(node))
            if rule is None:
                raise CannotWiden(f"{type(node).__name__} has no vector form")
            known = self._memo[node] = rule(self, node)
        return known

    def to_vector(self, value: PrimExpr) -> PrimExpr:
        """Return a widened value as a vector, also if all lanes are equal."""
        return value if value.dtype.lanes > 1 else e.Broadcast(value, self._lanes)

    @contextmanager
    def masked(self, mask: PrimExpr, some_lane_is_on: bool = False) -> Iterator[None]:
        """Load only in the lanes of `mask`, inside a `with` statement.

        A value that all lanes share is loaded once if some lane is surely enabled.
        """
        outer = self._mask, self._memo, self._may_share
        self._mask = mask if self._mask is None else e.And(self._mask, mask)
        self._memo = {}
        self._may_share = some_lane_is_on
        try:
            yield
        finally:
            self._mask, self._memo, self._may_share = outer

    # --------------------------------------------------------------------------------------- rules

    def var(self, node: Var) -> PrimExpr:
        """Return the ramp of the loop variable, the lanes of a bound one, or another variable."""
        return self._ramp if node is self._var else self._bound.get(node, node)

    def same(self, node: PrimExpr) -> PrimExpr:
        """Return an expression that does not depend on the loop variable, for all lanes."""
        return node

    def binary(self, node: e.BinaryOp) -> PrimExpr:
        """Widen both operands."""
        a, b = self(node.a), self(node.b)
        if a is node.a and b is node.b:
            return node
        if a.dtype.is_int:
            linear = _linear(type(node), a, b)
            if linear is not None:
                return linear
        x, y = self.to_vector(a), self.to_vector(b)
        if isinstance(node, e.CmpOp):
            return compare(type(node), x, y)
        return type(node)(x, y)

    def logical(self, node: e.LogicalOp) -> PrimExpr:
        """Widen both operands; the right one loads only in the lanes that it decides."""
        a, b = self(node.a), self(node.b)
        if a is node.a and b is node.b:
            return node
        kind, left = type(node), self.to_vector(a)
        if not may_load(node.b):
            return kind(left, self.to_vector(b))
        return bound_mask(left, lambda mask: kind(mask, self._masked_binary(mask, kind, node.b)))

    def _masked_binary(self, mask: PrimExpr, kind: type[e.LogicalOp], node: PrimExpr) -> PrimExpr:
        with self.masked(mask if kind is e.And else e.Not(mask)):
            return self.to_vector(self(node))

    def not_(self, node: e.Not) -> PrimExpr:
        """Widen the operand."""
        a = self(node.a)
        return node if a is node.a else e.Not(a)

    def cast(self, node: e.Cast) -> PrimExpr:
        """Convert every lane."""
        value = self(node.value)
        if value is node.value:
            return node
        dtype = node.dtype.with_lanes(self._lanes)
        narrows = node.dtype.bits < node.value.dtype.bits
        if is_index_arithmetic(node.value, self._values) and not narrows:
            return cast(dtype, value)
        # A ramp of values may wrap between lanes, so its lanes are converted separately.
        return e.Cast(dtype, value)

    def select(self, node: e.Select) -> PrimExpr:
        """Choose in every lane."""
        c, t, f = self(node.condition), self(node.true_value), self(node.false_value)
        if c is node.condition and t is node.true_value and f is node.false_value:
            return node
        return e.Select(c, self.to_vector(t), self.to_vector(f))

    def let(self, node: e.Let) -> PrimExpr:
        """Keep a let whose value is the same in all lanes."""
        value = self(node.value)
        if value is not node.value:
            raise CannotWiden(f"the value of {node.var.name} differs between lanes")
        body = self(node.body)
        return node if body is node.body else e.Let(node.var, value, body)

    def load(self, node: BufferLoad) -> PrimExpr:
        """Load all lanes, under the mask where there is one."""
        (index,) = node.indices
        wide = self(index)
        if node.predicate is not None or node.buffer.dtype.lanes > 1:
            if wide is not index or self._mask is not None:
                raise CannotWiden(f"a load of {node.buffer.name} is a vector or masked already")
            return node
        if self._mask is None:
            return node if wide is index else BufferLoad(node.buffer, (wide,))
        if wide is index:
            if self._may_share:
                return node
            # The mask may disable all lanes, so the load must be masked even for a shared element.
            wide = Ramp(index, const(0, index.dtype), self._lanes)
        return BufferLoad(node.buffer, (wide,), self._mask)

    def call(self, node: Call) -> PrimExpr:
        """Widen the arguments of a call."""
        if node.op is _IF_THEN_ELSE:
            return self._choice(node)
        if not isinstance(node.op, Op) or node.op.effect not in (Effect.PURE, Effect.ANNOTATION):
            raise CannotWiden(f"{_call_name(node)} may have effects")
        args = [self(arg) for arg in node.args]
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            return node
        if node.op is _LIKELY:
            return args[0]
        if not (node.op.vectorizable or node.op in _ELEMENTWISE):
            raise CannotWiden(f"{_call_name(node)} has no vector form")
        if node.op.short_name.startswith("call_"):
            # The first arguments are the name of the function and its overloaded operands.
            fixed = 1 + (len(args) > 1 and args[1].dtype == "uint32" and type(args[1]) is IntImm)
            args = [*args[:fixed], *(self.to_vector(arg) for arg in args[fixed:])]
        else:
            args = [self.to_vector(arg) for arg in args]
        return Call(node.dtype.with_lanes(self._lanes), node.op, args)

    def _choice(self, node: Call) -> PrimExpr:
        condition = self(node.args[0])
        if condition is node.args[0]:
            yes, no = self(node.args[1]), self(node.args[2])
            if yes is node.args[1] and no is node.args[2]:
                return node
            wide = node.dtype.with_lanes(self._lanes)
            return Call(wide, _IF_THEN_ELSE, (condition, self.to_vector(yes), self.to_vector(no)))
        return bound_mask(condition, lambda mask: self._chosen_by(mask, *node.args[1:]))

    def _chosen_by(self, mask: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
        with self.masked(mask):
            first = self.to_vector(self(yes))
        with self.masked(e.Not(mask)):
            return e.Select(mask, first, self.to_vector(self(no)))

    def vector(self, node: PrimExpr) -> PrimExpr:
        """Refuse vectors of vectors."""
        raise CannotWiden("it works on vectors already")


def _call_name(node: Call) -> str:
    """Return the readable name of a call: the C function, or the intrinsic."""
    first = node.args[0] if node.args else None
    if isinstance(first, StringImm):
        return first.value
    return node.op.short_name if isinstance(node.op, Op) else node.op.name


def bound_mask(mask: PrimExpr, use: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
    """Return `use(mask)`, with the mask bound to a variable if it depends on memory.

    Every load under the mask uses it, including loads with additional masks.
    """
    if not may_load(mask):
        return use(mask)
    var = Var("mask", mask.dtype)
    return e.Let(var, mask, use(var))


def may_load(node: PrimExpr) -> bool:
    """Return whether evaluating `node` reads memory."""
    return any(type(part) is BufferLoad for part in walk(node))


def _linear(kind: type[e.BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Return the `Ramp` that equals arithmetic on a `Ramp` and a scalar, or on two ramps."""
    if type(a) is Ramp and b.dtype.lanes == 1:
        if kind is e.Add:
            return Ramp(add(a.base, b), a.stride, a.lanes)
        if kind is e.Sub:
            return Ramp(sub(a.base, b), a.stride, a.lanes)
        if kind is e.Mul:
            return Ramp(mul(a.base, b), mul(a.stride, b), a.lanes)
    elif type(b) is Ramp and a.dtype.lanes == 1:
        if kind is e.Add:
            return Ramp(add(a, b.base), b.stride, b.lanes)
        if kind is e.Sub:
            return Ramp(sub(a, b.base), mul(b.stride, -1), b.lanes)
        if kind is e.Mul:
            return Ramp(mul(a, b.base), mul(a, b.stride), b.lanes)
    elif type(a) is Ramp and type(b) is Ramp:
        if kind is e.Add:
            return Ramp(add(a.base, b.base), add(a.stride, b.stride), a.lanes)
        if kind is e.Sub:
            return Ramp(sub(a.base, b.base), sub(a.stride, b.stride), a.lanes)
    return None


_RULES: Final[dict[type, Callable[[Widener, Any], PrimExpr]]] = {
    e.Var: Widener.var,
    e.SizeVar: Widener.var,
    **dict.fromkeys((IntImm, e.FloatImm, StringImm), Widener.same),
    **dict.fromkeys((*e.ARITHMETIC, *e.COMPARISONS), Widener.binary),
    **dict.fromkeys((e.And, e.Or), Widener.logical),
    e.Not: Widener.not_,
    e.Cast: Widener.cast,
    e.Select: Widener.select,
    e.Let: Widener.let,
    BufferLoad: Widener.load,
    Call: Widener.call,
    **dict.fromkeys((e.Ramp, e.Broadcast, e.Shuffle), Widener.vector),
}
