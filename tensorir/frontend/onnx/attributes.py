"""The attributes of a node, as the values that its converter accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.model_file import Model
from tensorir.frontend.onnx.schemas import onnx_package


def attribute_values(
    attributes: Iterable[Any], given: Mapping[str, Any], model: Model
) -> dict[str, Any]:
    """Return attributes by name: numbers, strings, `Constant`s, messages, or tuples of these.

    `given` is as in `present_attributes`. Raises IRValueError for a repeated attribute.
    """
    result = {}
    for name, message in present_attributes(attributes, given):
        if name in result:
            raise IRValueError(f"the attribute {name} is given twice")
        result[name] = _value(message, model)
    return result


def present_attributes(
    attributes: Iterable[Any], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the names of a node's attributes and the messages that have their values.

    An attribute in a function body may refer to an attribute that the function was `given` as a
    message; it is absent if the caller of the function did not pass it.
    """
    for attribute in attributes:
        message = attribute
        if attribute.ref_attr_name:
            message = given.get(attribute.ref_attr_name)
        if message is not None:
            yield attribute.name, message


def _value(attribute: Any, model: Model) -> Any:
    try:
        value = onnx_package().helper.get_attribute_value(attribute)
    except ValueError as error:
        raise IRValueError(
            f"attribute {attribute.name!r} has the unknown type {attribute.type}"
        ) from error
    return tuple(_plain(v, model) for v in value) if _is_list(value) else _plain(value, model)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _plain(value: Any, model: Model) -> Any:
    if isinstance(value, bytes):
        return _text(value)
    return model.tensor(value) if isinstance(value, onnx_package().TensorProto) else value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise IRValueError(f"{value!r} is not UTF-8 text") from error
