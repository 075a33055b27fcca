"""The memory of a program: flat arrays, and the positions of the elements of buffers in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import TensorIRError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.node import Node
from tensorir.semantics import from_bits, to_bits

BFLOAT16: Final = DataType("bfloat16")


class InterpreterError(TensorIRError):
    """A program performed an invalid operation, such as an access out of bounds."""


def in_one_line(node: Node) -> str:
    """Return a statement or expression as messages show it: what it does first."""
    lines = [line for line in str(node).splitlines() if line and not _is_heading(line)]
    return lines[0].strip()


def _is_heading(line: str) -> bool:
    """Say whether a line of script declares the names that follow it."""
    return line.startswith("from ") or " = T.Buffer(" in line or line.endswith(" = T.int32()")


class Memory:
    """The target of a pointer: its element `k` is `cells[origin + k]`."""

    __slots__ = ("cells", "origin")

    def __init__(self, cells: NDArray[Any], origin: int = 0) -> None:
        self.cells = cells
        """One-dimensional."""
        self.origin = origin

    def after(self, count: int) -> Memory:
        """Return the pointer advanced by `count` elements."""
        return Memory(self.cells, self.origin + count)

    def of(self, kind: np.dtype[Any]) -> Memory:
        """Return the pointer to the same bytes as elements of another type."""
        if self.cells.dtype == kind or self.cells.dtype == object:
            return self
        start = self.origin * self.cells.itemsize
        return Memory(self.cells.view(kind), start // kind.itemsize)


class Layout(NamedTuple):
    """The layout of a buffer's elements: extents, and distances in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def span(self) -> int:
        """Return the number of elements of memory that the layout spans."""
        if 0 in self.shape:
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        return self.offset + 1 + sum((n - 1) * stride for n, stride in steps)


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of row-major memory without gaps."""
    strides = [1] * len(shape)
    for k in range(len(shape) - 1, 0, -1):
        strides[k - 1] = strides[k] * shape[k]
    return tuple(strides)


def fresh(count: int, dtype: DataType) -> Memory:
    """Return unwritten memory for `count` elements."""
    kind = dtype.element.to_numpy()
    if dtype.is_float:
        pattern: Any = math.nan
    elif dtype.element is BFLOAT16:
        pattern = to_bits(math.nan, BFLOAT16)
    else:
        pattern = 1 if dtype.is_bool else 77
    return Memory(np.full(max(0, count) * dtype.lanes, pattern, kind))


def unwritten(count: int, dtype: DataType) -> Memory:
    """Return memory for `count` elements that must be written before they are read."""
    return Memory(np.full(max(0, count) * dtype.lanes, None, object))


def read(cells: NDArray[Any], position: int, dtype: DataType) -> Any:
    """Return the element of type `dtype` at a position.

    Raises InterpreterError if it is `unwritten`.
    """
    value = cells.item(position)
    if value is None:
        raise InterpreterError("an element is read before it is written")
    return from_bits(value, BFLOAT16) if dtype is BFLOAT16 else value


def write(cells: NDArray[Any], position: int, value: Any, dtype: DataType) -> None:
    """Store an element of type `dtype` at a position."""
    cells[position] = to_bits(value, BFLOAT16) if dtype is BFLOAT16 else value
