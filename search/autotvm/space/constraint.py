"""The configurations of a space that a filter over several knobs lets through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from schedule.random_state import RandomState
from search.autotvm.errors import KnobError, SpaceIndexError

Filter: TypeAlias = Callable[[Mapping[str, Any]], bool]

V = TypeVar("V")

MOST_TABULATED: Final = 1_000_000
"""Spaces up to this size are filtered once and for all; of larger ones, only what is asked for."""
_SAMPLES: Final = 4096
_MOST_REJECTED: Final = 1_000_000


class Constraint:
    """A predicate over the indices of a space, evaluated when it is needed.

    `number_in` is exact where the space is small enough for a table; else it is estimated from a
    sample of points, always the same one.
    """

    def __init__(self, length: int, allows: Callable[[int], bool]) -> None:
        self.length = length
        self._allows = allows
        self._seen: dict[int, bool] = {}

    @property
    def is_exact(self) -> bool:
        """True if `number_in` is exact, and there is `valid`."""
        return self.length <= MOST_TABULATED

    def __contains__(self, index: int) -> bool:
        if "_table" in self.__dict__:
            return bool(self._table[index])
        if index not in self._seen:
            if len(self._seen) >= MOST_TABULATED:
                self._seen.clear()
            self._seen[index] = bool(self._allows(index))
        return self._seen[index]

    def number_in(self, start: int, end: int) -> int:
        """Return how many indices in [start, end) are let through."""
        if self.is_exact:
            return int(np.count_nonzero(self._table[start:end]))
        return round(self._share * (end - start))

    @cached_property
    def valid(self) -> npt.NDArray[np.int64]:
        """All indices that are let through, ascending; where `is_exact`."""
        return np.flatnonzero(self._table)

    def next(self, index: int, n: int, start: int, end: int) -> int | None:
        """Return the `n`-th index after `index` that is let through, before it for negative `n`.

        None outside [start, end). SpaceIndexError after a million that are not let through.
        """
        if self.is_exact:
            if n > 0:
                place = int(np.searchsorted(self.valid, index, side="right")) + n - 1
            else:
                place = int(np.searchsorted(self.valid, index, side="left")) + n
            found = int(self.valid[place]) if 0 <= place < len(self.valid) else -1
            return found if start <= found < end else None
        step, left, rejected = (1 if n > 0 else -1), abs(n), 0
        while left:
            index += step
            if not start <= index < end:
                return None
            left -= index in self
            rejected = 0 if index in self else rejected + 1
            if rejected >= _MOST_REJECTED:
                raise SpaceIndexError(f"the filter of the space rejects {rejected} points in a row")
        return index

    @cached_property
    def _table(self) -> npt.NDArray[np.bool_]:
        return np.fromiter(map(self._allows, range(self.length)), np.bool_, self.length)

    @cached_property
    def _share(self) -> float:
        rng = RandomState(1)
        return sum(below(rng, self.length) in self for _ in range(_SAMPLES)) / _SAMPLES


def asked(filter: Callable[[V], Any], value: V, which: str) -> bool:
    """Return the answer of a template's filter on a value; KnobError where it raises an error."""
    try:
        return bool(filter(value))
    except Exception as error:
        raise KnobError(
            f"the filter {which} raises {type(error).__name__} for {value}: {error}"
        ) from error


def below(rng: RandomState, count: int) -> int:
    """Return an integer in [0, count), all equally likely, however large the count is."""
    digit = 1 << 24
    if count <= digit:
        return rng.uniform_int(0, count)
    digits = (count.bit_length() + 23) // 24
    while True:
        value = 0
        for _ in range(digits):
            value = value * digit + rng.uniform_int(0, digit)
        value >>= 24 * digits - count.bit_length()
        if value < count:
            return value
