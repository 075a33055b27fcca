"""The linear part of an index as written in the program, without analysis.

Far cheaper than the analyzer's normal form, for code that reads thousands of indices and may miss
indices that are linear only after simplification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorir.nodes.expr import Add, IntImm, Mul, PrimExpr, Sub, Var
from tensorir.rewriting.visit import uses_var


@dataclass(slots=True)
class Coefficients:
    """`sum(of[v] * v) + sum(factor * part) + constant`; the parts are not linear as written."""

    of: dict[Var, int] = field(default_factory=dict)
    constant: int = 0
    parts: list[tuple[PrimExpr, int]] = field(default_factory=list)

    def step(self, var: Var) -> int | None:
        """Return the coefficient of `var`; None if a nonlinear part contains `var`."""
        if any(uses_var(part, var) for part, _ in self.parts):
            return None
        return self.of.get(var, 0)

    def substitute(self, values: Mapping[Var, Coefficients]) -> Coefficients:
        """Return the sum with variables replaced by sums.

        Variables inside `parts` are not replaced.
        """
        result = Coefficients({}, self.constant, list(self.parts))
        of = result.of
        for var, factor in self.of.items():
            value = values.get(var)
            if value is None:
                of[var] = of.get(var, 0) + factor
                continue
            result.constant += factor * value.constant
            result.parts.extend((part, factor * scale) for part, scale in value.parts)
            for inner, scale in value.of.items():
                of[inner] = of.get(inner, 0) + factor * scale
        return result


def coefficients(expr: PrimExpr) -> Coefficients:
    """Return the coefficients of an integer expression."""
    if type(expr) is Var:
        return Coefficients({expr: 1}, 0, [])
    result = Coefficients({}, 0, [])
    _add_coefficients(expr, 1, result)
    return result


def _add_coefficients(expr: PrimExpr, factor: int, into: Coefficients) -> None:
    # The input is mostly long sums, whose last terms are variables, scaled or not.
    while type(expr) is Add:
        _add_coefficients(expr.a, factor, into)
        expr = expr.b
    if isinstance(expr, Var):
        into.of[expr] = into.of.get(expr, 0) + factor
    elif isinstance(expr, Mul) and isinstance(expr.b, IntImm):
        _add_coefficients(expr.a, factor * expr.b.value, into)
    elif isinstance(expr, IntImm):
        into.constant += factor * expr.value
    elif isinstance(expr, Sub):
        _add_coefficients(expr.a, factor, into)
        _add_coefficients(expr.b, -factor, into)
    elif isinstance(expr, Mul) and isinstance(expr.a, IntImm):
        _add_coefficients(expr.b, factor * expr.a.value, into)
    else:
        into.parts.append((expr, factor))
