"""The operators that a call of a graph function may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorir.errors import IRValueError
from tensorir.nodes.intrin import Named

if TYPE_CHECKING:
    from tensorir.relax.expr import GraphExpr
    from tensorir.relax.struct_info import StructInfo

Infer: TypeAlias = (
    "Callable[[Sequence[GraphExpr], Mapping[str, Any], Sequence[StructInfo]], StructInfo]"
)
"""The function that infers the result from arguments, attributes and stated struct infos.

Raises IRTypeError or IRValueError for operands that do not go together."""


class Operator(Named):
    """An operator; `name` starts with `relax.`, and there is one object a name.

    `pure` says that a call only gives a value, so that it may be dropped, repeated or moved.
    """

    __slots__ = ("infer", "pure")
    prefix, what, table = "relax.", "operator", {}

    def __init__(self, name: str, infer: Infer, pure: bool) -> None:
        self.name = name
        self.infer = infer
        self.pure = pure

    @staticmethod
    def register(name: str, infer: Infer, *, pure: bool = True) -> Operator:
        """Add an operator; IRValueError if there is one of that name."""
        if name in Operator.table:
            raise IRValueError(f"operator {name} is registered already")
        operator = Operator.table[name] = Operator(name, infer, pure)
        return operator
