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


class Operators:
    """Something that stands for a value; its operators are the smart constructors."""

    __slots__ = ()

    def __add__(self, other: ExprLike) -> PrimExpr:
        return smart["add"](self, other)  # type: ignore[no-any-return]

    def __radd__(self, other: ExprLike) -> PrimExpr:
        return smart["add"](other, self)  # type: ignore[no-any-return]

    def __sub__(self, other: ExprLike) -> PrimExpr:
        return smart["sub"](self, other)  # type: ignore[no-any-return]

    def __rsub__(self, other: ExprLike) -> PrimExpr:
        return smart["sub"](other, self)  # type: ignore[no-any-return]

    def __mul__(self, other: ExprLike) -> PrimExpr:
        return smart["mul"](self, other)  # type: ignore[no-any-return]

    def __rmul__(self, other: ExprLike) -> PrimExpr:
        return smart["mul"](other, self)  # type: ignore[no-any-return]

    def __truediv__(self, other: ExprLike) -> PrimExpr:
        return smart["div"](self, other)  # type: ignore[no-any-return]

    def __rtruediv__(self, other: ExprLike) -> PrimExpr:
        return smart["div"](other, self)  # type: ignore[no-any-return]

    def __floordiv__(self, other: ExprLike) -> PrimExpr:
        return smart["floordiv"](self, other)  # type: ignore[no-any-return]

    def __rfloordiv__(self, other: ExprLike) -> PrimExpr:
        return smart["floordiv"](other, self)  # type: ignore[no-any-return]

    def __mod__(self, other: ExprLike) -> PrimExpr:
        return smart["floormod"](self, other)  # type: ignore[no-any-return]

    def __rmod__(self, other: ExprLike) -> PrimExpr:
        return smart["floormod"](other, self)  # type: ignore[no-any-return]

    def __neg__(self) -> PrimExpr:
        return smart["mul"](self, -1)  # type: ignore[no-any-return]

    def __lshift__(self, other: ExprLike) -> PrimExpr:
        return smart["shift_left"](self, other)  # type: ignore[no-any-return]

    def __rlshift__(self, other: ExprLike) -> PrimExpr:
        return smart["shift_left"](other, self)  # type: ignore[no-any-return]

    def __rshift__(self, other: ExprLike) -> PrimExpr:
        return smart["shift_right"](self, other)  # type: ignore[no-any-return]

    def __rrshift__(self, other: ExprLike) -> PrimExpr:
        return smart["shift_right"](other, self)  # type: ignore[no-any-return]

    def __and__(self, other: ExprLike) -> PrimExpr:
        return smart["bitwise_and"](self, other)  # type: ignore[no-any-return]

    def __rand__(self, other: ExprLike) -> PrimExpr:
        return smart["bitwise_and"](other, self)  # type: ignore[no-any-return]

    def __or__(self, other: ExprLike) -> PrimExpr:
        return smart["bitwise_or"](self, other)  # type: ignore[no-any-return]

    def __ror__(self, other: ExprLike) -> PrimExpr:
        return smart["bitwise_or"](other, self)  # type: ignore[no-any-return]

    def __xor__(self, other: ExprLike) -> PrimExpr:
        return smart["bitwise_xor"](self, other)  # type: ignore[no-any-return]

    def __rxor__(self, other: ExprLike) -> PrimExpr:
        return smart["bitwise_xor"](other, self)  # type: ignore[no-any-return]

    def __invert__(self) -> PrimExpr:
        return smart["bitwise_not"](self)  # type: ignore[no-any-return]

    def __lt__(self, other: ExprLike) -> PrimExpr:
        return smart["lt"](self, other)  # type: ignore[no-any-return]

    def __le__(self, other: ExprLike) -> PrimExpr:
        return smart["le"](self, other)  # type: ignore[no-any-return]

    def __gt__(self, other: ExprLike) -> PrimExpr:
        return smart["gt"](self, other)  # type: ignore[no-any-return]

    def __ge__(self, other: ExprLike) -> PrimExpr:
        return smart["ge"](self, other)  # type: ignore[no-any-return]

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
