"""Types of variables, the base class of expressions, and its leaves: variables and constants.

`tensorir.nodes.expr` exports all expression nodes, including these.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import HANDLE, INT32, DataType
from tensorir.nodes.float_format import FORMATS
from tensorir.nodes.node import Node, label
from tensorir.nodes.operators import Operators


class Type(Node):
    """A type used in annotations."""

    __slots__ = ()


class PrimType(Type):
    """The type of a scalar or vector value."""

    fields = ("dtype",)
    __slots__ = fields

    def __init__(self, dtype: str) -> None:
        self.dtype = DataType(dtype)


class PointerType(Type):
    """A pointer to elements of `element_type` in `storage_scope` (`""` means global)."""

    fields = ("element_type", "storage_scope")
    __slots__ = fields

    def __init__(self, element_type: Type, storage_scope: str = "") -> None:
        self.element_type = element_type
        self.storage_scope = storage_scope

    @property
    def is_fragment(self) -> bool:
        """True for fragments of tensor cores, which the threads of a warp have together."""
        return self.storage_scope == "warp" or self.storage_scope.startswith("wmma.")


class TupleType(Type):
    """A tuple; without fields it is the type of a function that returns nothing."""

    fields = ("elements",)
    __slots__ = fields

    def __init__(self, elements: Iterable[Type] = ()) -> None:
        self.elements = tuple(elements)


class PrimExpr(Operators, Node):
    """A scalar or vector value of type `dtype`."""

    __slots__ = ("dtype",)
    dtype: DataType
    describes = True

    def __bool__(self) -> bool:
        raise IRValueError(
            "an expression has no truth value while the program is being built; "
            "use T.if_then_else, T.Select, T.And or T.Or instead of if, and, or, not"
        )


# ------------------------------------------------------------------------------------- variables


class Var(PrimExpr):
    """A variable; it is identified by the object, not by its name.

    `annotation` is a dtype or a `Type`; a pointer type gives dtype `handle`.
    """

    fields = ("dtype", "type_annotation", label("name"))
    is_variable = True
    __slots__ = ("name", "type_annotation")

    def __init__(self, name: str, annotation: str | Type = INT32) -> None:
        self.name = name
        if isinstance(annotation, Type):
            self.dtype = annotation.dtype if isinstance(annotation, PrimType) else HANDLE
            self.type_annotation: Type | None = annotation
        else:
            self.dtype = DataType(annotation)
            self.type_annotation = None

    @property
    def name_hint(self) -> str:
        """The name, under TVM's field name."""
        return self.name

    def with_name(self, name: str) -> Var:
        """Return a fresh variable of the same type."""
        return type(self)(name, self.type_annotation or self.dtype)


class SizeVar(Var):
    """A variable that is assumed to be at least 0."""

    __slots__ = ()


# ------------------------------------------------------------------------------------ immediates


class IntImm(PrimExpr):
    """An integer (or bool) constant."""

    fields = ("dtype", "value")
    __slots__ = ("value",)

    def __init__(self, dtype: str, value: int) -> None:
        dtype = DataType(dtype)
        if not dtype.is_integral or dtype.lanes != 1:
            raise IRTypeError(f"IntImm takes a scalar integer dtype, got {dtype}")
        low, high = integer_limits(dtype)
        if not low <= value <= high:
            bound = "maximum" if value > high else "minimum"
            raise IRValueError(f"Literal value {value} exceeds {bound} of {dtype}")
        self.dtype = dtype
        self.value = int(value)

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0

    def is_same(self, other: object) -> bool:
        """Return True if `other` is the same number."""
        return _is_number(other, self.value)


class FloatImm(PrimExpr):
    """A floating-point constant; `value` is a Python float (64 bits)."""

    fields = ("dtype", "value")
    __slots__ = ("value",)

    def __init__(self, dtype: str, value: float) -> None:
        dtype = DataType(dtype)
        if not dtype.is_floating or dtype.lanes != 1:
            raise IRTypeError(f"FloatImm takes a scalar floating point dtype, got {dtype}")
        value = float(value)
        if FORMATS[dtype].largest < abs(value) < float("inf"):
            raise IRValueError(f"Literal value {value} exceeds maximum of {dtype}")
        self.dtype = dtype
        self.value = value

    def __float__(self) -> float:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0

    def is_same(self, other: object) -> bool:
        """Return True if `other` is the same number."""
        return _is_number(other, self.value)


def _is_number(value: object, number: float) -> bool:
    if isinstance(value, (IntImm, FloatImm)):
        value = value.value
    return isinstance(value, (int, float)) and value == number


class StringImm(PrimExpr):
    """A string constant, as an argument of a call."""

    fields = ("value",)
    __slots__ = fields

    def __init__(self, value: str) -> None:
        self.dtype = HANDLE
        self.value = value


def integer_limits(dtype: DataType) -> tuple[int, int]:
    """Return the minimum and maximum of an integer dtype."""
    if dtype.is_int:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1
