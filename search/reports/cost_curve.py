"""The costs of trials against the values of one column, and what the column explains of them."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.text_table import aligned

HEADINGS: Final = ("values", "explains", "best at", "drops most", "rises most")
"""The headings of `CostCurve.cells` after that of the column."""
_FEWEST_TRIALS: Final = 16
_TRIALS_OF_A_VALUE: Final = 4
"""Trials of each value, on average, below which the share of a column is a matter of luck."""
_TWO_SIDED: Final = 1.96
_TINY: Final = 1e-12


@dataclass(frozen=True)
class TurningPoint:
    """Two neighbouring values of a column between which the best cost changes most."""

    before: Any
    after: Any
    factor: float
    """The best cost at `before`, divided by that at `after`; above 1 where costs drop."""

    def __str__(self) -> str:
        if self.factor >= 1:
            return f"{self.before} -> {self.after}: {self.factor:.2f} times as fast"
        return f"{self.before} -> {self.after}: {1 / self.factor:.2f} times as slow"


@dataclass(frozen=True)
class Explained:
    """A share of the variance, with the ends of its interval of 95 %.

    The share is omega squared, which unlike eta squared is near 0 for values that do not matter,
    however many there are (Hays, Statistics for Psychologists, 1963). The interval is by the
    jackknife (Tukey, Bias and confidence in not quite large samples, 1958).
    """

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.share:.0%} ({100 * self.low:.0f} to {100 * self.high:.0f})"


@dataclass(frozen=True)
class CostCurve:
    """Costs in seconds against the values of one column, in the order of the values."""

    column: str
    values: tuple[Any, ...]
    best: tuple[float, ...]
    median: tuple[float, ...]
    counts: tuple[int, ...]
    """The number of measurements of each value."""
    explained: Explained | None
    """How much of the variance of log(cost) the values explain. Trials that were stopped early
    count with their lower bound. None with fewer than 16 trials, or 4 for each value."""

    @property
    def share(self) -> float:
        """The share that is explained; -1 if there were too few trials."""
        return -1.0 if self.explained is None else self.explained.share

    @property
    def matters(self) -> bool:
        """True if the values explain some of the costs, by more than chance."""
        return self.explained is not None and self.explained.low > 0

    def cells(self) -> tuple[str, ...]:
        """Return the texts of a row of `HEADINGS`; turning points only where the values matter."""
        turns = (self.turning_point(), self.turning_point(rise=True)) if self.matters else ()
        return (
            self.column,
            str(len(self.values)),
            "too few trials" if self.explained is None else str(self.explained),
            *((str(self.values[self.best.index(min(self.best))]),) if self.matters else ("",)),
            *(("" if turn is None else str(turn)) for turn in turns or ("", "")),
        )

    def turning_point(self, rise: bool = False) -> TurningPoint | None:
        """Return the largest relative drop of the best cost between neighbours, or its rise.

        None where it drops (rises) nowhere.
        """
        steps = [
            TurningPoint(self.values[k], self.values[k + 1], self.best[k] / self.best[k + 1])
            for k in range(len(self.values) - 1)
        ]
        most = (min if rise else max)(steps, key=lambda step: step.factor, default=None)
        turns = most is not None and (most.factor < 1 if rise else most.factor > 1)
        return most if turns else None

    def __str__(self) -> str:
        rows = [(self.column, "best (us)", "median (us)", "measured")]
        for value, best, median, count in zip(
            self.values, self.best, self.median, self.counts, strict=True
        ):
            rows.append((str(value), f"{best * 1e6:.1f}", f"{median * 1e6:.1f}", str(count)))
        return aligned(rows)


def cost_curve(
    column: str,
    costs: Iterable[tuple[Any, float | None]],
    bounds: Iterable[tuple[Any, float | None]] = (),
) -> CostCurve:
    """Return the curve of (value, cost) pairs; those without a value or a cost are left out.

    `bounds` are pairs of those whose cost is only known to be higher.
    """
    groups = _groups(costs)
    tried = _groups(bounds, {value: list(of) for value, of in groups.items()})
    values = sorted(groups, key=order_of_value)
    return CostCurve(
        column,
        tuple(values),
        tuple(min(groups[value]) for value in values),
        tuple(statistics.median(groups[value]) for value in values),
        tuple(len(groups[value]) for value in values),
        _explained([np.log(of) for of in tried.values()]),
    )


def _groups(
    costs: Iterable[tuple[Any, float | None]], groups: dict[Any, list[float]] | None = None
) -> dict[Any, list[float]]:
    groups = {} if groups is None else groups
    for value, cost in costs:
        if cost is not None and value is not None:
            groups.setdefault(value, []).append(cost)
    return groups


def most_telling(curves: Iterable[CostCurve]) -> list[CostCurve]:
    """Return the curves of columns that varied, most of the variance explained first."""
    varied = [curve for curve in curves if len(curve.values) > 1]
    return sorted(varied, key=lambda curve: -curve.share)


def order_of_value(value: Any) -> tuple[Any, ...]:
    """Return what numbers are sorted by, by size, before texts."""
    if isinstance(value, (int, float)):
        return (0, value, "")
    return (1, 0, value if isinstance(value, str) else json.dumps(value))


def _explained(groups: Sequence[NDArray[np.float64]]) -> Explained | None:
    """Return the share of the variance of some numbers that their groups explain."""
    count = sum(map(len, groups))
    if len(groups) < 2 or count < max(_FEWEST_TRIALS, _TRIALS_OF_A_VALUE * len(groups)):
        return None
    sizes = np.array([len(group) for group in groups], np.float64)
    sums = np.array([group.sum() for group in groups])
    squares = float(sum((group**2).sum() for group in groups))
    share = float(_omega_squared(count, len(groups), sums.sum(), squares, (sums**2 / sizes).sum()))
    of = np.repeat(np.arange(len(groups)), sizes.astype(np.int64))
    value, size, total = np.concatenate(groups), sizes[of], sums[of]
    left = (total - value) ** 2 / np.maximum(size - 1, 1)
    without = _omega_squared(
        count - 1,
        len(groups) - (size == 1),
        sums.sum() - value,
        squares - value**2,
        (sums**2 / sizes).sum() - total**2 / size + np.where(size == 1, 0.0, left),
    )
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    low, high = np.clip([share - _TWO_SIDED * error, share + _TWO_SIDED * error], 0.0, 1.0)
    return Explained(min(1.0, max(0.0, share)), float(low), float(high))


def _omega_squared(count: Any, groups: Any, total: Any, squares: Any, between: Any) -> Any:
    """Return omega squared; `between` is the sum over groups of the squared sum over the size."""
    mean = total**2 / count
    inside = (squares - between) / np.maximum(count - groups, 1)
    whole = squares - mean
    share = (between - mean - (groups - 1) * inside) / np.maximum(whole + inside, _TINY)
    return np.where(whole > _TINY, share, 0.0)
