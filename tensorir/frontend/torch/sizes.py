"""Symbolic numbers of torch: sizes become integer expressions, quotients become tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Final

import sympy
import torch

from tensorir.errors import IRValueError
from tensorir.frontend.torch.dtypes import as_tensor
from tensorir.nodes import ops
from tensorir.nodes.expr import EQ, GE, GT, LE, LT, NE, CmpOp, PrimExpr, Var
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr, const_of


def size_of(value: Any) -> Any:
    """Return an integer, or the sympy expression of a symbolic one."""
    if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)):
        return value.node.expr
    return sympy.Integer(value)


class Sizes:
    """The integer expressions for the symbols of a program.

    If a symbol is itself an extent of a parameter, it is the variable of that extent. If extents
    only contain it in expressions such as `2 * s`, it is computed from such an extent `n` as `n //
    2`, and a check requires that the extent equals `2 * (n // 2)`.
    """

    def __init__(self) -> None:
        self._symbols: dict[sympy.Symbol, PrimExpr] = {}
        self._measured: dict[sympy.Expr, Var] = {}
        """The variables of extents such as `2 * s` that define a symbol."""
        self.numbers: set[Var] = set()
        """The variables of numbers from tensors that may be negative."""

    def define(self, shapes: Iterable[Sequence[Any]]) -> None:
        """Define the symbols in the shapes of parameters."""
        extents = [size_of(n) for shape in shapes for n in shape]
        for extent in extents:
            if extent.is_Symbol:
                self.new(extent)
        for extent in extents:
            unknown = [symbol for symbol in extent.free_symbols if symbol not in self._symbols]
            if len(unknown) == 1:
                self._solve(extent, unknown[0])

    def _solve(self, extent: sympy.Expr, symbol: sympy.Symbol) -> None:
        """Define a symbol by an extent that is `factor * symbol + rest`."""
        factor = sympy.expand(extent).coeff(symbol, 1)
        rest = sympy.expand(extent - factor * symbol)
        if factor.is_Integer and factor > 0 and not rest.has(symbol):
            size = Var(f"n_{symbol}", "int64")
            self._measured[extent] = size
            self._symbols[symbol] = ops.floordiv(size - self(rest), int(factor))

    def new_number(self, symbol: sympy.Symbol, is_size: bool) -> PrimExpr:
        """Return the new variable of a number from a tensor; `is_size` if it is not negative."""
        number = self.new(symbol)
        if isinstance(number, Var) and not is_size:
            self.numbers.add(number)
        return number

    def new(self, symbol: sympy.Symbol) -> PrimExpr:
        """Return the expression of a symbol; an undefined symbol becomes a new variable."""
        return self._symbols.setdefault(symbol, Var(str(symbol), "int64"))

    def define_offset(self, offset: Any) -> None:
        """Define the symbol of the first element of a view as 0: a view is an array of its own."""
        if size_of(offset).is_Symbol:
            self._symbols.setdefault(size_of(offset), ops.as_expr(0).astype("int64"))

    @contextmanager
    def replaced(self, values: Iterable[tuple[torch.SymInt, PrimExpr | int]]) -> Iterator[None]:
        """Replace the symbols of a called graph by expressions of the caller, in a `with`
        statement.
        """
        given = {size_of(n): ops.as_expr(v) for n, v in values if size_of(n).is_Symbol}
        before = {symbol: self._symbols[symbol] for symbol in given if symbol in self._symbols}
        self._symbols |= given
        yield
        for symbol in given:
            del self._symbols[symbol]
        self._symbols |= before

    def __call__(self, value: Any) -> PrimExpr | int:
        """Return an integer of torch, or an expression of sympy, as an integer expression.

        Raises IRValueError for an undefined symbol, and for functions that integer expressions
        lack.
        """
        expr = value if isinstance(value, sympy.Basic) else size_of(value)
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            if expr not in self._symbols:
                raise IRValueError(
                    f"the size {expr} is used, but no shape of a parameter or result defines it"
                )
            return self._symbols[expr]
        if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
            return reduce(ops.mul, [self(expr.base)] * int(expr.exp))
        name = type(expr).__name__
        if name not in _FUNCTIONS:
            raise IRValueError(f"the size {expr} has the function {name}, which is not supported")
        return reduce(_FUNCTIONS[name], map(self, expr.args))

    def __contains__(self, symbol: sympy.Symbol) -> bool:
        return symbol in self._symbols

    def shape(self, extents: Iterable[Any]) -> list[PrimExpr | int]:
        """Return a shape."""
        return [self(n) for n in extents]

    def result_shape(self, extents: Iterable[Any]) -> list[PrimExpr | int]:
        """Return the shape of a result; an extent that is a new symbol defines it."""
        exprs = [size_of(n) for n in extents]
        return [self.new(n) if n.is_Symbol else self(n) for n in exprs]

    def parameter_shape(self, extents: Iterable[Any]) -> list[PrimExpr | int]:
        """Return the declared shape of a parameter.

        An extent that defines a symbol is its variable.
        """
        return [self._measured.get(n, self(n)) for n in map(size_of, extents)]

    def as_float(self, value: Any) -> GraphExpr:
        """Return a symbolic floating-point number as a float64 tensor without dimensions.

        Raises IRValueError for unsupported functions.
        """
        expr = value if isinstance(value, sympy.Basic) else size_of(value)
        if expr.is_Number:
            return const_of(float(expr), "float64")
        name = type(expr).__name__
        if name in _FLOAT_FUNCTIONS:
            return reduce(_FLOAT_FUNCTIONS[name], map(self.as_float, expr.args))
        if name in _FLOAT_UNARY:
            return _FLOAT_UNARY[name](self.as_float(expr.args[0]))
        return as_tensor(ops.as_expr(self(expr)), "float64")


def _compare(kind: type[CmpOp]) -> Callable[[Any, Any], PrimExpr]:
    return lambda a, b: ops.compare(kind, a, b)


_FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Add": ops.add,
    "Mul": ops.mul,
    "FloorDiv": ops.floordiv,
    "CleanDiv": ops.floordiv,
    "CeilDiv": ops.ceildiv,
    "Mod": ops.floormod,
    "PythonMod": ops.floormod,
    "Max": ops.max_,
    "Min": ops.min_,
    "And": ops.logical_and,
    "Or": ops.logical_or,
    "Equality": _compare(EQ),
    "Unequality": _compare(NE),
    "StrictLessThan": _compare(LT),
    "LessThan": _compare(LE),
    "StrictGreaterThan": _compare(GT),
    "GreaterThan": _compare(GE),
}
"""Functions of sympy and of torch by the names of their classes; sums have any number of terms."""

_FLOAT_FUNCTIONS: Final[dict[str, Callable[[GraphExpr, GraphExpr], GraphExpr]]] = {
    "Add": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
    "IntTrueDiv": lambda a, b: a / b,
    "FloatTrueDiv": lambda a, b: a / b,
    "Pow": lambda a, b: a**b,
    "FloatPow": lambda a, b: a**b,
}
_FLOAT_UNARY: Final[dict[str, Callable[[GraphExpr], GraphExpr]]] = {
    "ToFloat": lambda x: x,
    "OpaqueUnaryFn_sqrt": lambda x: op.sqrt(x),
    "OpaqueUnaryFn_exp": lambda x: op.exp(x),
    "OpaqueUnaryFn_log": lambda x: op.log(x),
}
