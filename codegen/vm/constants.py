"""The constants of an executable: one block of memory for small ones, and separate arrays.

Machine code gets the address of the block. A small constant is copied into the block, at a multiple
of 64 bytes. A large constant is not copied, unless it is the memory of another library, whose users
may write to it; the block has eight bytes with the distance from the block to its array. In a
library on the disk the arrays follow the block, at such distances, so the machine code is the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from codegen.runtime.ndarray import NDArray, address_of, array, empty
from tensorir.memory.alignment import ALIGNMENT, align
from tensorir.relax.deferred_array import DeferredArray
from tensorir.relax.expr import Constant

LARGE: Final = 4096
"""The minimum size in bytes of a constant with a separate array."""
DISTANCE: Final = np.dtype("<i8")

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class ConstantPlace(NamedTuple):
    """The offset of a constant in the block, or of the distance to a separate array."""

    offset: int
    is_far: bool


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants in memory."""

    block: NDArray
    arrays: tuple[Array, ...] = ()
    """The large constants."""
    distances: tuple[int, ...] = ()
    """For each array the offset of its distance in the block."""

    @staticmethod
    def of(block: Array, arrays: tuple[Array, ...], distances: tuple[int, ...]) -> Constants:
        """Return constants in a copy of a block with the current distances to arrays."""
        copy = array(block)
        start = address_of(copy)
        for at, data in zip(distances, arrays, strict=True):
            _write_distance(copy, at, address_of(data) - start)
        return Constants(copy, arrays, distances)

    @property
    def nbytes(self) -> int:
        """The bytes of all constants."""
        return self.block.nbytes + sum(data.nbytes for data in self.arrays)

    def content(self) -> list[memoryview]:
        """Return the block and the arrays in the layout of a library."""
        block: Any = np.array(self.block, subok=False)
        parts = [memoryview(block)]
        end = block.nbytes
        for at, data in zip(self.distances, self.arrays, strict=True):
            gap = -end % ALIGNMENT
            _write_distance(block, at, end + gap)
            parts += [memoryview(bytes(gap)), memoryview(_bytes(data))]
            end += gap + data.nbytes
        return parts


class ConstantPool:
    """Collects constants; those with the same bytes share one place."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, bytes], tuple[ConstantPlace, Array]] = {}
        self._known: dict[int, ConstantPlace] = {}
        self._small: list[tuple[int, Array]] = []
        self._large: list[tuple[int, Array]] = []
        self._free: list[int] = []
        """Free offsets for distances."""
        self.nbytes = 0
        """The bytes of the block."""

    def place(self, constant: Constant) -> ConstantPlace:
        """Return the place of a constant."""
        source = constant.source
        found = self._known.get(id(source))
        if found is None:
            data = constant.data
            key = (data.nbytes, hashlib.blake2b(_bytes(data), digest_size=16).digest())
            held = self._places.get(key)
            if held is None:
                own = data.copy() if _is_lent(data) else data
                held = self._places[key] = self._add_constant(own), own
            found = held[0]
            if isinstance(source, DeferredArray):
                # The executable keeps the elements now, so their source may be freed.
                source.keep(np.ravel(held[1]).view(data.dtype).reshape(data.shape))
            self._known[id(source)] = found
        return found

    def _add_constant(self, data: Array) -> ConstantPlace:
        if data.nbytes < LARGE:
            offset = self._take_space(data.nbytes)
            self._small.append((offset, data))
            return ConstantPlace(offset, False)
        if not self._free:
            line = self._take_space(ALIGNMENT)
            self._free = [*range(line, line + ALIGNMENT, DISTANCE.itemsize)]
        offset = self._free.pop(0)
        self._large.append((offset, data))
        return ConstantPlace(offset, True)

    def _take_space(self, nbytes: int) -> int:
        offset = self.nbytes
        self.nbytes += align(nbytes)
        return offset

    def constants(self) -> Constants:
        """Return the constants."""
        block = empty((self.nbytes,), "uint8")
        block[...] = 0
        for offset, data in self._small:
            block[offset : offset + data.nbytes] = _bytes(data)
        distances, arrays = zip(*self._large, strict=True) if self._large else ((), ())
        return Constants.of(block, arrays, distances)


def _is_lent(data: Array) -> bool:
    """Return True if an array is a view of another library's, such as a weight of torch."""
    while isinstance(data.base, np.ndarray):
        data = data.base
    return hasattr(data.base, "__dlpack__")


def _write_distance(block: Array, at: int, distance: int) -> None:
    block[at : at + DISTANCE.itemsize].view(DISTANCE)[0] = distance


def _bytes(data: Array) -> Any:
    return np.ravel(data).view(np.uint8)
