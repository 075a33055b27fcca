"""The state of `BlockBuilder` for one function: bodies, names, visible values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorir.errors import IRValueError
from tensorir.relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    GraphExpr,
    GraphVar,
    SeqExpr,
    Tuple,
)
from tensorir.relax.function import Function


class UniqueNames:
    """Generates unique names: `lv`, `lv1`, `lv2`; a dot becomes an underscore.

    `separator` is put between the name and the number.
    """

    def __init__(self, taken: Iterable[str] = (), separator: str = "") -> None:
        self._taken = set(taken)
        self._separator = separator
        self._next: dict[str, int] = {}

    def unique(self, prefix: str) -> str:
        """Return a name that starts with `prefix`."""
        base = name = prefix.replace(".", "_")
        while name in self._taken:
            number = self._next[base] = self._next.get(base, 0) + 1
            name = f"{base}{self._separator}{number}"
        self._taken.add(name)
        return name


class Scope:
    """A body under construction: the complete blocks, and the bindings after them."""

    def __init__(self) -> None:
        self.blocks: list[BindingBlock] = []
        self.bindings: list[Binding] = []
        self.in_dataflow = False
        self.visible: set[GraphVar] = set()
        """The variables that the body has bound so far and that are visible now."""
        self.emitted: dict[GraphExpr, GraphVar] = {}
        """The variables of nested expressions, by identity of the expression."""

    def close_block(self) -> None:
        """Turn the bindings since the last block into a block."""
        kind = DataflowBlock if self.in_dataflow else BindingBlock
        self.blocks.append(kind(self.bindings))
        self.bindings = []

    def sequence(self, body: GraphExpr) -> SeqExpr:
        """Return the body as a sequence with the result `body`."""
        self.close_block()
        return SeqExpr.rebuilt(self.blocks, body)


class Frame:
    """The function under construction."""

    def __init__(
        self, name: str, params: Sequence[GraphVar] | None, attrs: Mapping[str, Any], pure: bool
    ) -> None:
        self.name = name
        self.attrs = attrs
        self.pure = pure
        self.params: tuple[GraphVar, ...] | None = None
        self.names = UniqueNames()
        self.scopes = [Scope()]
        self.values: dict[GraphVar, GraphExpr] = {}
        self.free: dict[GraphVar, None] = {}
        """Variables used before the parameters were set.

        `check_free` checks that they are parameters.
        """
        self.result: Function | None = None
        if params is not None:
            self.set_params(params)

    def set_params(self, params: Sequence[GraphVar]) -> None:
        """Set the parameters."""
        checked = Function(params, SeqExpr([], Tuple([]))).params
        if len(set(checked)) != len(checked):
            raise IRValueError(f'function "{self.name}" has one variable as parameter twice')
        self.params = checked
        for param in checked:
            self.names.unique(param.name)

    def is_visible(self, value: GraphExpr) -> bool:
        """Return True if a leaf is visible now."""
        if not isinstance(value, GraphVar) or value in (self.params or ()):
            return True
        return any(value in scope.visible for scope in self.scopes)

    def use(self, value: GraphExpr) -> None:
        """Check that a leaf is visible. Raises IRValueError for a variable that is not."""
        if self.is_visible(value):
            return
        assert isinstance(value, GraphVar)
        if self.params is None and value not in self.values:
            self.free[value] = None
        else:
            raise self._undefined(value)

    def check_free(self) -> None:
        """Check the variables that were used before the parameters were known."""
        for var in self.free:
            if var not in (self.params or ()):
                raise self._undefined(var)

    def _undefined(self, var: GraphVar) -> IRValueError:
        if isinstance(var, DataflowVar):
            return IRValueError(
                f'function "{self.name}" uses {var.name}, which is local to its dataflow block; '
                "make it an output of the block with emit_output"
            )
        return IRValueError(
            f'function "{self.name}" uses {var.name}, which is not one of its parameters and '
            "was not emitted in it, or only in a branch; emit it before it is used"
        )
