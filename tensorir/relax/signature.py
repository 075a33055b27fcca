"""The arguments of an operator, from the signature of the Python function that declares it.

An annotation determines the kind of a parameter:

    Tensor, GraphExpr, ndarray    an operand: a tensor
    Tensor | PrimExpr             an operand; a constant number is passed as a number. A plain one
                                  has the dtype of the first tensor among such operands, or of all
    Sequence[Tensor]              an operand: a tuple of tensors
    Sequence[PrimExpr]            an operand: a shape, of numbers or symbolic sizes
    Sequence[int | PrimExpr]      an operand: a tuple of integers, which may be negative
    PrimExpr                      an operand: a number, perhaps symbolic
    DTypeName                     an attribute: the name of a dtype
    anything else                 an attribute: int, float, bool, str, Literal, sequences of them

`| None` makes it optional. Operands are the arguments of a `GraphCall` (an empty tuple replaces an
absent operand before others), attributes its `attrs`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr, StringImm
from tensorir.relax.expr import (
    Constant,
    DataTypeValue,
    GraphExpr,
    PrimValue,
    ShapeExpr,
    StringValue,
    Tuple,
    const_of,
    tensor_info,
)
from tensorir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    is_void,
)
from tensorir.te.tensor import Tensor

DTypeName: TypeAlias = Annotated[str, DataType]
"""The annotation of an attribute that is a dtype."""

ABSENT: Final = Tuple(())
"""The placeholder for an absent optional operand that others follow."""


class Kind(Enum):
    """The kinds of parameters of operators."""

    TENSOR = "a tensor"
    VALUE = "a tensor or a number"
    TENSORS = "a tuple of tensors"
    SHAPE = "a shape"
    INTEGERS = "a tuple of integers"
    SCALAR = "a number"
    ATTRIBUTE = "an attribute"


class Parameter(NamedTuple):
    """A parameter of an operator."""

    name: str
    kind: Kind
    hint: Any
    default: Any
    optional: bool
    """True if it may be None."""

    @property
    def required(self) -> bool:
        """True if a call must pass it."""
        return self.default is inspect.Parameter.empty


class Signature:
    """The parameters of an operator, from the annotations of a function."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        hints = get_type_hints(function, include_extras=True)
        self.parameters = tuple(
            _parameter(name, p, hints[p.name])
            for p in inspect.signature(function).parameters.values()
        )
        self.operands = tuple(p for p in self.parameters if p.kind is not Kind.ATTRIBUTE)
        self.attributes = tuple(p for p in self.parameters if p.kind is Kind.ATTRIBUTE)

    def bind(self, given: Mapping[str, Any]) -> tuple[list[GraphExpr], dict[str, Any]]:
        """Return the operands and attributes of a call; attributes include defaults.

        Raises IRTypeError for missing arguments and arguments of the wrong kind.
        """
        number_operands = [
            given[p.name] for p in self.operands if p.kind is Kind.VALUE and p.name in given
        ]
        dtype = _common_dtype(number_operands) or _common_dtype(given.values())
        operands: list[GraphExpr] = []
        for p in self.operands:
            value = given.get(p.name, None if p.required else p.default)
            if value is None or (_is_absent(value) and (p.optional or p.kind not in _TUPLES)):
                self._check_absent(p)
                operands.append(ABSENT)
            else:
                operands.append(self._operand(p, value, dtype))
        while operands and operands[-1] is ABSENT:
            operands.pop()
        attrs = {}
        for p in self.attributes:
            if p.name not in given and p.required:
                raise IRTypeError(f"{self.name} needs {p.name}: {self}")
            attrs[p.name] = self._attribute(p, given[p.name]) if p.name in given else p.default
        return operands, attrs

    def arguments(self, args: Sequence[GraphExpr], attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the function for a call: operands as graph values, or None.

        Raises IRTypeError for a wrong number of operands or unknown attributes.
        """
        if len(args) > len(self.operands):
            raise IRTypeError(f"{self.name} got {len(args)} operands, expected {self}")
        result: dict[str, Any] = {}
        for k, p in enumerate(self.operands):
            value = args[k] if k < len(args) else ABSENT
            if _is_absent(value) and (p.optional or p.kind not in _TUPLES):
                self._check_absent(p)
                result[p.name] = None
            else:
                result[p.name] = self._plain(p, value)
        for name in attrs:
            if name not in {p.name for p in self.attributes}:
                raise IRTypeError(self._unknown(name))
        for p in self.attributes:
            result[p.name] = attrs.get(p.name, p.default)
        return result

    def shown_attrs(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes that are not their defaults."""
        defaults = {p.name: p.default for p in self.attributes}
        return {
            name: value
            for name, value in attrs.items()
            if name not in defaults
            or type(value) is not type(defaults[name])
            or value != defaults[name]
        }

    def __str__(self) -> str:
        words = [p.name + ("" if p.required else f"={p.default!r}") for p in self.parameters]
        return f"{self.name}({', '.join(words)})"

    # -------------------------------------------------------------------------------------- binding

    def by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by the names of parameters.

        Raises IRTypeError for superfluous arguments.
        """
        if len(args) > len(self.parameters):
            raise IRTypeError(f"{self.name} got {len(args)} arguments by position: {self}")
        given = {p.name: value for p, value in zip(self.parameters, args, strict=False)}
        known = {p.name for p in self.parameters}
        for name, value in kwargs.items():
            if name not in known:
                raise IRTypeError(self._unknown(name))
            if name in given:
                raise IRTypeError(f"{self.name} got {name} twice: {self}")
            given[name] = value
        return given

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, [p.name for p in self.parameters], 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"{self.name} has no argument {name}: {self}{hint}"

    def _check_absent(self, p: Parameter) -> None:
        if not p.optional:
            raise IRTypeError(f"{self.name} needs {p.name}, {p.kind.value}: {self}")

    def _operand(self, p: Parameter, value: Any, dtype: str | None) -> GraphExpr:
        created = _convert_operand(p.kind, value, dtype)
        if created is None:
            raise IRTypeError(
                f"{p.name} of {self.name} must be {p.kind.value}, got {_describe_value(value)}"
            )
        return created

    def _plain(self, p: Parameter, value: GraphExpr) -> Any:
        """Return an operand in the form that the declaring function expects."""
        info = value.struct_info
        if p.kind is Kind.SHAPE and isinstance(info, ShapeStructInfo) and info.values is not None:
            return info.values
        if p.kind is Kind.SCALAR and isinstance(info, PrimStructInfo) and info.value is not None:
            return info.value
        if p.kind is Kind.TENSORS and isinstance(value, Tuple):
            return value.elements
        if p.kind is Kind.INTEGERS and isinstance(value, Tuple):
            return tuple(v.value for v in value.elements if isinstance(v, PrimValue))
        if p.kind is Kind.TENSORS and isinstance(value.struct_info, TupleStructInfo):
            return tuple(value)
        if p.kind in (Kind.SHAPE, Kind.SCALAR, *_TUPLES):
            raise IRTypeError(
                f"{p.name} of {self.name} must be {p.kind.value} whose parts are known, "
                f"got {value.struct_info}"
            )
        if not isinstance(value.struct_info, TensorStructInfo):
            raise IRTypeError(f"{p.name} of {self.name} must be a tensor, got {value.struct_info}")
        return value

    def _attribute(self, p: Parameter, value: Any) -> Any:
        found = _converted(p.hint, _python_value(value))
        if found is _NO:
            raise IRTypeError(
                f"{p.name} of {self.name} must be {_describe_hint(p.hint)}, got {value!r}"
            )
        return found


def _parameter(operator: str, p: inspect.Parameter, hint: Any) -> Parameter:
    members = set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
    optional = NoneType in members
    kind = _kind(frozenset(members - {NoneType}))
    if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
        raise IRValueError(f"parameter {p.name} of operator {operator} must not be variadic")
    return Parameter(p.name, kind, hint, p.default, optional)


_TENSORS: Final = (Tensor, GraphExpr)
_TUPLES: Final = (Kind.TENSORS, Kind.INTEGERS)


def _kind(members: frozenset[Any]) -> Kind:
    if members - {int} == {PrimExpr}:
        return Kind.SCALAR
    if members == {Sequence[PrimExpr]}:
        return Kind.SHAPE
    if members == {Sequence[int | PrimExpr]}:
        return Kind.INTEGERS
    for tensor in _TENSORS:
        if members == {tensor}:
            return Kind.TENSOR
        if members == {tensor, PrimExpr}:
            return Kind.VALUE
        if members == {Sequence[tensor]}:  # type: ignore[valid-type]
            return Kind.TENSORS
    if all(get_origin(member) is np.ndarray for member in members):
        return Kind.TENSOR
    return Kind.ATTRIBUTE


# ---------------------------------------------------------------------------------------- operands


def _is_absent(value: Any) -> bool:
    return value is None or (isinstance(value, GraphExpr) and is_void(value.struct_info))


def _common_dtype(values: Any) -> str | None:
    """Return the dtype of the first tensor among the values, which plain numbers adopt."""
    for value in values:
        if isinstance(value, (tuple, list)):
            found = _common_dtype(value)
            if found is not None:
                return found
        info = value.struct_info if isinstance(value, GraphExpr) else None
        if isinstance(info, TensorStructInfo):
            return info.dtype
    return None


def _convert_operand(kind: Kind, value: Any, dtype: str | None) -> GraphExpr | None:
    """Return an operand of a kind, converted from an argument; None if that is impossible."""
    if kind in (Kind.TENSOR, Kind.VALUE):
        return _tensor(value, dtype)
    if kind is Kind.TENSORS:
        if isinstance(value, (tuple, list)):
            fields = [_tensor(v, dtype) for v in value]
            return Tuple([f for f in fields if f is not None]) if None not in fields else None
        is_tuple = isinstance(value, GraphExpr) and isinstance(value.struct_info, TupleStructInfo)
        return value if is_tuple else None
    if kind is Kind.SHAPE:
        if isinstance(value, (int, PrimExpr, PrimValue)):
            value = [value]
        if isinstance(value, (tuple, list)):
            return ShapeExpr([v.value if isinstance(v, PrimValue) else _integer(v) for v in value])
        if isinstance(value, Tuple):
            return _convert_operand(kind, value.elements, dtype)
        if isinstance(value, GraphExpr) and isinstance(value.struct_info, ShapeStructInfo):
            return value
        return None
    if kind is Kind.INTEGERS:
        return _integers(value)
    if isinstance(value, PrimValue):
        return value
    if isinstance(value, Constant) and value.source.shape == ():
        return PrimValue(_immediate(value))
    if type(value) is float and dtype == "float64":
        return PrimValue(FloatImm(dtype, value))
    return PrimValue(value) if isinstance(value, (int, float, PrimExpr)) else None


def _integers(value: Any) -> GraphExpr | None:
    """Return a tuple of integers as an operand; None for other values."""
    if isinstance(value, Tuple):
        value = value.elements
    if isinstance(value, ShapeExpr):
        value = value.values
    if isinstance(value, (int, PrimExpr, PrimValue)):
        value = [value]
    if not isinstance(value, (tuple, list, np.ndarray)):
        return None
    parts = [_convert_operand(Kind.SCALAR, _integer(v), None) for v in value]
    found = [p for p in parts if isinstance(p, PrimValue) and p.value.dtype.is_integral]
    return Tuple(found) if len(found) == len(parts) else None


def _tensor(value: Any, dtype: str | None) -> GraphExpr | None:
    if isinstance(value, PrimValue) and isinstance(value.value, (IntImm, FloatImm)):
        value = value.value.value
    if isinstance(value, GraphExpr):
        is_tensor = not isinstance(value, (ShapeExpr, StringValue, DataTypeValue, PrimValue))
        return value if is_tensor else None
    if isinstance(value, (IntImm, FloatImm)):
        value = value.value
    if type(value) in (bool, int, float):
        return const_of(value, dtype)
    if isinstance(value, (np.ndarray, np.generic)):
        return Constant(value)
    return None


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else value


def immediate(value: GraphExpr) -> PrimExpr | None:
    """Return the number in a constant of rank 0; None for any other value."""
    if not isinstance(value, Constant) or value.source.shape != ():
        return None
    info = tensor_info(value)
    return None if str(value.data.dtype) != info.dtype else _immediate(value)


def _immediate(value: Constant) -> PrimExpr:
    info = tensor_info(value)
    assert info.dtype is not None
    number = value.data.item()
    if info.dtype.is_floating:
        return FloatImm(info.dtype, float(number))
    return IntImm(info.dtype, int(number))


# -------------------------------------------------------------------------------------- attributes

_NO: Final = object()


def _python_value(value: Any) -> Any:
    """Return an attribute as a Python value; numbers of scripts and of NumPy are converted."""
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        kept = value.value
        return bool(kept) if isinstance(value, IntImm) and value.dtype.is_bool else kept
    if isinstance(value, (PrimValue, StringValue)):
        return _python_value(value.value)
    if isinstance(value, DataTypeValue):
        return str(value.value)
    if isinstance(value, Constant) and value.source.shape == ():
        return value.data.item()
    if isinstance(value, ShapeExpr):
        return tuple(map(_python_value, value.values))
    if isinstance(value, Tuple):
        return tuple(map(_python_value, value.elements))
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim == 0 else tuple(map(_python_value, value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return tuple(map(_python_value, value))
    return getattr(value, "dtype", value) if type(value).__name__ == "DtypeForm" else value


def _converted(hint: Any, value: Any) -> Any:
    """Return a value converted to a type hint; `_NO` if it does not fit."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        members = get_args(hint)
        if NoneType in members and value in (None, "void", ""):
            return None
        exact = [_converted(m, value) for m in members]
        same = [v for v in exact if v is not _NO and type(v) is type(value)]
        return next(iter([*same, *(v for v in exact if v is not _NO)]), _NO)
    if origin is Literal:
        return value if value in get_args(hint) else _NO
    if origin is Annotated:
        return _dtype_name(value)
    if origin is Sequence or origin is tuple:
        if not isinstance(value, tuple):
            return _NO
        items = [_converted(get_args(hint)[0], v) for v in value]
        return _NO if any(item is _NO for item in items) else tuple(items)
    if hint is Any:
        return value
    if hint is bool:
        return bool(value) if value in (0, 1) and isinstance(value, (bool, int)) else _NO
    if hint is int:
        return value if type(value) is int else _NO
    if hint is float:
        return float(value) if type(value) in (int, float) else _NO
    if hint is str:
        return str(value) if isinstance(value, str) else _NO
    return value if hint is NoneType and value is None else _NO


def _dtype_name(value: Any) -> Any:
    try:
        return str(DataType(value)) if isinstance(value, str) else _NO
    except ValueError:
        return _NO


def _describe_hint(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_describe_hint, get_args(hint)))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if origin is Annotated:
        return "a dtype such as 'float32'"
    if origin is Sequence:
        return f"a list of {_describe_hint(get_args(hint)[0])}"
    return "None" if hint is NoneType else str(getattr(hint, "__name__", hint))


def _describe_value(value: Any) -> str:
    if isinstance(value, GraphExpr):
        return str(value.struct_info)
    return f"{type(value).__name__} {value!r}"
