"""Whether a candidate computed what the unscheduled program computes.

Integers and booleans must be equal. Floats may differ by what rounding does: a candidate adds in
another order, which is as if its inputs were a little different. So the unscheduled program runs
twice, the second time on inputs that differ by the relative amount `rounding` (see `ProgramFacts`),
and what that changes is what rounding may change, element by element. One such run may by chance
change an element little; so an element may also be off by `rounding` of its size or that of the
array's mean magnitude, times how sensitive the results are altogether.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from search.runner.random_fill import FLOATS, Fill, as_numbers
from tensorir.dtype import DataType

_CHANCE: Final = 8
"""How many times smaller than usual one random change may be."""
_SENSITIVE_SHARE: Final = 0.99
"""The elements that say how sensitive the results are altogether: all but the most sensitive."""


@dataclass(frozen=True)
class Expected:
    """What an array has to hold after a run, and by how much each element may be off."""

    values: NDArray[Any]
    tolerance: NDArray[Any]
    """Of the same shape; for integers 0 unless they come of rounded floats."""

    @staticmethod
    def unchanged(array: NDArray[Any], dtype: DataType) -> Expected:
        """Return what to expect of an array that nobody writes."""
        return Expected(as_numbers(array, dtype), np.zeros(1, np.uint8))

    @staticmethod
    def of(
        array: NDArray[Any], perturbed: NDArray[Any], dtype: DataType, rounding: float
    ) -> Expected:
        """Return what to expect after runs on the inputs and on perturbed ones."""
        values, other = as_numbers(array, dtype), as_numbers(perturbed, dtype)
        if dtype.element not in FLOATS:
            changed = values != other
            if not changed.any():
                return Expected(values, np.zeros(1, np.uint8))
            # Floats were rounded to integers, and some were near the middle between two.
            step = np.abs(values.astype(np.float64) - other).max()
            return Expected(values, np.full(1, step))
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.maximum(np.abs(values), _mean_magnitude(values))
            change = np.nan_to_num(np.abs(other - values), nan=0.0, posinf=0.0)
            relative = np.divide(change, size, out=np.zeros_like(size), where=size > 0)
            usual = float(np.quantile(relative, _SENSITIVE_SHARE)) if relative.size else 0.0
            allowed = np.maximum(max(usual, rounding) * size, _CHANCE * change)
        return Expected(values, allowed)


@dataclass(frozen=True)
class Reference:
    """What the unscheduled program makes of its arguments, by their positions."""

    fill: Fill
    expected: dict[int, Expected]

    def save(self, path: Path) -> None:
        """Write it to a file, which appears complete."""
        arrays: dict[str, NDArray[Any]] = {
            "fill": np.array([self.fill.signed, self.fill.integers_are_data])
        }
        for position, expected in self.expected.items():
            arrays[f"values_{position}"] = expected.values
            arrays[f"tolerance_{position}"] = expected.tolerance
        data = io.BytesIO()
        np.savez(data, **arrays)  # type: ignore[arg-type]
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(data.getvalue())
        unfinished.replace(path)

    @staticmethod
    def load(path: Path) -> Reference:
        """Read what `save` wrote."""
        with np.load(path) as arrays:
            signed, data = map(bool, arrays["fill"])
            positions = [int(name.removeprefix("values_")) for name in arrays if "values" in name]
            return Reference(
                Fill(signed, data),
                {k: Expected(arrays[f"values_{k}"], arrays[f"tolerance_{k}"]) for k in positions},
            )


def all_finite(arrays: Sequence[NDArray[Any]], dtypes: Sequence[DataType]) -> bool:
    """Say whether no float is infinite or NaN."""
    return all(
        bool(np.isfinite(as_numbers(array, dtype)).all())
        for array, dtype in zip(arrays, dtypes, strict=True)
        if dtype.element in FLOATS
    )


def difference(array: NDArray[Any], dtype: DataType, expected: Expected) -> str | None:
    """Return where an array is not what is expected, None if it is all right.

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
