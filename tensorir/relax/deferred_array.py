"""Arrays that are computed when they are read, and freed when nothing refers to them.

A weight is read from a file, then scaled, packed and converted to other layouts. Only its last form
is needed in memory. So each form has a function that computes it from the previous form, and the
first form is read from the file.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

LARGE: Final = 1 << 16
"""Arrays of at least this size in bytes are not kept, but computed at each access."""

Array: TypeAlias = NDArray[Any]


class DeferredArray:
    """An array of known shape and dtype that a function computes, with the same result each time.

    The function runs when the array is read, and again if the array was freed in between, until
    `keep` stores an array. Several threads may read it.
    """

    __slots__ = ("_kept", "_last", "_make", "dtype", "shape")

    def __init__(
        self, make: Callable[[], Array], shape: Sequence[int], dtype: np.dtype[Any]
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self._make: Callable[[], Array] | None = make
        self._kept: Array | None = None
        self._last: weakref.ref[Array] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self) -> Array:
        """Return the array, read-only and contiguous."""
        make = self._make
        if make is None:
            assert self._kept is not None
            return self._kept
        result = None if self._last is None else self._last()
        if result is None:
            result = np.ascontiguousarray(make()).reshape(self.shape)
            assert result.dtype == self.dtype, f"got {result.dtype}, expected {self.dtype}"
            result.flags.writeable = False
            self._last = weakref.ref(result)
        return result

    def keep(self, array: Array) -> None:
        """Store an array with the same elements, and drop the function that computes it."""
        assert array.shape == self.shape
        self._kept = array
        self._make = None
