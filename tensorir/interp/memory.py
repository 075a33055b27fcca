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
    """The target of a pointer: its element `k` begins at `cells[origin + k * step]`."""

    __slots__ = ("cells", "is_mixed", "kind", "origin", "step", "unit")

    def __init__(self, cells: NDArray[Any], origin: int = 0) -> None:
        self.cells = cells
        """One-dimensional."""
        self.origin = origin
        self.kind: np.dtype[Any] = cells.dtype
        """The type of elements."""
        self.step = 1
        """The cells of an element: the first one has its value, the others have `_REST`."""
        self.unit = 0
        """The bytes of a cell of `unwritten` memory; 0 for memory whose cells have a type."""
        self.is_mixed = False
        """True for unwritten memory that is accessed as elements of several sizes."""

    def after(self, count: int) -> Memory:
        """Return the pointer advanced by `count` elements."""
        return self.at(self.origin + count * self.step)

    def at(self, cell: int) -> Memory:
        """Return the pointer to a cell."""
        pointer = Memory(self.cells, cell)
        pointer.kind, pointer.step, pointer.unit = self.kind, self.step, self.unit
        pointer.is_mixed = self.unit > 0  # perhaps later, by another pointer
        return pointer

    def of(self, kind: np.dtype[Any]) -> Memory:
        """Return the pointer to the same bytes as elements of another type.

        Raises InterpreterError for elements that are smaller than the cells of unwritten memory.
        """
        if self.kind == kind:
            return self
        if not self.unit:
            start = self.origin * self.cells.itemsize
            return Memory(self.cells.view(kind), start // kind.itemsize)
        if kind.itemsize == self.kind.itemsize:
            return self
        if kind.itemsize % self.unit:
            raise InterpreterError(
                f"memory of elements of {self.unit} bytes is accessed as {kind}, whose elements "
                f"have {kind.itemsize}"
            )
        self.is_mixed = True
        pointer = self.at(self.origin)
        pointer.kind, pointer.step = kind, kind.itemsize // self.unit
        return pointer


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
    memory = Memory(np.full(max(0, count) * dtype.lanes, None, object))
    memory.kind = dtype.element.to_numpy()
    memory.unit = memory.kind.itemsize
    return memory


_REST: Final = object()
"""The content of the cells of an element after the first one."""


def is_written(memory: Memory, cell: int) -> bool:
    """Say whether a whole element begins at a cell, which no later store has overwritten."""
    cells, end = memory.cells, cell + memory.step
    value = cells.item(cell)
    if not memory.is_mixed:
        return value is not None
    return (
        value is not None
        and value is not _REST
        and all(cells.item(k) is _REST for k in range(cell + 1, end))
        and not (end < len(cells) and cells.item(end) is _REST)
    )


def read(memory: Memory, cell: int, dtype: DataType) -> Any:
    """Return the element of type `dtype` that begins at a cell.

    Raises InterpreterError if it is `unwritten`.
    """
    value = memory.cells.item(cell)
    if value is None or (memory.is_mixed and not is_written(memory, cell)):
        raise InterpreterError("an element is read before it is written")
    return from_bits(value, BFLOAT16) if dtype is BFLOAT16 else value


def write(memory: Memory, cell: int, value: Any, dtype: DataType) -> None:
    """Store an element of type `dtype` that begins at a cell."""
    cells = memory.cells
    cells[cell] = to_bits(value, BFLOAT16) if dtype is BFLOAT16 else value
    if memory.is_mixed:
        end = cell + memory.step
        cells[cell + 1 : end] = _REST
        while end < len(cells) and cells.item(end) is _REST:  # of an element that is overwritten
            cells[end] = None
            end += 1
