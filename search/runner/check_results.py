"""The comparison of a candidate's results with those of the unscheduled program.

Integers and booleans must be equal. Floats may differ by rounding. A second run of the unscheduled
program shows for each element how much that is: in float64, or if that is impossible, on inputs
that differ by the relative amount `rounding` (see `ProgramFacts`), since another order of a sum has
the effect of slightly different inputs. An element may by chance differ little between the runs. So
the tolerance is at least `rounding`, and at least the usual relative difference in the array, times
the element or the mean magnitude of the array.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from search.arg_info import TensorInfo
from search.runner.arguments import FLOATS, ProgramFacts, as_numbers, random_arrays
from tensorir.nodes.dtype import DataType

_CHANCE: Final = 4
"""The tolerance as a multiple of the difference between the two runs."""
_USUAL_SHARE: Final = 0.99
"""The quantile of the relative differences that counts as usual."""


@dataclass(frozen=True)
class Expected:
    """The expected values of an array after a run, with the tolerance of each element."""

    values: NDArray[Any]
    tolerance: NDArray[Any]
    """An array of the same shape; for integers 0, unless they are rounded floats."""

    @staticmethod
    def unchanged(array: NDArray[Any], dtype: DataType) -> Expected:
        """Return the expected values of an array that is not written."""
        return Expected(as_numbers(array, dtype), np.zeros(1, np.uint8))

    @staticmethod
    def of(
        array: NDArray[Any],
        second: NDArray[Any],
        dtype: DataType,
        rounding: float,
        is_exact: bool,
        before: NDArray[Any] | None = None,
    ) -> Expected:
        """Return the expected values after two runs; `is_exact` if the second was in float64.

        Its results are then the expected values wherever the first run is finite. `before` has the
        elements before the first run. Only those that it changed count for the mean magnitude and
        the usual difference: a program may write a small part of an array.
        """
        values = as_numbers(array, dtype)
        if dtype.element not in FLOATS:
            # A float between two integers may be rounded to either of them.
            step = np.abs(values.astype(np.float64) - second).max(initial=0)
            return Expected(values, np.full(1, step))
        with np.errstate(invalid="ignore", over="ignore"):
            other = second if is_exact else as_numbers(second, dtype)
            changed = np.ones(values.shape, bool)
            if before is not None and (differing := values != as_numbers(before, dtype)).any():
                changed = differing
            change = np.nan_to_num(np.abs(other - values), nan=0.0, posinf=0.0)
            if is_exact:
                values = np.where(np.isfinite(values), other, values).astype(values.dtype)
            size = np.maximum(np.abs(values), _mean_magnitude(values[changed]))
            # A maximum or a minimum often hides a difference, which is 0 then.
            differs = changed & (change > 0) & (size > 0)
            relative = change[differs] / size[differs]
            usual = float(np.quantile(relative, _USUAL_SHARE)) if relative.size else 0.0
            allowed = np.maximum(max(_CHANCE * usual, rounding) * size, _CHANCE * change)
        return Expected(values, allowed.astype(values.dtype))


@dataclass(frozen=True)
class Reference:
    """The results of the unscheduled program in its arguments, by their positions."""

    arguments: Sequence[TensorInfo]
    facts: ProgramFacts
    signed: bool
    given: str | None
    expected: dict[int, Expected]

    def inputs(self) -> list[NDArray[Any]]:
        """Return the arguments for which the results are expected."""
        return random_arrays(self.arguments, 0, self.facts, self.signed, self.given)

    def save(self, path: Path) -> None:
        """Write it to a file of this process, which its next worker reads."""
        path.write_bytes(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))

    @staticmethod
    def load(path: Path) -> Reference:
        """Read the file that `save` wrote."""
        found: Reference = pickle.loads(path.read_bytes())
        return found


def all_finite(arrays: Sequence[NDArray[Any]], dtypes: Sequence[DataType]) -> bool:
    """Return True if all floats are finite."""
    return all(
        bool(np.isfinite(as_numbers(array, dtype)).all())
        for array, dtype in zip(arrays, dtypes, strict=True)
        if dtype.element in FLOATS
    )


def difference(array: NDArray[Any], dtype: DataType, expected: Expected) -> str | None:
    """Return a text on the elements that differ from the expected values, None if all are equal.

    NaN equals NaN.
    """
    got, want = as_numbers(array, dtype), expected.values
    with np.errstate(invalid="ignore"):
        bad = got != want
        if bad.any() and expected.tolerance.any():
            off = np.abs(got.astype(np.float64) - want)
            bad = bad & ~(off <= expected.tolerance) & ~(np.isnan(got) & np.isnan(want))
        elif dtype.element in FLOATS:
            bad = bad & ~(np.isnan(got) & np.isnan(want))
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    text = f"wrong in {int(bad.sum())} of {bad.size} elements, first at {list(where)}"
    allowed = float(np.broadcast_to(expected.tolerance, want.shape)[where])
    return f"{text}: {got[where]:.9g} instead of {want[where]:.9g}" + (
        f", which may be off by {allowed:.2g}" if allowed else ""
    )


def _mean_magnitude(values: NDArray[Any]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.mean()) if finite.size else 0.0
