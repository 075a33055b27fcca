"""Two tables of trials side by side: the same configurations on two targets."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from search.reports.drawing import colour, finished, log_scale, new_axes, say
from search.reports.table import Trials
from tensorir.text_table import aligned, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LogComparison:
    """The costs in two logs of the same tasks and configurations; targets may differ."""

    def __init__(self, costs: Mapping[str, list[tuple[float, float]]]) -> None:
        self._costs = costs

    @property
    def tasks(self) -> list[str]:
        """The tasks that both logs have measured configurations of."""
        return list(self._costs)

    def costs(self, task: str | None = None) -> NDArray[np.float64]:
        """Return the costs in both logs, [configurations, 2], of a task or of all."""
        chosen = self.tasks if task is None else [task]
        rows = [pair for one in chosen for pair in self._costs.get(one, ())]
        return np.array(rows, np.float64).reshape(-1, 2)

    def rank_correlation(self, task: str) -> float:
        """Return how alike the logs order the configurations of a task.

        Spearman's coefficient: 1 for the same order, -1 for the reverse, NaN for less than two
        configurations, or all alike.
        """
        ranks = [_ranks(column) for column in self.costs(task).T]
        a, b = (rank - rank.mean() if len(rank) else rank for rank in ranks)
        norm = sqrt(float((a * a).sum() * (b * b).sum()))
        return float((a * b).sum()) / norm if norm else float("nan")

    def summary(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of texts for each task.

        The last column is what the best configuration of A loses in B against the best there.
        """
        rows: list[tuple[str, ...]] = [
            ("task", "shared", "best A (us)", "best B (us)", "B / A", "rank corr.", "A's best in B")
        ]
        for task in self.tasks:
            costs = self.costs(task)
            best_a, best_b = costs.min(0)
            lost = costs[costs[:, 0].argmin(), 1] / best_b
            rows.append(
                (
                    task,
                    str(len(costs)),
                    f"{best_a * 1e6:.2f}",
                    f"{best_b * 1e6:.2f}",
                    f"{best_b / best_a:.2f}",
                    f"{self.rank_correlation(task):.2f}",
                    f"{lost:.2f} times the best",
                )
            )
        return rows

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the cost of each configuration in B against that in A, and return the axes."""
        ax = new_axes(ax)
        for k, task in enumerate(self.tasks):
            a, b = self.costs(task).T * 1e6
            ax.plot(a, b, "o", color=colour(k), alpha=0.6, label=task)
        if self.tasks:
            log_scale(ax)
            ax.set_xscale("log")
            ends = [self.costs().min() * 1e6, self.costs().max() * 1e6]
            ax.plot(ends, ends, ":", color="grey")
        else:
            say(ax, "the logs share no configuration")
        return finished(ax, "time in A (us)", "time in B (us)")

    def __len__(self) -> int:
        return len(self.costs())

    def __str__(self) -> str:
        return aligned(self.summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.summary())


def compare_tables(table_a: Trials, table_b: Trials) -> LogComparison:
    """Compare two tables on the same tasks and configurations.

    Joined are rows of the same task with the same values of all knobs, whatever their targets;
    of several measurements the best counts. What has no cost in one of them is left out.
    """
    in_a, in_b = map(_best_costs, (table_a, table_b))
    costs: dict[str, list[tuple[float, float]]] = {}
    for key, cost in in_a.items():
        if key in in_b:
            costs.setdefault(key[0], []).append((cost, in_b[key]))
    return LogComparison(costs)


def _best_costs(table: Trials) -> dict[tuple[str, str], float]:
    best: dict[tuple[str, str], float] = {}
    for row in table.rows:
        if row["cost"] is not None:
            key = (row["task"], table.setting(row))
            best[key] = min(best.get(key, row["cost"]), row["cost"])
    return best


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the place of each number in their order; equal ones share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: NDArray[np.float64] = ((ends - counts) + (ends - 1)) / 2
    return means[inverse]
