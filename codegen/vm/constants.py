"""The constants of an executable: one block of memory, each constant at a multiple of 64 bytes."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from codegen.runtime.ndarray import NDArray, empty
from tensorir.memory.alignment import aligned
from tensorir.relax.expr import Constant


class ConstantPool:
    """Collects constants; those with the same bytes share one place.

    The arrays are copied once, when the block is made: machine code reaches all of them from one
    address, so that a library on the disk and an executable in memory have the same form.
    """

    def __init__(self) -> None:
        self._offsets: dict[tuple[int, bytes], int] = {}
        self._known: dict[int, int] = {}
        self._arrays: list[tuple[int, np.ndarray[Any, Any]]] = []
        self.nbytes = 0

    def offset(self, constant: Constant) -> int:
        """Return the offset of a constant in the block, in bytes."""
        found = self._known.get(id(constant.data))
        if found is not None:
            return found
        data = constant.data
        key = (data.nbytes, hashlib.blake2b(_bytes(data), digest_size=16).digest())
        offset = self._offsets.get(key)
        if offset is None:
            offset = self._offsets[key] = self.nbytes
            self._arrays.append((offset, data))
            self.nbytes += aligned(data.nbytes)
        self._known[id(data)] = offset
        return offset

    def block(self) -> NDArray:
        """Return the block."""
        result = empty((self.nbytes,), "uint8")
        for offset, data in self._arrays:
            result[offset : offset + data.nbytes] = _bytes(data)
        return result


def _bytes(data: np.ndarray[Any, Any]) -> Any:
    return np.ravel(data).view(np.uint8)
