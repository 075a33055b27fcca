"""Residue classes of expressions, and classes of variables that follow from equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, Final

from tensorir.arith.context import Context
from tensorir.arith.linear import Atom, Linear, Opaque, Piece, Term, Wrapped
from tensorir.arith.modular import ANY, ModularSet, residue
from tensorir.arith.pieces import pieces
from tensorir.arith.terms import reads_memory
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var


def residue_of(linear: Linear, context: Context) -> ModularSet:
    """Return the class of a linear combination in a context."""
    return _Residues(context).of(linear)


class _Residues:
    """The domain of residue classes, with the facts of a context."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def of(self, value: Linear | int) -> ModularSet:
        if isinstance(value, int):
            return ModularSet(0, value)
        found = ModularSet(0, 0)
        for coefficient, piece in pieces(value):
            found = found.plus(self._piece(piece), coefficient)
        return found.plus(ModularSet(0, value.rest))

    def _piece(self, piece: Term | Piece) -> ModularSet:
        if not isinstance(piece, Term):
            return piece.evaluate(self)
        known = self._context.residues.get(piece, ANY)
        return piece.evaluate(self).meet(known) if isinstance(piece, Atom) else known

    def quotient(self, a: ModularSet, b: ModularSet, floors: bool) -> ModularSet:
        return a.over(b.base) if floors and not b.coeff and b.base > 0 else ANY

    def remainder(self, a: ModularSet, b: ModularSet, floors: bool) -> ModularSet:
        if b.coeff or b.base < 1:
            return ANY
        if floors:
            return a.remainder(b.base)
        return a if not a.coeff and 0 <= a.base < b.base else a.modulo(b.base)

    def extremum(self, values: list[ModularSet], largest: bool) -> ModularSet:
        return reduce(ModularSet.join, values)

    def product(self, factors: tuple[Term, ...]) -> ModularSet:
        return reduce(ModularSet.times, map(self._piece, factors))

    def wrapped(self, term: Wrapped) -> ModularSet:
        return self.of(term.index).modulo(_width(term.dtype))

    def opaque(self, term: Opaque) -> ModularSet:
        return _of_expr(term.expr, self._context)


def _of_expr(expr: PrimExpr, context: Context) -> ModularSet:
    """Return the class of a nonlinear expression: a single operation, wrapped at its width."""
    rule = _RULES.get(type(expr))
    if rule is None or not _is_number(expr.dtype):
        return ANY

    def operand(part: PrimExpr) -> ModularSet:
        return residue_of(context.read(part), context) if _is_number(part.dtype) else ANY

    return rule(expr, operand)


def _is_number(dtype: DataType) -> bool:
    return dtype.is_integral and dtype.lanes == 1 and not dtype.is_bool


def _width(dtype: DataType) -> int:
    return 1 << dtype.bits


Operand = Callable[[PrimExpr], ModularSet]


def _wrapped(
    combine: Callable[[ModularSet, ModularSet], ModularSet],
) -> Callable[[Any, Operand], ModularSet]:
    return lambda n, operand: combine(operand(n.a), operand(n.b)).modulo(_width(n.dtype))


def _call(n: e.Call, operand: Operand) -> ModularSet:
    name = getattr(n.op, "short_name", "")
    if name == "if_then_else":
        return operand(n.args[1]).join(operand(n.args[2]))
    if name == "shift_left" and type(n.args[1]) is IntImm and 0 <= n.args[1].value < n.dtype.bits:
        scale = ModularSet(0, 1 << n.args[1].value)
        return operand(n.args[0]).times(scale).modulo(_width(n.dtype))
    if name == "bitwise_and":
        masks = [operand(a) for a in n.args]
        # Masking clears all bits below the lowest bit that the mask may have set.
        return ModularSet(max(_even_part(m, _width(n.dtype)) for m in masks), 0)
    return ANY


def _even_part(value: ModularSet, width: int) -> int:
    """Return the largest power of two up to `width` that divides all integers of a class."""
    bits = value.coeff | value.base | width
    return bits & -bits


_RULES: Final[dict[type, Callable[[Any, Operand], ModularSet]]] = {
    e.Add: _wrapped(lambda a, b: a.plus(b)),
    e.Sub: _wrapped(lambda a, b: a.plus(b, -1)),
    e.Mul: _wrapped(ModularSet.times),
    e.Select: lambda n, operand: operand(n.true_value).join(operand(n.false_value)),
    e.Cast: lambda n, operand: operand(n.value).modulo(_width(n.dtype)),
    e.Call: _call,
}


def learn_residues(equation: Linear, context: Context) -> Iterator[tuple[Term, ModularSet]]:
    """Yield residue classes of terms, and of their parts, that follow from `equation == 0`."""
    for term, c in equation.terms.items():
        if reads_memory(term):
            continue
        rest = Linear({t: d for t, d in equation.terms.items() if t is not term}, equation.const)
        others = residue_of(rest, context)
        if others.coeff % c == 0 and others.base % c == 0:
            found = residue(abs(others.coeff // c), -(others.base // c))
            yield term, found
            yield from _dividend_residues(term, found, context)


def _dividend_residues(
    term: Term, found: ModularSet, context: Context
) -> Iterator[tuple[Term, ModularSet]]:
    """Yield the classes of the dividend of a truncated remainder that follow from its class."""
    if type(term) is not Opaque or type(term.expr) is not e.Mod:
        return
    divisor = term.expr.b
    if type(divisor) is IntImm and divisor.value:
        dividend = context.read(term.expr.a)
        same = found.modulo(divisor.value)
        if len(dividend.terms) == 1:
            ((inner, c),) = dividend.terms.items()
            if c == 1 and isinstance(inner, Var):
                yield inner, same.plus(ModularSet(0, -dividend.const))
