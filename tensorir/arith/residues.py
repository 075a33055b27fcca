"""Residue classes of expressions, and those of variables that follow from equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, Final

from tensorir.arith.context import Context, Remainder, TruncatedRemainder
from tensorir.arith.linear import Atom, Extremum, Linear, Opaque, Product, Quotient, Term, Wrapped
from tensorir.arith.modular import ANY, ModularSet, residue
from tensorir.arith.pieces import Piece, pieces
from tensorir.arith.terms import reads_memory
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var


def residue_of(linear: Linear, context: Context) -> ModularSet:
    """Return the class of a linear combination in a context."""
    found = ModularSet(0, 0)
    for coefficient, piece in pieces(linear):
        found = found.plus(_of_piece(piece, context), coefficient)
    return found.plus(ModularSet(0, linear.rest))


def _of_piece(piece: Piece, context: Context) -> ModularSet:
    if isinstance(piece, Remainder):
        return residue_of(piece.index, context).remainder(piece.modulus).over(piece.divisor)
    if isinstance(piece, TruncatedRemainder):
        return _truncated_remainder(residue_of(piece.index, context), piece.modulus)
    return _of_term(piece, context) if isinstance(piece, Term) else ANY


def _of_term(term: Term, context: Context) -> ModularSet:
    known = context.residues.get(term, ANY)
    return _of_atom(term, context).meet(known) if isinstance(term, Atom) else known


def _of_atom(atom: Atom, context: Context) -> ModularSet:
    if type(atom) is Product:
        return reduce(ModularSet.times, [_of_term(t, context) for t in atom.factors])
    if type(atom) is Extremum:
        return reduce(ModularSet.join, [residue_of(arg, context) for arg in atom.args])
    if type(atom) is Quotient:
        return residue_of(atom.index, context).over(atom.divisor)
    if type(atom) is Wrapped:
        return residue_of(atom.index, context).modulo(_width(atom.dtype))
    if type(atom) is Opaque:
        return _of_expr(atom.expr, context)
    return ANY


def _of_expr(expr: PrimExpr, context: Context) -> ModularSet:
    """Return the class of what is not linear: an operation of its own, wrapped at its width."""
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


def _truncated_remainder(a: ModularSet, modulus: int) -> ModularSet:
    return a if not a.coeff and 0 <= a.base < modulus else a.modulo(modulus)


def _call(n: e.Call, operand: Operand) -> ModularSet:
    name = getattr(n.op, "short_name", "")
    if name == "if_then_else":
        return operand(n.args[1]).join(operand(n.args[2]))
    if name == "shift_left" and type(n.args[1]) is IntImm and 0 <= n.args[1].value < n.dtype.bits:
        scale = ModularSet(0, 1 << n.args[1].value)
        return operand(n.args[0]).times(scale).modulo(_width(n.dtype))
    if name == "bitwise_and":
        masks = [operand(a) for a in n.args]
        # Below the lowest bit that a mask may have set, all bits are 0.
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


def learned(equation: Linear, context: Context) -> Iterator[tuple[Term, ModularSet]]:
    """Yield residue classes of terms, and of their parts, that follow from `equation == 0`."""
    for term, c in equation.terms.items():
        if reads_memory(term):
            continue
        rest = Linear({t: d for t, d in equation.terms.items() if t is not term}, equation.const)
        others = residue_of(rest, context)
        if others.coeff % c == 0 and others.base % c == 0:
            found = residue(abs(others.coeff // c), -(others.base // c))
            yield term, found
            yield from _inside(term, found, context)


def _inside(term: Term, found: ModularSet, context: Context) -> Iterator[tuple[Term, ModularSet]]:
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
