"""The table of converters: for an ONNX operator the function that gives its expression.

    @onnx_operator("Gemm")
    def gemm(
        node: OnnxNode, a: GraphExpr, b: GraphExpr, c: GraphExpr | None = None,
        *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
    ) -> GraphExpr:

Inputs come by position, None for one that is not given; attributes by keyword, with the names of
ONNX. A converter takes the attributes that it names: others are refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from tensorir.errors import IRValueError
from tensorir.relax.expr import GraphExpr

F = TypeVar("F", bound=Callable[..., Any])

Result: TypeAlias = "GraphExpr | Sequence[GraphExpr | None]"
"""What a converter gives: the one output, or the outputs in order."""

_CONVERTERS: Final[dict[tuple[str, str], Converter]] = {}


class Converter(NamedTuple):
    """A converter, and what it takes."""

    function: Callable[..., Result]
    required: int
    """The inputs that have to be given."""
    most: int | None
    """The most inputs, None for any number."""
    attributes: frozenset[str]
    required_attributes: frozenset[str]
    named: int
    """The inputs that have a name each; of any number behind them, all have to be given."""

    def __call__(
        self, node: Any, inputs: Sequence[GraphExpr | None], attributes: Mapping[str, Any]
    ) -> Result:
        """Convert a node; IRValueError for inputs and attributes that do not fit."""
        given = len(inputs)
        if given < self.required or None in inputs[: self.required]:
            raise IRValueError(f"{self.required} input(s) must be given, got {_shown(inputs)}")
        if self.most is None and None in inputs[self.named :]:
            raise IRValueError(f"{given} input(s) must be given, got {_shown(inputs)}")
        if self.most is not None and any(value is not None for value in inputs[self.most :]):
            raise IRValueError(f"at most {self.most} input(s) may be given, got {given}")
        for name in attributes:
            if name not in self.attributes:
                raise IRValueError(
                    f"the attribute {name} is not supported; those that are: "
                    + (", ".join(sorted(self.attributes)) or "none")
                )
        for name in sorted(self.required_attributes - attributes.keys()):
            raise IRValueError(f"the attribute {name} is missing")
        return self.function(node, *inputs[: self.most], **attributes)


def onnx_operator(*names: str, domain: str = "") -> Callable[[F], F]:
    """Add a converter for operators of a domain; IRValueError if there is one already."""

    def register(function: F) -> F:
        for name in names:
            if (domain, name) in _CONVERTERS:
                raise IRValueError(f"there is a converter of {shown_name(name, domain)} already")
            _CONVERTERS[domain, name] = _converter(function)
        return function

    return register


def converter_of(name: str, domain: str) -> Converter | None:
    """Return the converter of an operator, None if there is none."""
    _load()
    return _CONVERTERS.get((domain, name))


def converted_operators() -> list[tuple[str, str]]:
    """Return the operators that have converters, as (domain, name) in order."""
    _load()
    return sorted(_CONVERTERS)


def shown_name(name: str, domain: str) -> str:
    """Return an operator's name as messages show it."""
    return f"{domain}.{name}" if domain else name


@cache
def _load() -> None:
    import_module("tensorir.frontend.onnx.converters")


def _converter(function: Callable[..., Any]) -> Converter:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    has_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return Converter(
        function,
        sum(p.default is p.empty for p in positional),
        None if has_any else len(positional),
        frozenset(p.name for p in named),
        frozenset(p.name for p in named if p.default is p.empty),
        len(positional),
    )


def _shown(inputs: Sequence[GraphExpr | None]) -> str:
    return ", ".join("none" if value is None else str(value.struct_info) for value in inputs) or "0"
