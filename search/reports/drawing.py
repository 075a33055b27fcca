"""Axes, colours and scales of all plots. Raises ImportError without matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
"""The palette of Okabe and Ito, which is suited to any kind of colour vision."""
LINES: Final = ("-", "--", "-.", ":")
MARKERS: Final = ("o", "s", "^", "D")

_PANEL_COLUMNS: Final = 4

_FEW_ROUND_NUMBERS: Final = 5
_MANY_DECADES: Final = 10_000
"""Between these ratios of its ends, a logarithmic axis has ticks at 1, 2 and 5 of each decade."""


def pyplot() -> Any:
    """Return matplotlib's `pyplot`."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib, which comes with the extra `notebook`: "
            "pip install 'tensorir[notebook]'"
        ) from error
    return plt


def new_axes(ax: Axes | None) -> Axes:
    """Return the given axes, or the axes of a new figure."""
    if ax is not None:
        return ax
    made: Axes = pyplot().subplots(figsize=(7, 4), layout="constrained")[1]
    return made


def panels(count: int) -> NDArray[Any]:
    """Return axes of a new figure with panels that share the vertical axis."""
    columns = min(count, _PANEL_COLUMNS)
    rows = -(-count // columns)
    _, made = pyplot().subplots(
        rows,
        columns,
        figsize=(2.6 * columns + 0.6, 2.4 * rows + 0.3),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for row in made:
        row[0].set_ylabel("time (us)")
    return np.asarray(made, object).ravel()


def log_scale(ax: Axes) -> None:
    """Make the vertical axis logarithmic, with plain numbers at its ticks."""
    from matplotlib import ticker  # noqa: PLC0415 - optional

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    steps = (1, 2, 5) if high / low < _MANY_DECADES else (1,)
    few = high / low < _FEW_ROUND_NUMBERS
    ax.yaxis.set_major_locator(ticker.MaxNLocator(5) if few else ticker.LogLocator(subs=steps))
    ax.yaxis.set_minor_locator(ticker.NullLocator())
    ax.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))


def finish_axes(ax: Axes, x: str = "", y: str = "") -> Axes:
    """Return axes with their labels, a grid, and a legend if something has a label."""
    ax.set(xlabel=x, ylabel=y)
    ax.grid(alpha=0.3)
    ax.set_axisbelow(True)
    if len(ax.get_legend_handles_labels()[1]):
        ax.legend(frameon=False)
    return ax


def say(ax: Axes, sentence: str) -> None:
    """Write a sentence into an empty plot."""
    ax.text(0.5, 0.5, sentence, ha="center", va="center", transform=ax.transAxes)


def colour(k: int) -> str:
    """Return the colour of a line by its number."""
    return COLOURS[k % len(COLOURS)]
