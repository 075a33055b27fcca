"""A log in one picture: progress, endings and time, and the cost against what varied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from search.plot import best_so_far
from search.reports.drawing import COLOURS, finished, log_scale, pyplot, say
from search.trials.cost_curve import CostCurve
from search.trials.table import Trials

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS: Final = 3
_MOST_CURVES: Final = 15
_CROWDED: Final = 30
_WORTH_A_DOT: Final = 1.05


def overview(table: Trials) -> NDArray[Any]:
    """Draw the log of one task and return the axes in a flat array.

    The first three panels are progress, endings and time; then each knob and resource that varied
    has one, at most 15. Costs are in microseconds on a logarithmic axis.
    TuningError for a table of several tasks.
    """
    curves = [table.group_by(name) for name in (*table.knobs, *table.resources)]
    curves = [curve for curve in curves if len(curve.values) > 1][:_MOST_CURVES]
    rows = 1 + -(-len(curves) // _COLUMNS)
    figure, made = pyplot().subplots(
        rows, _COLUMNS, figsize=(4 * _COLUMNS, 3 * rows), squeeze=False, layout="constrained"
    )
    figure.suptitle("\n".join(table.tasks), fontsize=10)
    axes = np.asarray(made, object).ravel()
    _progress(axes[0], table)
    _endings(axes[1], table)
    _time(axes[2], table)
    for ax, curve in zip(axes[3:], curves, strict=False):
        _curve(ax, curve)
    if curves:
        fullest = max(
            axes[3 : 3 + len(curves)], key=lambda ax: len(ax.get_legend_handles_labels()[1])
        )
        fullest.legend(fontsize=8)
    for ax in axes[3 + len(curves) :]:
        ax.set_visible(False)
    return axes


def _curve(ax: Axes, curve: CostCurve) -> None:
    """Draw the best and the median cost against the values of a column.

    Positive numbers have a logarithmic axis; others stand side by side. The larger dot is where
    the largest drop of the best cost ends, from one value to the next.
    """
    numeric = all(isinstance(value, (int, float)) and value > 0 for value in curve.values)
    places = np.array(curve.values, np.float64) if numeric else np.arange(len(curve.values))
    best, median = (np.array(costs) * 1e6 for costs in (curve.best, curve.median))
    ax.plot(places, median, "--", color=COLOURS[5], alpha=0.6, label="median")
    ax.plot(places, best, "o-", color=COLOURS[0], markersize=4, label="best")
    turn = curve.turning_point()
    if turn is not None and turn.factor >= _WORTH_A_DOT:
        at = curve.values.index(turn.after)
        label = "after the largest drop"
        ax.plot(places[at], best[at], "o", color=COLOURS[0], markersize=9, label=label)
    log_scale(ax)
    if numeric:
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(lambda x, _: _in_words(x))
    else:
        ax.set_xticks(places, [str(value) for value in curve.values])
        if sum(len(str(value)) for value in curve.values) > _CROWDED:
            ax.tick_params(axis="x", labelrotation=60)
    ax.set_title(curve.column, fontsize=9)
    ax.set_ylabel("time (us)")
    ax.grid(alpha=0.3)


def _in_words(number: float) -> str:
    """Return a number with K for 1024 and M for its square."""
    for power, letter in ((2, "M"), (1, "K")):
        if number >= 1024**power:
            return f"{number / 1024**power:g}{letter}"
    return f"{number:g}"


def _progress(ax: Axes, table: Trials) -> None:
    numbers = np.arange(1, len(table) + 1)
    cost = table.column("cost") * 1e6
    if np.isfinite(cost).any():
        ax.plot(numbers, cost, "o", color=COLOURS[5], alpha=0.45, markersize=3, label="measured")
        best_so_far({"best so far": table}, ax=ax)
    else:
        say(ax, "nothing was measured")
    ax.set_title("progress", fontsize=9)
    finished(ax, "measurements", "time (us)")


def _endings(ax: Axes, table: Trials) -> None:
    counts = table.errors()
    bars = ax.barh(list(counts), list(counts.values()), color=COLOURS[0])
    ax.bar_label(bars, fmt=" %d", fontsize=9)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.locator_params(axis="x", integer=True)
    ax.tick_params(axis="y", labelsize=7)
    ax.set_title("how measurements ended", fontsize=9)
    finished(ax)


def _time(ax: Axes, table: Trials) -> None:
    """Draw the seconds spent so far, stage by stage where that is known."""
    numbers = np.arange(1, len(table) + 1)
    stages = {"building": "build_seconds", "running": "run_seconds"}
    known = {
        label: np.nan_to_num(table.column(name))
        for label, name in stages.items()
        if any(row[name] is not None for row in table)
    } or {"building and running": table.column("all_cost")}
    ax.stackplot(
        numbers,
        *(np.cumsum(seconds) for seconds in known.values()),
        labels=list(known),
        colors=COLOURS,
        alpha=0.7,
    )
    ax.set_title("time spent", fontsize=9)
    finished(ax, "measurements", "sum (s)")
    ax.legend(frameon=False, loc="upper left")
