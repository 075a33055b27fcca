"""The operators that a call of a graph function may name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tensorir.errors import IRValueError

if TYPE_CHECKING:
    from tensorir.relax.expr import GraphExpr
    from tensorir.relax.struct_info import StructInfo

Infer: TypeAlias = (
    "Callable[[Sequence[GraphExpr], Mapping[str, Any], Sequence[StructInfo]], StructInfo]"
)
"""The function that infers the result from arguments, attributes and stated struct infos.

Raises IRTypeError or IRValueError for operands that do not go together."""


class Operator:
    """An operator; `name` starts with `relax.`, and there is one object a name.

    `pure` says that a call only gives a value, so that it may be dropped, repeated or moved.
    """

    __slots__ = ("infer", "name", "pure")
    _table: Final[dict[str, Operator]] = {}

    def __init__(self, name: str, infer: Infer, pure: bool) -> None:
        self.name = name
        self.infer = infer
        self.pure = pure

    @staticmethod
    def register(name: str, infer: Infer, *, pure: bool = True) -> Operator:
        """Add an operator; IRValueError if there is one of that name."""
        if name in Operator._table:
            raise IRValueError(f"operator {name} is registered already")
        operator = Operator._table[name] = Operator(name, infer, pure)
        return operator

    @staticmethod
    def get(name: str) -> Operator:
        """Return the operator called `name`, with or without `relax.`; IRValueError if none is."""
        full = name if name.startswith("relax.") else f"relax.{name}"
        found = Operator._table.get(full)
        if found is None:
            close = difflib.get_close_matches(full, Operator._table, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise IRValueError(f"there is no operator {full}{hint}")
        return found

    @staticmethod
    def exists(name: str) -> bool:
        """Say whether there is an operator of that name, which is without `relax.`."""
        return f"relax.{name}" in Operator._table

    @staticmethod
    def names() -> list[str]:
        """Return the names of all operators, without `relax.`."""
        return [name.removeprefix("relax.") for name in Operator._table]

    @property
    def short_name(self) -> str:
        """The name without `relax.`."""
        return self.name.removeprefix("relax.")

    def __repr__(self) -> str:
        return f"Operator({self.name})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Pickle by name: an operator is one object a process."""
        return (Operator.get, (self.name,))
