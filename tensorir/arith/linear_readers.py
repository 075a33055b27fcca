"""Readers of each kind of expression as a linear combination, registered in `Linearizer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tensorir.arith.linear import Linear, is_negative
from tensorir.nodes import expr as e
from tensorir.nodes.expr import IntImm, integer_limits
from tensorir.nodes.index_arithmetic import holds_indices, is_scalar_integer
from tensorir.rewriting.visit import substitute, walk

if TYPE_CHECKING:
    from tensorir.arith.linearize import Linearizer


def _read_cast(reader: Linearizer, expr: e.Cast) -> Linear:
    source, target = expr.value.dtype, expr.dtype
    if not (is_scalar_integer(source) and is_scalar_integer(target)):
        return reader.opaque(expr)
    inner = reader(expr.value)
    if source.is_int and target.is_int and target.bits >= source.bits:
        return inner
    return inner if reader.fits(inner, target) else reader.opaque(expr)


def _read_truncated(reader: Linearizer, expr: e.Div | e.Mod) -> Linear:
    a, b = reader(expr.a), reader(expr.b)
    if not b.terms and not b.const:
        return reader.as_written(expr)
    quotient = reader.truncated(a, b)
    return quotient if type(expr) is e.Div else a.plus(reader.product(quotient, b), -1)


def _read_floor(reader: Linearizer, expr: e.FloorDiv | e.FloorMod) -> Linear:
    a, b = reader(expr.a), reader(expr.b)
    if not b.terms and not b.const:
        return reader.as_written(expr)
    turned = not b.terms and b.const < 0 and not is_negative(a.times(-1))
    if turned and reader.bound(a)[0] <= integer_limits(expr.dtype)[0]:
        return reader.as_written(expr)  # The negated dividend is out of the range of the type.
    quotient = reader.floor_divide(a, b)
    return quotient if type(expr) is e.FloorDiv else a.plus(reader.product(quotient, b), -1)


def _read_shift_or_call(reader: Linearizer, expr: e.Call) -> Linear:
    name = getattr(expr.op, "short_name", "")
    if name == "likely":
        return reader(expr.args[0])
    if name in ("shift_left", "shift_right") and type(expr.args[1]) is IntImm:
        a, amount = reader(expr.args[0]), expr.args[1].value
        if 0 <= amount < expr.dtype.bits:
            if name == "shift_right":
                return reader.quotient(a, 1 << amount)
            return reader.wrapped(a.times(1 << amount), expr)
    return reader.opaque(expr)


def _read_let(reader: Linearizer, expr: e.Let) -> Linear:
    if any(map(_is_worth_a_variable, walk(expr.value))):
        return reader.opaque(expr)
    return reader(substitute(expr.body, {expr.var: expr.value}))


def _is_worth_a_variable(part: Any) -> bool:
    """Return True for a load, a call, and a product of variables.

    Squares of squares would have a term of exponential size.
    """
    if isinstance(part, e.Mul):
        return not isinstance(part.a, IntImm) and not isinstance(part.b, IntImm)
    return isinstance(part, (e.BufferLoad, e.Call))


def _read_int(read: Callable[[Linearizer, Any], Linear]) -> Callable[[Linearizer, Any], Linear]:
    """Return a reader that applies `read` to scalar integers and wraps the result."""

    def guarded(reader: Linearizer, expr: Any) -> Linear:
        dtype = expr.dtype
        if dtype.lanes == 1 and holds_indices(dtype):
            exact = read(reader, expr)
            if exact.terms and not reader.has_values:
                return exact
            if exact.terms and not reader.may_wrap(exact):
                return exact if reader.may_be_read(exact, expr) else reader.as_written(expr)
            return reader.wrapped(exact, expr)
        if is_scalar_integer(dtype):
            return reader.wrapped(read(reader, expr), expr)
        return reader.opaque(expr)

    return guarded


READERS: Final[dict[type, Callable[[Linearizer, Any], Linear]]] = {
    e.Var: lambda r, x: r.var(x),
    e.SizeVar: lambda r, x: r.var(x),
    e.Add: _read_int(lambda r, x: r(x.a).plus(r(x.b))),
    e.Sub: _read_int(lambda r, x: r(x.a).plus(r(x.b), -1)),
    e.Mul: _read_int(lambda r, x: r.product(r(x.a), r(x.b))),
    e.FloorDiv: _read_int(_read_floor),
    e.FloorMod: _read_int(_read_floor),
    e.Div: _read_int(_read_truncated),
    e.Mod: _read_int(_read_truncated),
    e.Min: _read_int(lambda r, x: r.extremum([r(x.a), r(x.b)], False)),
    e.Max: _read_int(lambda r, x: r.extremum([r(x.a), r(x.b)], True)),
    e.Cast: _read_cast,
    e.Call: _read_int(_read_shift_or_call),
    e.Let: _read_let,
}
