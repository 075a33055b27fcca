"""Whether a value has the type that the annotation of a primitive's parameter gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Union, get_args, get_origin


def matches(annotation: Any, value: Any) -> bool:
    """Say whether a value has the type that an annotation gives."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return matches(get_args(annotation)[0], value)
    if annotation is Any:
        return True
    if origin is Union or type(annotation).__name__ == "UnionType":
        return any(matches(a, value) for a in get_args(annotation))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        element = (get_args(annotation) or (Any,))[0]
        return isinstance(value, (list, tuple)) and all(matches(element, v) for v in value)
    if annotation is None or annotation is type(None):
        return value is None
    if annotation is float:
        return isinstance(value, (int, float))
    if annotation is int:
        return isinstance(value, int)
    return isinstance(value, annotation)


def type_text(annotation: Any) -> str:
    """Return how an error calls a type."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return getattr(annotation, "__name__", None) or str(annotation).replace("typing.", "")
