"""The operators that a call of a graph function may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

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

LIBRARY_PREFIX: Final = "tensorir.op."
"""What the library functions of operators are called, before the operator's name."""

_DECLARING: Final = ["tensorir.topi", "tensorir.relax.composites", "tensorir.relax.library"]
"""The packages that declare operators; they are loaded where a name is asked for first."""


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
        return Operator(name, infer, pure).added()

    def added(self) -> Self:
        """Add the operator to the table; IRValueError if there is one of its name."""
        if self.name in Operator.table:
            raise IRValueError(f"operator {self.name} is registered already")
        Operator.table[self.name] = self
        return self

    @classmethod
    def get(cls, name: str) -> Self:
        """Return the operator called `name`, prefix or not; IRValueError if none is."""
        if name not in cls.table and cls.prefix + name not in cls.table:
            _load_declarations()
        return super().get(name)

    @classmethod
    def exists(cls, name: str) -> bool:
        """Say whether there is an operator of this name, which is without the prefix."""
        return super().exists(name) or (_load_declarations() and super().exists(name))

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all operators, without the prefix."""
        _load_declarations()
        return super().names()

    def shown_attrs(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the attributes of a call that a script has to name."""
        return attrs


def _load_declarations() -> bool:
    """Load the packages that declare operators; say whether that had to be done."""
    if not _DECLARING:
        return False
    names = list(_DECLARING)
    _DECLARING.clear()  # first: what is loaded asks for operators, too
    for name in names:
        import_module(name)
    return True
