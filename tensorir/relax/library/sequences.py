"""Sequences and optional values: Python tuples of arrays, and None, at run time.

A sequence whose length is known while a graph function is built is a tuple of the graph function
and does not need this module. Any other sequence is an object (`R.Object`). The library functions
below access and create such objects, and also accept tuples of the graph function. `sequence_call`
calls them. Negative positions count from the end, as in Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRValueError
from tensorir.nodes.expr import PrimExpr
from tensorir.relax.calls import call_pure_packed
from tensorir.relax.declaration import library_call
from tensorir.relax.expr import GraphCall, GraphExpr, PrimValue, Tuple
from tensorir.relax.operator import LIBRARY_PREFIX
from tensorir.relax.struct_info import OBJECT, StructInfo


def sequence_call(
    name: str,
    *args: GraphExpr | PrimExpr | int | None,
    result: StructInfo = OBJECT,
) -> GraphCall:
    """Return the call of a function of this module by its name; None is an absent argument."""
    operands = [
        Tuple(()) if arg is None else arg if isinstance(arg, GraphExpr) else PrimValue(arg)
        for arg in args
    ]
    return call_pure_packed(LIBRARY_PREFIX + name, *operands, sinfo_args=result)


def _number(value: Any) -> int:
    return int(np.reshape(value, ()))


def _is_absent(value: Any) -> bool:
    return isinstance(value, tuple)


def _place(sequence: tuple[Any, ...], position: Any, most: int) -> int:
    """Return a position counted from the front. Raises IRValueError if it is out of range."""
    place = _number(position)
    if not -len(sequence) <= place < most:
        raise IRValueError(f"position {place} is out of range for a sequence of {len(sequence)}")
    return place % len(sequence) if place < 0 else place


def _copy(value: Any) -> Any:
    """Return a copy of a value: the memory of a call is freed before its result is."""
    if isinstance(value, tuple):
        return tuple(map(_copy, value))
    return value.copy() if isinstance(value, np.ndarray) else value


@library_call("sequence_at")
def sequence_at(sequence: tuple[Any, ...], position: Any) -> Any:
    """Return the element at a position."""
    return _copy(sequence[_place(sequence, position, len(sequence))])


@library_call("sequence_insert")
def sequence_insert(sequence: tuple[Any, ...], element: Any, position: Any) -> tuple[Any, ...]:
    """Return the sequence with an element inserted before a position (by default at the end)."""
    place = len(sequence)
    if not _is_absent(position):
        place = _place(sequence, position, len(sequence) + 1)
    return tuple(map(_copy, (*sequence[:place], element, *sequence[place:])))


@library_call("sequence_erase")
def sequence_erase(sequence: tuple[Any, ...], position: Any) -> tuple[Any, ...]:
    """Return the sequence without the element at a position (by default the last)."""
    place = len(sequence) - 1
    if not _is_absent(position):
        place = _place(sequence, position, len(sequence))
    return tuple(map(_copy, (*sequence[:place], *sequence[place + 1 :])))


@library_call("sequence_length")
def sequence_length(sequence: tuple[Any, ...]) -> NDArray[np.int64]:
    """Return the number of elements."""
    return np.array(len(sequence), np.int64)


@library_call("sequence_concat")
def sequence_concat(sequence: tuple[Any, ...], axis: int, new_axis: int) -> NDArray[Any]:
    """Return the elements concatenated along an axis, or stacked along a new one."""
    return np.stack(sequence, axis) if new_axis else np.concatenate(sequence, axis)


@library_call("sequence_split")
def sequence_split(
    x: NDArray[Any], lengths: Any, axis: int, keepdims: int
) -> tuple[NDArray[Any], ...]:
    """Return parts of a tensor along an axis, of given lengths, of one length, or of length 1."""
    if _is_absent(lengths):
        places = list(range(1, x.shape[axis]))
    elif np.ndim(lengths) == 0:
        places = list(range(_number(lengths), x.shape[axis], _number(lengths)))
    else:
        places = [int(n) for n in np.cumsum(lengths)[:-1]]
    parts = np.split(x, places, axis)
    if _is_absent(lengths) and not keepdims:
        parts = [np.squeeze(part, axis) for part in parts]
    return tuple(np.ascontiguousarray(part).reshape(part.shape) for part in parts)


@library_call("optional_none")
def optional_none() -> None:
    """Return an absent optional value."""


@library_call("optional_has_element")
def optional_has_element(value: Any) -> NDArray[np.bool_]:
    """Return True if an optional value is present, as an array."""
    return np.array(value is not None)


@library_call("optional_get_element")
def optional_get_element(value: Any) -> Any:
    """Return the content of an optional value. Raises IRValueError if it is absent."""
    if value is None:
        raise IRValueError("the optional value is absent")
    return _copy(value)
