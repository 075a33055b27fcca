"""The costs of trials against the values of one column, and the fraction of their variance that it
explains.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorir.text_table import aligned

HEADINGS: Final = ("values", "explains", "best at", "drops most", "rises most")
"""The headings of `CostCurve.cells` after the name of the column."""
_FEWEST_TRIALS: Final = 16
_TRIALS_OF_A_VALUE: Final = 4
"""The minimum average number of trials per value; with fewer, the result is due to chance."""
_TWO_SIDED: Final = 1.96
_TINY: Final = 1e-12


class TurningPoint(NamedTuple):
    """Two neighbouring values of a column between which the best cost changes most."""

    before: Any
    after: Any
    factor: float
    """The best cost at `before`, divided by the best cost at `after`; above 1 if costs drop."""

    def __str__(self) -> str:
        if self.factor >= 1:
            return f"{self.before} -> {self.after}: {self.factor:.2f} times as fast"
        return f"{self.before} -> {self.after}: {1 / self.factor:.2f} times as slow"


class Explained(NamedTuple):
    """A fraction of the variance, with the ends of its interval of 95 %.

    The fraction is omega squared, which unlike eta squared is near 0 for irrelevant values, however
    many there are (Hays, Statistics for Psychologists, 1963). The interval is by the jackknife
    (Tukey, Bias and confidence in not quite large samples, 1958).
    """

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.share:.0%} ({100 * self.low:.0f} to {100 * self.high:.0f})"


@dataclass(frozen=True)
class CostCurve:
    """Costs in seconds against the values of one column, in ascending order of the values."""

    column: str
    values: tuple[Any, ...]
    best: tuple[float, ...]
    median: tuple[float, ...]
    counts: tuple[int, ...]
    """The number of measurements of each value."""
    explained: Explained | None
    """The fraction of the variance of log(cost) that the values explain. Trials that were stopped
    early count with their lower bound. None with fewer than 16 trials, or 4 per value."""

    @property
    def share(self) -> float:
        """The explained fraction; -1 for too few trials."""
        return -1.0 if self.explained is None else self.explained.share

    @property
    def matters(self) -> bool:
        """True if the values explain more of the costs than chance would."""
        return self.explained is not None and self.explained.low > 0

    def cells(self) -> tuple[str, ...]:
        """Return the texts of a row of `HEADINGS`; turning points only if the values matter."""
        count = (self.column, str(len(self.values)))
        if not self.matters:
            share = "too few trials" if self.explained is None else str(self.explained)
            return (*count, share, "", "", "")
        best = str(self.values[self.best.index(min(self.best))])
        turns = (self.turning_point(), self.turning_point(rise=True))
        texts = ("" if turn is None else str(turn) for turn in turns)
        return (*count, str(self.explained), best, *texts)

    def turning_point(self, rise: bool = False) -> TurningPoint | None:
        """Return the largest relative drop (rise) of the best cost between neighbours, or None."""
        steps = [
            TurningPoint(self.values[k], self.values[k + 1], self.best[k] / self.best[k + 1])
            for k in range(len(self.values) - 1)
        ]
        turns = [step for step in steps if (step.factor < 1 if rise else step.factor > 1)]
        return (min if rise else max)(turns, key=lambda step: step.factor, default=None)

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
    """Return the curve of (value, cost) pairs; pairs without a value or a cost are ignored.

    `bounds` are pairs with lower bounds of costs.
    """
    groups: dict[Any, list[float]] = {}
    tried: dict[Any, list[float]] = {}
    for pairs, tables in ((costs, (groups, tried)), (bounds, (tried,))):
        for value, cost in pairs:
            if cost is not None and value is not None:
                for table in tables:
                    table.setdefault(value, []).append(cost)
    values = sorted(groups, key=order_of_value)
    return CostCurve(
        column,
        tuple(values),
        tuple(min(groups[value]) for value in values),
        tuple(statistics.median(groups[value]) for value in values),
        tuple(len(groups[value]) for value in values),
        _explain([np.log(of) for of in tried.values()]),
    )


def most_telling(curves: Iterable[CostCurve]) -> list[CostCurve]:
    """Return the curves of columns that varied, the largest explained fraction first."""
    varied = [curve for curve in curves if len(curve.values) > 1]
    return sorted(varied, key=lambda curve: -curve.share)


def order_of_value(value: Any) -> tuple[Any, ...]:
    """Return a key that sorts numbers by size, before texts."""
    if isinstance(value, (int, float)):
        return (0, value, "")
    return (1, 0, value if isinstance(value, str) else json.dumps(value))


def _explain(groups: Sequence[NDArray[np.float64]]) -> Explained | None:
    """Return the fraction of the variance of numbers that their groups explain."""
    count = sum(map(len, groups))
    if len(groups) < 2 or count < max(_FEWEST_TRIALS, _TRIALS_OF_A_VALUE * len(groups)):
        return None
    sizes = np.array([len(group) for group in groups], np.float64)
    sums = np.array([group.sum() for group in groups])
    squares = float(sum((group**2).sum() for group in groups))
    between = (sums**2 / sizes).sum()
    share = float(_omega_squared(count, len(groups), sums.sum(), squares, between))
    of = np.repeat(np.arange(len(groups)), sizes.astype(np.int64))
    value, size, total = np.concatenate(groups), sizes[of], sums[of]
    rest = np.where(size == 1, 0.0, (total - value) ** 2 / np.maximum(size - 1, 1))
    without = _omega_squared(
        count - 1,
        len(groups) - (size == 1),
        sums.sum() - value,
        squares - value**2,
        between - total**2 / size + rest,
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
