"""The Python operators on expressions, which build nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

if TYPE_CHECKING:
    from tensorir.nodes.expr import PrimExpr

ExprLike: TypeAlias = Union["PrimExpr", "EqualOp", int, float, bool]

smart: Final[dict[str, Callable[..., Any]]] = {}
"""Constructors by name: methods of nodes call them, modules that import the nodes register them.

`tensorir.nodes.ops` registers the smart constructors, `tensorir.nodes.stmt` registers the
constructor of stores.
"""


def _binary_operator(name: str) -> Callable[[Any, ExprLike], PrimExpr]:
    def operator(self: Any, other: ExprLike) -> PrimExpr:
        return smart[name](self, other)  # type: ignore[no-any-return]

    return operator


def _reflected_operator(name: str) -> Callable[[Any, ExprLike], PrimExpr]:
    def operator(self: Any, other: ExprLike) -> PrimExpr:
        return smart[name](other, self)  # type: ignore[no-any-return]

    return operator


class Operators:
    """A value of a program; its Python operators call the smart constructors."""

    __slots__ = ()

    __add__, __radd__ = _binary_operator("add"), _reflected_operator("add")
    __sub__, __rsub__ = _binary_operator("sub"), _reflected_operator("sub")
    __mul__, __rmul__ = _binary_operator("mul"), _reflected_operator("mul")
    __truediv__, __rtruediv__ = _binary_operator("div"), _reflected_operator("div")
    __floordiv__, __rfloordiv__ = _binary_operator("floordiv"), _reflected_operator("floordiv")
    __mod__, __rmod__ = _binary_operator("floormod"), _reflected_operator("floormod")
    __lshift__, __rlshift__ = _binary_operator("shift_left"), _reflected_operator("shift_left")
    __rshift__, __rrshift__ = _binary_operator("shift_right"), _reflected_operator("shift_right")
    __and__, __rand__ = _binary_operator("bitwise_and"), _reflected_operator("bitwise_and")
    __or__, __ror__ = _binary_operator("bitwise_or"), _reflected_operator("bitwise_or")
    __xor__, __rxor__ = _binary_operator("bitwise_xor"), _reflected_operator("bitwise_xor")
    __lt__, __le__, __gt__, __ge__ = (
        _binary_operator("lt"),
        _binary_operator("le"),
        _binary_operator("gt"),
        _binary_operator("ge"),
    )

    def __neg__(self) -> PrimExpr:
        return smart["negative"](self)  # type: ignore[no-any-return]

    def __invert__(self) -> PrimExpr:
        return smart["bitwise_not"](self)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> EqualOp:  # type: ignore[override]
        return EqualOp(self, other, True)

    def __ne__(self, other: object) -> EqualOp:  # type: ignore[override]
        return EqualOp(self, other, False)

    __hash__ = object.__hash__

    def is_same(self, other: object) -> bool:
        """Return the truth value of `==` in Python code: True if `other` is this object."""
        return self is other

    def astype(self, dtype: str) -> PrimExpr:
        """Return the value converted to `dtype`."""
        return smart["cast"](dtype, self)  # type: ignore[no-any-return]


class EqualOp:
    """The deferred result of `a == b` or `a != b` on expressions outside the dialect.

    As a condition in Python code it compares identity (immediates by value), so that nodes can be
    dictionary keys; as an operand it becomes an `EQ` or `NE` node.
    """

    __slots__ = ("a", "b", "equal")

    def __init__(self, a: Operators, b: object, equal: bool) -> None:
        self.a, self.b, self.equal = a, b, equal

    def __bool__(self) -> bool:
        return self.a.is_same(self.b) is self.equal

    def as_expr(self) -> PrimExpr:
        """Return the comparison as an expression."""
        return smart["eq" if self.equal else "ne"](self.a, self.b)  # type: ignore[no-any-return]
