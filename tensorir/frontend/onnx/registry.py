"""The table of converters: it maps an ONNX operator to the function that returns its expression.

    @onnx_operator("Gemm")
    def gemm(
        node: OnnxNode, a: GraphExpr, b: GraphExpr, c: GraphExpr | None = None,
        *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
    ) -> GraphExpr:

Inputs are positional, None for an absent input; attributes are keywords with ONNX's names. A
converter accepts only the attributes in its signature; attributes that several operators share are
a `TypedDict`: `**windows: Unpack[Windows]`. A converter that is one expression is a row:

    onnx_operators({
        "Relu": lambda node, x: op.nn.relu(x),
        "LeakyRelu": lambda node, x, *, alpha=0.01: op.nn.leakyrelu(x, alpha),
    })

A converter of an operator that ONNX defines by a function returns None for a use that is left to
that function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, get_args, get_type_hints

from tensorir.errors import IRValueError
from tensorir.relax.expr import GraphExpr

F = TypeVar("F", bound=Callable[..., Any])

Result: TypeAlias = "GraphExpr | Sequence[GraphExpr | None] | None"
"""The result of a converter: the only output, or the outputs in order; None for no result."""

_CONVERTERS: Final[dict[tuple[str, str], Converter]] = {}


class Converter(NamedTuple):
    """A converter and the inputs and attributes that it accepts."""

    function: Callable[..., Result]
    required: int
    """The number of required inputs."""
    most: int | None
    """The maximum number of inputs, None for any number."""
    attributes: frozenset[str]
    required_attributes: frozenset[str]
    named: int
    """The number of inputs that have a named parameter; inputs in `*others` are all required."""

    def __call__(
        self, node: Any, inputs: Sequence[GraphExpr | None], attributes: Mapping[str, Any]
    ) -> Result:
        """Convert a node.

        Raises IRValueError for inputs and attributes that the signature lacks.
        """
        given = len(inputs)
        if given < self.required or None in inputs[: self.required]:
            raise IRValueError(f"{self.required} input(s) must be given, got {_infos_text(inputs)}")
        if self.most is None and None in inputs[self.named :]:
            raise IRValueError(f"{given} input(s) must be given, got {_infos_text(inputs)}")
        if self.most is not None and any(value is not None for value in inputs[self.most :]):
            raise IRValueError(f"at most {self.most} input(s) may be given, got {given}")
        for name in attributes:
            if name not in self.attributes:
                raise IRValueError(
                    f"the attribute {name} is not supported; supported are: "
                    + (", ".join(sorted(self.attributes)) or "none")
                )
        for name in sorted(self.required_attributes - attributes.keys()):
            raise IRValueError(f"the attribute {name} is missing")
        return self.function(node, *inputs[: self.most], **attributes)


def onnx_operator(*names: str, domain: str = "") -> Callable[[F], F]:
    """Register a converter for operators of a domain.

    Raises IRValueError for a second converter.
    """

    def register(function: F) -> F:
        for name in names:
            if (domain, name) in _CONVERTERS:
                raise IRValueError(f"{shown_name(name, domain)} already has a converter")
            _CONVERTERS[domain, name] = _converter(function)
        return function

    return register


def onnx_operators(converters: Mapping[str, Callable[..., Result]], domain: str = "") -> None:
    """Register converters by the names of their operators."""
    for name, function in converters.items():
        onnx_operator(name, domain=domain)(function)


def converter_of(name: str, domain: str) -> Converter | None:
    """Return the converter of an operator; None if it has none."""
    _load()
    return _CONVERTERS.get((domain, name))


def shown_name(name: str, domain: str) -> str:
    """Return an operator's name for messages."""
    return f"{domain}.{name}" if domain else name


@cache
def _load() -> None:
    import_module("tensorir.frontend.onnx.converters")


def _converter(function: Callable[..., Any]) -> Converter:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    shared = [p.name for p in parameters if p.kind is p.VAR_KEYWORD]
    hints = get_type_hints(function) if shared else {}
    attributes = {name for p in shared for name in get_type_hints(get_args(hints[p])[0])}
    has_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return Converter(
        function,
        sum(p.default is p.empty for p in positional),
        None if has_any else len(positional),
        frozenset(attributes.union(p.name for p in named)),
        frozenset(p.name for p in named if p.default is p.empty),
        len(positional),
    )


def _infos_text(inputs: Sequence[GraphExpr | None]) -> str:
    return ", ".join("none" if value is None else str(value.struct_info) for value in inputs) or "0"
