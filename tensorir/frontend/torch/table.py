"""The table that maps torch operators to functions over values of a graph function.

    @aten("addmm.default")
    def addmm(self, mat1, mat2, beta, alpha):
        return scaled(beta, self) + scaled(alpha, mat1 @ mat2)

Parameters are arguments of the operator's schema, by name, in any order; an argument that a call
omits has the default of the schema. A parameter `result` receives the struct info that torch
reports for the call. A parameter `matched` receives a function: `matched(value, struct_info)`
returns a variable with that struct info, for results whose shape depends on data; a third argument
names the variable. A parameter `numbers` receives the variables of numbers from tensors that may be
negative. `**others` accepts arguments that the converter ignores.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import Var
from tensorir.relax.expr import GraphVar
from tensorir.relax.struct_info import StructInfo

Match: TypeAlias = Callable[..., GraphVar]
F = TypeVar("F", bound=Callable[..., Any])

PLACEMENT: Final = frozenset(
    {"device", "layout", "memory_format", "pin_memory", "non_blocking", "copy", "is_coalesced"}
)
"""Arguments about the placement and layout of elements, which do not affect their values."""


@dataclass(frozen=True)
class Converter:
    """A function that converts calls of an operator, and the arguments that it accepts."""

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
        numbers: Collection[Var],
    ) -> Any:
        """Return the converted call.

        `schema` is the operator's schema in torch, `result` its result; `matched` emits a
        `match_cast`; `numbers` are variables that may be negative. Raises IRTypeError for an
        argument that the function lacks, unless it may be ignored.
        """
        given = dict(zip((a.name for a in schema.arguments), args, strict=False))
        given.update(kwargs)
        bound: dict[str, Any] = {}
        for argument in schema.arguments:
            name = argument.name
            value = given.get(name, argument.default_value)
            if name in self.parameters or self.takes_all:
                bound[name] = value
            elif name not in PLACEMENT and not _is_default(value, argument):
                raise IRTypeError(f"the argument {name}={value!r} is not supported")
        extras = {"result": result, "matched": matched, "numbers": numbers}
        bound.update((name, value) for name, value in extras.items() if name in self.parameters)
        return self.function(**bound)


def _is_default(value: Any, argument: Any) -> bool:
    """Return True if an argument has its default value."""
    return value is None or (argument.has_default_value() and value == argument.default_value)


TABLE: Final[dict[str, Converter]] = {}
"""Converters by the operator's full name, such as `aten.add.Tensor`."""


def converter(*names: str) -> Callable[[F], F]:
    """Register a function for operators by their full names. Raises IRValueError for a second one.

    >>> @converter("mylib.double.default")            # doctest: +SKIP
    ... def double(x):
    ...     return x + x
    """

    def register(function: F) -> F:
        parameters = inspect.signature(function).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        created = Converter(function, frozenset(parameters), takes_all)
        for name in names:
            if name in TABLE:
                raise IRValueError(f"{name} already has a converter")
            TABLE[name] = created
        return function

    return register


def aten(*names: str) -> Callable[[F], F]:
    """Register a function for operators of ATen, named without the namespace: `add.Tensor`."""
    return converter(*(f"aten.{name}" for name in names))


def aten_rows(converters: Mapping[str, Callable[..., Any]]) -> None:
    """Register functions for operators of ATen; a key has names that are separated by spaces."""
    for names, function in converters.items():
        aten(*names.split())(function)


def unsupported(names: Iterable[tuple[str, str]]) -> IRValueError | None:
    """Return the error for operators without a converter; None if all have a converter.

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
        "Register a converter with tensorir.frontend.torch.converter."
    )
