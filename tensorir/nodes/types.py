"""Types of variables and functions, as they occur in annotations."""

from __future__ import annotations

from collections.abc import Iterable

from tensorir.nodes.dtype import DataType
from tensorir.nodes.node import Node


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


class TupleType(Type):
    """A tuple; without fields it is the type of a function that returns nothing."""

    fields = ("elements",)
    __slots__ = fields

    def __init__(self, elements: Iterable[Type] = ()) -> None:
        self.elements = tuple(elements)
