"""The operators that graph functions call."""

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

Raises IRTypeError or IRValueError for operands that do not match."""

LIBRARY_PREFIX: Final = "tensorir.op."
"""The prefix of the names of operators' library functions."""

_DECLARING: Final = ["tensorir.topi", "tensorir.relax.composites", "tensorir.relax.library"]
"""The packages that declare operators; they are loaded on the first lookup."""


class Operator(Named):
    """An operator; `name` starts with `relax.`, and each name has one object.

    `pure` is True if a call has no effects, so that it may be dropped, repeated or moved.
    """

    __slots__ = ("infer", "pure")
    prefix, what, table = "relax.", "operator", {}

    def __init__(self, name: str, infer: Infer, pure: bool) -> None:
        self.name = name
        self.infer = infer
        self.pure = pure

    @staticmethod
    def register(name: str, infer: Infer, *, pure: bool = True) -> Operator:
        """Register an operator. Raises IRValueError if the name is taken."""
        return Operator(name, infer, pure).added()

    def added(self) -> Self:
        """Register the operator. Raises IRValueError if its name is taken."""
        if self.name in Operator.table:
            raise IRValueError(f"operator {self.name} is registered already")
        Operator.table[self.name] = self
        return self

    @classmethod
    def get(cls, name: str) -> Self:
        """Return the operator called `name`, with or without prefix; IRValueError if unknown."""
        if name not in cls.table and cls.prefix + name not in cls.table:
            _load_declarations()
        return super().get(name)

    @classmethod
    def exists(cls, name: str) -> bool:
        """Return True if there is an operator with this name, given without the prefix."""
        return super().exists(name) or (_load_declarations() and super().exists(name))

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all operators, without the prefix."""
        _load_declarations()
        return super().names()

    def shown_attrs(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the attributes of a call that a script has to print."""
        return attrs


def _load_declarations() -> bool:
    """Load the packages that declare operators; return True if they were not loaded before."""
    if not _DECLARING:
        return False
    names = list(_DECLARING)
    _DECLARING.clear()  # set first: loading the declarations looks up operators, too
    for name in names:
        import_module(name)
    return True
