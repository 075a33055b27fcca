"""Searches of the same points side by side: how good each is after how many trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from search.reports.drawing import colour, finished, new_axes
from search.reports.table import RunTable
from tensorir.text_table import aligned, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GOOD: Final = 1.05
"""The factor to the best time within which a search has arrived."""
_SHARES: Final = (8, 4, 2, 1)


class SearchComparison:
    """How soon several searches of the same points came near the best of these.

    `runs` has for each label a table of trials for each seed; `best_seconds` is the time of the
    fastest of the `num_points` points. Printed, a row has the best time after an eighth, a quarter,
    half and all of the trials, relative to the fastest (1.00: found), and the trials until it was
    within 5 %; all are medians of the seeds.
    """

    def __init__(
        self, runs: Mapping[str, Sequence[RunTable]], best_seconds: float, num_points: int
    ) -> None:
        self.runs = {label: list(tables) for label, tables in runs.items()}
        self.best_seconds = best_seconds
        self.num_points = num_points

    @property
    def trials(self) -> int:
        """The trials of the longest run."""
        return max((len(run) for runs in self.runs.values() for run in runs), default=0)

    def curves(self, label: str) -> NDArray[np.float64]:
        """Return the best time after each trial relative to the fastest point, [seeds, trials].

        1 is the fastest; infinite while nothing has succeeded. A run that ended early keeps its
        last.
        """
        table = np.full((len(self.runs[label]), self.trials), math.inf)
        for row, run in zip(table, self.runs[label], strict=True):
            course = run.by_task.best_so_far
            best = [math.inf if one is None else one for one in course] or [math.inf]
            row[: len(best)] = best
            row[len(best) :] = best[-1]
        relative: NDArray[np.float64] = table / self.best_seconds
        return relative

    def trials_until(self, label: str, factor: float = _GOOD) -> list[int | None]:
        """Return for each seed the trials until the best was within a factor of the fastest point.

        None for a seed that did not come so near.
        """
        near = self.curves(label) <= factor
        return [int(row.argmax()) + 1 if row.any() else None for row in near]

    def summary(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of texts for each search."""
        places = [max(1, self.trials // share) for share in _SHARES]
        rows = [("search", *(f"after {count}" for count in places), "trials to within 5%")]
        for label in self.runs:
            middle = np.median(self.curves(label), axis=0)
            until = [count or math.inf for count in self.trials_until(label)]
            typical = float(np.median(until))
            rows.append(
                (
                    label,
                    *(f"{middle[count - 1]:.2f}" for count in places),
                    f"{typical:g}" if typical < math.inf else "never",
                )
            )
        return rows

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the median of the seeds after each trial, with the range of all; return the axes."""
        ax = new_axes(ax)
        for k, label in enumerate(self.runs):
            curves = self.curves(label)
            trials = np.arange(1, curves.shape[1] + 1)
            known = np.isfinite(curves).all(axis=0)
            ax.plot(trials, np.median(curves, axis=0), color=colour(k), label=label)
            ax.fill_between(
                trials[known],
                curves.min(axis=0)[known],
                curves.max(axis=0)[known],
                color=colour(k),
                alpha=0.15,
            )
        return finished(ax, "trials", "best time so far / fastest point")

    def __str__(self) -> str:
        count = len(next(iter(self.runs.values()), []))
        heading = (
            f"{self.num_points} measured points, the fastest {self.best_seconds * 1e6:.4g} us; "
            f"medians of {count} seed{'s' * (count != 1)}"
        )
        return f"{heading}\n{aligned(self.summary())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.summary())
