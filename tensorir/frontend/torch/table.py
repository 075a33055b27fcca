"""The table from operators of torch to functions over values of a graph function.

    @aten("addmm.default")
    def addmm(self, mat1, mat2, beta, alpha):
        return scaled(beta, self) + scaled(alpha, mat1 @ mat2)

Parameters are arguments of the operator's schema, by name, in any order; an argument that a call
leaves out has the default of the schema. `result`, where a function asks for it, is the struct info
of what torch says the call gives, and `matched(value, struct_info)` a variable that has it, where
that depends on data; `**others` takes the arguments that do not matter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from tensorir.errors import IRTypeError, IRValueError
from tensorir.relax.expr import GraphExpr, GraphVar
from tensorir.relax.struct_info import StructInfo

Match: TypeAlias = Callable[[GraphExpr, StructInfo], GraphVar]
F = TypeVar("F", bound=Callable[..., Any])

PLACEMENT: Final = frozenset(
    {"device", "layout", "memory_format", "pin_memory", "non_blocking", "copy", "is_coalesced"}
)
"""Arguments that say where and how the elements lie, not what they are."""


@dataclass(frozen=True)
class Converter:
    """A function that converts calls of an operator, and the arguments that it takes."""

    function: Callable[..., Any]
    parameters: frozenset[str]
    takes_all: bool

    def __call__(
        self,
        schema: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: StructInfo | None,
        matched: Match,
    ) -> Any:
        """Return what the function gives for a call.

        `schema` is torch's of the operator, `result` what it gives; `matched` emits a `match_cast`.
        Raises IRTypeError for an argument that matters and that the function does not take.
        """
        given = dict(zip((a.name for a in schema.arguments), args, strict=False))
        given.update(kwargs)
        bound: dict[str, Any] = {}
        for argument in schema.arguments:
            name = argument.name
            value = given.get(name, argument.default_value)
            if name in self.parameters or self.takes_all:
                bound[name] = value
            elif name not in PLACEMENT and not _says_nothing(value, argument):
                raise IRTypeError(f"the argument {name}={value!r} is not supported")
        told = {"result": result, "matched": matched}
        bound.update((name, value) for name, value in told.items() if name in self.parameters)
        return self.function(**bound)


def _says_nothing(value: Any, argument: Any) -> bool:
    """Say whether an argument has the value that it has where it is left out."""
    return value is None or (argument.has_default_value() and value == argument.default_value)


TABLE: Final[dict[str, Converter]] = {}
"""Converters by the operator's full name, such as `aten.add.Tensor`."""


def converter(*names: str) -> Callable[[F], F]:
    """Register a function for operators by their full names; IRValueError if one has another.

    >>> @converter("mylib.double.default")            # doctest: +SKIP
    ... def double(x):
    ...     return x + x
    """

    def register(function: F) -> F:
        parameters = inspect.signature(function).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        made = Converter(function, frozenset(parameters), takes_all)
        for name in names:
            if name in TABLE:
                raise IRValueError(f"there is a converter of {name} already")
            TABLE[name] = made
        return function

    return register


def aten(*names: str) -> Callable[[F], F]:
    """Register a function for operators of ATen, named without the namespace: `add.Tensor`."""
    return converter(*(f"aten.{name}" for name in names))


def unsupported(names: Iterable[tuple[str, str]]) -> IRValueError | None:
    """Return the error for operators that have no converter, None if all have one.

    `names` are pairs of an operator and the name of a node that calls it.
    """
    nodes: dict[str, list[str]] = {}
    for operator, node in names:
        if operator not in TABLE:
            nodes.setdefault(operator, []).append(node)
    if not nodes:
        return None
    lines = [
        f"  {operator}: {len(where)} ({', '.join(where[:5])}{', ...' if len(where) > 5 else ''})"
        for operator, where in sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return IRValueError(
        f"the model has {len(nodes)} operator(s) that are not supported:\n"
        + "\n".join(lines)
        + "\n"
        "A converter of one's own is registered by tensorir.frontend.torch.converter."
    )
