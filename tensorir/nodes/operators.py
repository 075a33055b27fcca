"""The operators of Python on expressions: they build nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

if TYPE_CHECKING:
    from tensorir.nodes.expr import PrimExpr

ExprLike: TypeAlias = Union["PrimExpr", "EqualOp", int, float, bool]

smart: Final[dict[str, Callable[..., Any]]] = {}
"""Constructors by name, that methods of nodes call and modules built on the nodes put here.

`tensorir.nodes.ops` gives the smart ones of operators, `tensorir.nodes.stmt` that of stores.
"""


def _of_two(name: str) -> Callable[[Any, ExprLike], PrimExpr]:
    def operator(self: Any, other: ExprLike) -> PrimExpr:
        return smart[name](self, other)  # type: ignore[no-any-return]

    return operator


def _reflected_operator(name: str) -> Callable[[Any, ExprLike], PrimExpr]:
    def operator(self: Any, other: ExprLike) -> PrimExpr:
        return smart[name](other, self)  # type: ignore[no-any-return]

    return operator


class Operators:
    """A value of a program; its operators are the smart constructors."""

    __slots__ = ()

    __add__, __radd__ = _of_two("add"), _reflected_operator("add")
    __sub__, __rsub__ = _of_two("sub"), _reflected_operator("sub")
    __mul__, __rmul__ = _of_two("mul"), _reflected_operator("mul")
    __truediv__, __rtruediv__ = _of_two("div"), _reflected_operator("div")
    __floordiv__, __rfloordiv__ = _of_two("floordiv"), _reflected_operator("floordiv")
    __mod__, __rmod__ = _of_two("floormod"), _reflected_operator("floormod")
    __lshift__, __rlshift__ = _of_two("shift_left"), _reflected_operator("shift_left")
    __rshift__, __rrshift__ = _of_two("shift_right"), _reflected_operator("shift_right")
    __and__, __rand__ = _of_two("bitwise_and"), _reflected_operator("bitwise_and")
    __or__, __ror__ = _of_two("bitwise_or"), _reflected_operator("bitwise_or")
    __xor__, __rxor__ = _of_two("bitwise_xor"), _reflected_operator("bitwise_xor")
    __lt__, __le__, __gt__, __ge__ = _of_two("lt"), _of_two("le"), _of_two("gt"), _of_two("ge")

    def __neg__(self) -> PrimExpr:
        return smart["mul"](self, -1)  # type: ignore[no-any-return]

    def __invert__(self) -> PrimExpr:
        return smart["bitwise_not"](self)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> EqualOp:  # type: ignore[override]
        return EqualOp(self, other, True)

    def __ne__(self, other: object) -> EqualOp:  # type: ignore[override]
        return EqualOp(self, other, False)

    __hash__ = object.__hash__

    def is_same(self, other: object) -> bool:
        """Say what `==` is as a condition of Python: whether `other` is this object."""
        return self is other

    def astype(self, dtype: str) -> PrimExpr:
        """Return the value converted to `dtype`."""
        return smart["cast"](dtype, self)  # type: ignore[no-any-return]


class EqualOp:
    """The deferred result of `a == b` or `a != b` on expressions outside the dialect.

    Used as a condition of Python it compares identity (immediates by value), so that nodes work
    as dictionary keys; used as an operand it becomes an `EQ` or `NE` node.
    """

    __slots__ = ("a", "b", "equal")

    def __init__(self, a: Operators, b: object, equal: bool) -> None:
        self.a, self.b, self.equal = a, b, equal

    def __bool__(self) -> bool:
        return self.a.is_same(self.b) is self.equal

    def as_expr(self) -> PrimExpr:
        """Return the comparison as an expression."""
        return smart["eq" if self.equal else "ne"](self.a, self.b)  # type: ignore[no-any-return]
