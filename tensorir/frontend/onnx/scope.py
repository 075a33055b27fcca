"""The names of a graph that is being read, and their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorir.errors import IRValueError
from tensorir.relax.expr import GraphExpr


class Scope:
    """The names of a graph or function that is being read, and its enclosing scopes."""

    def __init__(
        self,
        opsets: Mapping[str, int],
        parent: Scope | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.opsets = opsets
        self.parent = parent
        self.attributes = attributes or {}
        """The attributes of the function, as messages."""
        self.values: dict[str, GraphExpr | None] = {}
        self.ranks: dict[str, int] = {}
        """The ranks of values that the model states."""

    def opset(self, domain: str) -> int:
        """Return the opset version of a domain; 1 if the model does not state it."""
        return self.opsets.get(domain, 1)

    def value(self, name: str) -> GraphExpr | None:
        """Return the value of a name; None for "". Raises IRValueError for an undefined name."""
        if not name:
            return None
        if name in self.values:
            return self.values[name]
        if self.parent is None:
            raise IRValueError(f"the value {name!r} is used before it is computed, or not at all")
        return self.parent.value(name)

    def bounded(self, taken: Callable[[GraphExpr], GraphExpr]) -> Scope:
        """Return a scope for graphs in a step function; `taken` converts values of this scope."""
        return _Boundary(self, taken)

    def define(self, name: str, value: GraphExpr | None) -> None:
        """Define a name. Raises IRValueError if it is already defined."""
        if name in self.values:
            raise IRValueError(f"the value {name!r} is computed twice")
        self.values[name] = value


class _Boundary(Scope):
    """The scope around a graph that becomes a separate function: its values become parameters."""

    def __init__(self, around: Scope, taken: Callable[[GraphExpr], GraphExpr]) -> None:
        super().__init__(around.opsets, around, around.attributes)
        self._taken = taken

    def value(self, name: str) -> GraphExpr | None:
        """Return the value inside of the function for a name of the enclosing scope."""
        value = super().value(name)
        return None if value is None else self._taken(value)


def stated_ranks(graph: Any) -> dict[str, int]:
    """Return the ranks that a graph states for its values."""
    return {
        info.name: len(info.type.tensor_type.shape.dim)
        for info in [*graph.value_info, *graph.output]
        if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape")
    }
