"""The comparison of two tables of trials: the same configurations on two targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from search.reports.drawing import colour, finish_axes, log_scale, new_axes, say
from search.reports.table import Trials
from tensorir.text_table import aligned, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LogComparison:
    """The costs in two logs of the same tasks and configurations; targets may differ.

    Rows match if they have the same task and the same values of all knobs, whatever their targets;
    the best of several measurements counts. Rows without a cost in one table are ignored.
    """

    def __init__(self, table_a: Trials, table_b: Trials) -> None:
        in_a, in_b = map(_best_costs, (table_a, table_b))
        self._costs: dict[str, list[tuple[float, float]]] = {}
        for key, cost in in_a.items():
            if key in in_b:
                self._costs.setdefault(key[0], []).append((cost, in_b[key]))

    @property
    def tasks(self) -> list[str]:
        """The tasks with configurations that both logs have measured."""
        return list(self._costs)

    def costs(self, task: str | None = None) -> NDArray[np.float64]:
        """Return the costs in both logs, [configurations, 2], of a task or of all."""
        chosen = self.tasks if task is None else [task]
        rows = [pair for one in chosen for pair in self._costs.get(one, ())]
        return np.array(rows, np.float64).reshape(-1, 2)

    def rank_correlation(self, task: str) -> float:
        """Return Spearman's rank correlation of the two logs for a task.

        1 for the same order, -1 for the reverse, NaN for fewer than two configurations or equal
        costs.
        """
        a, b = map(_ranks, self.costs(task).T)
        norm = float(np.linalg.norm(a) * np.linalg.norm(b))
        return float((a * b).sum()) / norm if norm else float("nan")

    def summary(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of texts for each task.

        The last column is the cost in B of the best configuration of A, relative to the best in B.
        """
        rows: list[tuple[str, ...]] = [
            ("task", "shared", "best A (us)", "best B (us)", "B / A", "rank corr.", "A's best in B")
        ]
        for task in self.tasks:
            costs = self.costs(task)
            best_a, best_b = costs.min(0)
            lost = costs[costs[:, 0].argmin(), 1] / best_b
            numbers = (best_a * 1e6, best_b * 1e6, best_b / best_a, self.rank_correlation(task))
            texts = (f"{number:.2f}" for number in numbers)
            rows.append((task, str(len(costs)), *texts, f"{lost:.2f} times the best"))
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
        return finish_axes(ax, "time in A (us)", "time in B (us)")

    def __len__(self) -> int:
        return len(self.costs())

    def __str__(self) -> str:
        return aligned(self.summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.summary())


def _best_costs(table: Trials) -> dict[tuple[str, str], float]:
    best: dict[tuple[str, str], float] = {}
    for row in table.rows:
        if row["cost"] is not None:
            key = (row["task"], table.setting(row))
            best[key] = min(best.get(key, row["cost"]), row["cost"])
    return best


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each number relative to the mean; equal numbers share their mean rank."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + len(values)) / 2)[group], np.float64)
