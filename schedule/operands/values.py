"""Operands that are numbers, text and other plain values, and checks of their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin

from schedule.errors import TraceTypeError
from schedule.operands.operand import Call, Operand, Parameter, ValueText, plain, python_number
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr

_OF_FLOATS: Final = (float, Sequence[float])
"""Types of which a whole number may be printed without a decimal point."""


class PlainOperand(Operand):
    """A value of the type in the annotation."""

    varies = False

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return a value of the type."""
        if not matches(param.annotation, value):
            call.refuse(path, type_text(param.annotation), value)
        return tuple(value) if isinstance(value, list) else value

    def checked(self, param: Parameter, value: Any, known: Mapping[str, Any], where: str) -> Any:
        """Return a value of the type; flags are stored as 0 and 1."""
        if param.annotation is bool and value in (0, 1):
            return bool(value)
        if not matches(param.annotation, value):
            raise TraceTypeError(
                f"TypeError: {where}: a value is {value!r}, but must be of type "
                f"{type_text(param.annotation)}"
            )
        return plain(value)

    def text(self, param: Parameter, value: Any, names: ValueText) -> str:
        """Return a value as Python."""
        return names.value(value, keep_type=param.annotation not in _OF_FLOATS)

    def type_text(self, param: Parameter) -> str:
        """Return the type in the annotation."""
        annotation = _without_metadata(param.annotation)
        return inspect.formatannotation(annotation).replace("collections.abc.", "")


class NumbersOperand(Operand):
    """Constant or sampled numbers; None is accepted, too."""

    what = "whole number"
    expected = "an int, an ExprRV or None"
    expected_list = "a list of int, ExprRV or None"
    stub = "int | ExprRV | None"

    def fits(self, value: Any) -> bool:
        """Return whether a value is a number or None."""
        return value is None or is_whole(value) or isinstance(value, PrimExpr)

    def accept_one(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return a number or None."""
        return plain(super().accept_one(call, param, path, value))


class IntsOperand(Operand):
    """A list of whole numbers."""

    varies = False
    is_list = True
    what = "whole number"
    expected = "an int"
    expected_list = "a list of ints"
    stub = "Sequence[int]"

    def fits(self, value: Any) -> bool:
        """Return whether a value is a whole number."""
        return is_whole(value)


class AnnotationOperand(Operand):
    """A value of an annotation: text, a number, or a list or dict of those."""

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return a value of the type in the annotation."""
        if not matches(param.annotation, value):
            call.refuse(path, type_text(param.annotation), value)
        if isinstance(value, (list, tuple)):
            each = enumerate(value)
            return tuple([self.accept(call, param, f"{path}[{k}]", v) for k, v in each])
        if isinstance(value, Mapping):
            pairs = value.items()
            return {str(k): self.accept(call, param, f"{path}[{k!r}]", v) for k, v in pairs}
        if not isinstance(value, (str, int, float, PrimExpr)):
            call.refuse(path, "a str, int, float, ExprRV, or a list or dict of those", value)
        return python_number(value) if isinstance(value, (IntImm, FloatImm)) else value


def is_whole(value: Any) -> bool:
    """Return True if a value is an integer and not a bool."""
    return type(value) is int


# ----------------------------------------------------------------------------------------- types


def matches(annotation: Any, value: Any) -> bool:
    """Return True if a value has the annotated type."""
    return _test_of(annotation)(value)


@cache
def _test_of(annotation: Any) -> Callable[[Any], bool]:
    """Return the test for a type, cached since many values have the same type."""
    annotation = _without_metadata(annotation)
    origin = get_origin(annotation)
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
    annotation = _without_metadata(annotation)
    text = getattr(annotation, "__name__", None) or str(annotation)
    return text.replace("typing.", "").replace("collections.abc.", "")


def _without_metadata(annotation: Any) -> Any:
    """Return the type in an annotation without its metadata."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
