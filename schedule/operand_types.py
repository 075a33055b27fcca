"""The types of values that a trace records, and those that parameters of primitives take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from tensorir.nodes.expr import FloatImm, IntImm


def matches(annotation: Any, value: Any) -> bool:
    """Say whether a value has the type that an annotation gives."""
    return _test_of(annotation)(value)


@cache
def _test_of(annotation: Any) -> Callable[[Any], bool]:
    """Return the test for a type; there are few types, and many values."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _test_of(get_args(annotation)[0])
    if annotation is Any:
        return lambda value: True
    if origin is Union or type(annotation).__name__ == "UnionType":
        tests = [_test_of(part) for part in get_args(annotation)]
        return lambda value: any(test(value) for test in tests)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        each = _test_of((get_args(annotation) or (Any,))[0])
        return lambda value: isinstance(value, (list, tuple)) and all(map(each, value))
    if annotation is None:
        return lambda value: value is None
    kind = (int, float) if annotation is float else annotation
    return lambda value: isinstance(value, kind)


def type_text(annotation: Any) -> str:
    """Return the name of a type in an error."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return getattr(annotation, "__name__", None) or str(annotation).replace("typing.", "").replace(
        "collections.abc.", ""
    )


def python_number(value: IntImm | FloatImm) -> bool | int | float:
    """Return a constant as the Python value that a trace records."""
    return bool(value.value) if value.dtype.is_bool else value.value
