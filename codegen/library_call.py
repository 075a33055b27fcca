"""A call of a library function in compiled code, as data that travels with the machine code.

Compiled code calls Python with the number of the call in its function and the address of an array
of 8-byte slots: slot 0 takes the result, then follow the values that only running tells, in the
order of the arguments: of an array its address, then its symbolic extents and its strides, of a
scalar its value as int64, uint64 or float64. Everything else stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tensorir.nodes.dtype import DataType

Extent: TypeAlias = int | None
"""None for an extent that is passed in a slot."""


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array: `strides` are in elements, None for compact row-major."""

    dtype: DataType
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...] | None


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number, and how its slot is read."""

    kind: Literal["int", "uint", "float", "bool"]


@dataclass(frozen=True, slots=True)
class TextArgument:
    """A string, which is the same in each call."""

    text: str


Argument: TypeAlias = ArrayArgument | ScalarArgument | TextArgument


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A place in a program that calls a library function."""

    function: str
    """The name under which the function is registered."""
    arguments: tuple[Argument, ...]
    wants_result: bool
    """True if the program uses the result of the function, an int32."""


def call_to_data(call: LibraryCall) -> list[Any]:
    """Return a call in the types of JSON."""
    return [call.function, call.wants_result, [_argument_to_data(a) for a in call.arguments]]


def call_from_data(data: list[Any]) -> LibraryCall:
    """Return the call that `call_to_data` made data of."""
    function, wants_result, arguments = data
    return LibraryCall(function, tuple(_argument_from_data(a) for a in arguments), wants_result)


def _argument_to_data(argument: Argument) -> list[Any]:
    if isinstance(argument, ArrayArgument):
        return ["array", str(argument.dtype), argument.shape, argument.strides]
    if isinstance(argument, ScalarArgument):
        return ["scalar", argument.kind]
    return ["text", argument.text]


def _argument_from_data(data: list[Any]) -> Argument:
    if data[0] == "array":
        dtype, shape, strides = data[1:]
        return ArrayArgument(
            DataType(dtype), tuple(shape), None if strides is None else tuple(strides)
        )
    return ScalarArgument(data[1]) if data[0] == "scalar" else TextArgument(data[1])
