"""The costs of trials against the values of one column, and what the column explains of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.text_table import aligned


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
class CostCurve:
    """Costs in seconds against the values of one column, in the order of the values."""

    column: str
    values: tuple[Any, ...]
    best: tuple[float, ...]
    median: tuple[float, ...]
    counts: tuple[int, ...]
    """The number of measurements of each value."""
    explained: float | None
    """The share of the variance of the logarithm of the costs that the values explain: omega
    squared, which is near 0 for values that do not matter, however many there are. Trials that were
    ended early count with what they take at least. None where no value was tried twice."""

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


def order_of_value(value: Any) -> tuple[Any, ...]:
    """Return what numbers are sorted by, by size, before texts."""
    if isinstance(value, (int, float)):
        return (0, value, "")
    return (1, 0, value if isinstance(value, str) else json.dumps(value))


def _explained(groups: Sequence[NDArray[np.float64]]) -> float | None:
    """Return omega squared of groups of numbers, at least 0."""
    everything = np.concatenate(groups) if groups else np.array([])
    free = len(everything) - len(groups)
    if free < 1 or len(groups) < 2:
        return None
    mean = everything.mean()
    inside = float(sum(((group - group.mean()) ** 2).sum() for group in groups)) / free
    between = float(sum(len(group) * (group.mean() - mean) ** 2 for group in groups))
    total = between + inside * free
    return max(0.0, (between - (len(groups) - 1) * inside) / (total + inside)) if total else None
