"""The package `onnx`, and its definitions of operators: inputs, outputs and attributes."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from tensorir.errors import IRTypeError, IRValueError


def domain_of(proto: Any) -> str:
    """Return the domain of a node or function; "ai.onnx" is another name of ""."""
    return "" if proto.domain == "ai.onnx" else str(proto.domain)


def check_texts(*texts: object) -> None:
    """Raise IRValueError for names of a message that are not valid UTF-8."""
    for text in texts:
        if not isinstance(text, str):
            raise IRValueError(f"the name {text!r} is not UTF-8 text")


def schema_of(proto: Any, opset: int) -> Any:
    """Return the schema of a node's operator in a version; None if ONNX has none."""
    defs, domain = onnx_package().defs, domain_of(proto)
    if not defs.has(proto.op_type, domain):
        return None
    try:
        return defs.get_schema(proto.op_type, opset, domain)
    except defs.SchemaError:
        return None  # that version lacks the operator


def check_node(proto: Any, schema: Any) -> None:
    """Check the number of inputs and outputs of a node, and the types of its attributes.

    Raises IRValueError or IRTypeError for a node that does not match its schema.
    """
    for what, count, least, most in (
        ("input", len(proto.input), schema.min_input, schema.max_input),
        ("output", len(proto.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            bounds = str(least) if least == most else f"{least} to {most}"
            raise IRValueError(f"expected {bounds} {what}(s), got {count}")
    for attribute in proto.attribute:
        stated = schema.attributes.get(attribute.name)
        if stated is None:
            raise IRValueError(
                f"unknown attribute {attribute.name}; the attributes are "
                + (", ".join(sorted(schema.attributes)) or "none")
            )
        wanted, kinds = stated.type.value, onnx_package().AttributeProto.AttributeType
        if attribute.type != wanted and not attribute.ref_attr_name:
            raise IRTypeError(
                f"the attribute {attribute.name} is of kind {_kind(kinds, attribute.type)}, "
                f"not {_kind(kinds, wanted)}"
            )
    given = {attribute.name for attribute in proto.attribute}
    for name, stated in schema.attributes.items():
        if stated.required and name not in given:
            raise IRValueError(f"the attribute {name} is missing")


def _kind(kinds: Any, number: int) -> str:
    return str(kinds.Name(number)) if number in kinds.values() else str(number)


@cache
def onnx_package() -> Any:
    """Return the package `onnx`.

    Raises IRValueError, with the install command, if it is missing.
    """
    try:
        package = import_module("onnx")
        for part in ("checker", "defs", "external_data_helper", "helper", "numpy_helper"):
            import_module(f"onnx.{part}")
    except ImportError as error:
        raise IRValueError(
            "reading an ONNX model requires the package onnx; install it by "
            "pip install 'tensorir[onnx]'"
        ) from error
    return package
