"""Plots of runs by matplotlib: the progress of a search, and its results.

    run = search.load_run("./tune_tmp")
    search.plot.best_so_far(run)
    search.plot.best_so_far({"64 trials": run, "16 trials": other}, against="seconds")
    search.plot.best_so_far(search.explain("matmul.log").table())

The functions accept the trials of any log. Each draws on the given axes or on new ones, and returns
them. A trial that was stopped early has a lower bound of its time and is drawn hollow, as a
triangle that points to its possible times. Failed trials have no dot; the plot shows their number.
ImportError without matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.errors import TuningError
from search.models.graph_picture import graph as graph
from search.reports.cost_curve import CostCurve, order_of_value
from search.reports.drawing import (
    COLOURS,
    LINES,
    MARKERS,
    colour,
    finish_axes,
    log_scale,
    new_axes,
    panels,
    pyplot,
    say,
)
from search.reports.table import Trials
from search.reports.tasks import TaskTrials
from search.reports.tasks import right_pairs as right_pairs
from search.reports.trial import Trial
from search.space_generator.knobs import decision_columns, knob_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from search.reports.profiler import Profiler
    from search.space_generator.design_space import DesignSpace

Runs: TypeAlias = Trials | Mapping[str, Trials]
"""One run, or several by label."""

_MOST_PANELS: Final = 24
_COLUMNS: Final = 3
_MOST_CURVES: Final = 15
_CROWDED: Final = 30
_WORTH_A_DOT: Final = 1.05


def best_so_far(
    runs: Runs, *, against: Literal["trials", "seconds"] = "trials", ax: Axes | None = None
) -> Axes:
    """Draw the best time so far against trials or seconds, a line for each run and task.

    Times are in microseconds on a logarithmic axis. A line starts at the first measured trial.
    Seconds count from the start of the first trial.
    """
    if against not in ("trials", "seconds"):
        raise TuningError(f'against is "trials" or "seconds", got {against!r}')
    ax = new_axes(ax)
    for k, (label, task) in enumerate(_parts(runs)):
        began = min(trial.time - trial.spent for trial in task.trials)
        drawn = [
            (number if against == "trials" else trial.time - began, best * 1e6)
            for number, (trial, best) in enumerate(zip(task.trials, task.course, strict=True), 1)
            if best is not None
        ]
        style = LINES[k % len(LINES)]
        x, y = np.array(drawn, np.float64).reshape(-1, 2).T
        ax.step(x, y, style, where="post", color=colour(k), label=label, linewidth=2)
    log_scale(ax)
    x_label = "trials" if against == "trials" else "time since the start (s)"
    return finish_axes(ax, x_label, "best time so far (us)")


def predicted_against_measured(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Draw the predicted score of each trial against its measured speed.

    Speeds are relative to the best of the task. The legend has the fraction of pairs of measured
    trials in the predicted order (random scores: 50 %); pairs are of one batch, since the model
    learns between batches. It also has the numbers of trials without a dot: failed trials, and
    trials without a prediction.
    """
    ax = new_axes(ax)
    for k, (label, task) in enumerate(_parts(runs)):
        predicted = [trial for trial in task.trials if trial.predicted is not None]
        done = [(trial.seconds, trial.predicted) for trial in predicted if trial.seconds]
        if not done:
            continue
        best = min(seconds for seconds, _ in done)
        share = task.pairs_in_order
        legend = [label] if label else []
        legend.append("no pairs" if math.isnan(share) else f"{share:.0%} of pairs in order")
        marker = MARKERS[k % len(MARKERS)]
        style: dict[str, Any] = {"color": colour(k), "alpha": 0.6, "markersize": 5}
        dots = [(best / seconds, said) for seconds, said in done]
        ax.plot(*zip(*dots, strict=True), marker, label=": ".join(legend), **style)
        stopped = [(best / b, t.predicted) for t in predicted if (b := t.slower_than)]
        if stopped:
            label_of = f"{len(stopped)} stopped, this fast at most"
            ax.plot(*zip(*stopped, strict=True), "<", label=label_of, mfc="none", **style)
        blind = sum(trial.predicted is None and not trial.failed for trial in task.trials)
        for count, what in ((task.failed, "failed"), (blind, "had no prediction")):
            if count:
                ax.plot([], [], " ", label=f"{count} {what}: no dot")
    if not ax.lines:
        say(ax, "no trial has a prediction")
    return finish_axes(
        ax, "measured speed (share of the best)", "predicted score (higher is faster)"
    )


def cost_by_decision(
    run: Trials,
    space: DesignSpace | None = None,
    *,
    sites: Sequence[int] | None = None,
    axes: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Draw the time of each trial against every decided number, a panel for each.

    A decision of several numbers, such as a tile, has a panel for each of them; at most 24 numbers
    that varied have panels. Dots are trials and bars medians, in microseconds on a logarithmic
    axis. Stopped trials count with their bounds, so a median is never too high. `sites` selects
    decisions by index. `space` selects the trials of a design space and names its decisions; the
    default is the space of the best trial. Returns the axes in a flat array. Raises TuningError if
    no measured trial has decisions of the space.
    """
    decided = [t for t in run.trials if t.decisions is not None or t.knobs]
    measured = [t for t in decided if t.seconds]
    if measured:
        best = min(measured, key=lambda t: t.seconds or math.inf)
        index = best.space if space is None else space.index
        one = (best.task, best.workload, index)
        decided = [t for t in decided if (t.task, t.workload, t.space) == one]
    trials = [t for t in decided if t.seconds or t.slower_than]
    if not any(t.seconds for t in trials):
        raise TuningError("no measured trial of the run has decisions of this design space")
    seconds = np.array([t.seconds or t.slower_than for t in trials]) * 1e6
    stopped = np.array([t.seconds is None for t in trials])
    columns = _columns(trials, space, sites)
    varied = [name for name in columns if len({*columns[name]} - {None}) > 1][:_MOST_PANELS]
    drawn = panels(max(len(varied), 1)) if axes is None else np.asarray(axes, object).ravel()
    for ax, name in zip(drawn, varied, strict=False):
        _strip(ax, name, columns[name], seconds, stopped)
    others = [f"{stopped.sum()} stopped (hollow: this slow at least)"] if stopped.any() else []
    failed = sum(t.failed for t in decided)
    others += [f"{failed} failed (no dot)"] if failed else []
    if others and axes is None:
        text = f"{len(trials) - stopped.sum()} trials measured, {', '.join(others)}"
        drawn[0].figure.suptitle(text, fontsize=9)
    for ax in drawn[: len(varied)]:
        log_scale(ax)
    for ax in drawn[max(len(varied), 1) :]:
        ax.set_visible(False)
    if not varied:
        say(drawn[0], "all trials decided the same")
    return drawn


def where_time_went(
    runs: Runs,
    *,
    profilers: Profiler | Mapping[str, Profiler] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the seconds of each stage, a group of bars for each run.

    `measure` is the time on the measuring core. `build` is the sum of the building processes, which
    run in parallel to each other and to measuring. `search and wait` is the rest of the time from
    the start of the first trial to the end of the last one; with a Profiler that was active during
    the run (`profilers`: one, or one per label) it is divided into `search`, `learn`, `wait for
    builds` and `other`. Logs with only the sum of building and measuring have one bar for both.
    """
    ax = new_axes(ax)
    named = _by_name(runs)
    of_run = profilers if isinstance(profilers, Mapping) else dict.fromkeys(named, profilers)
    stages = {label: _stages(run, of_run.get(label)) for label, run in named.items()}
    names = list(dict.fromkeys(name for seconds in stages.values() for name in seconds))
    height = 0.8 / len(stages)
    for k, (label, seconds) in enumerate(stages.items()):
        places = [names.index(name) + (k - (len(stages) - 1) / 2) * height for name in seconds]
        bars = ax.barh(places, list(seconds.values()), height, color=colour(k), label=label or None)
        ax.bar_label(bars, fmt=" %.3g s", fontsize=9)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    return finish_axes(ax, "time (s)")


def overview(table: Trials) -> NDArray[Any]:
    """Draw the log of one task and return the axes in a flat array.

    The first three panels show progress, endings and time; then follow the knobs and resources that
    varied, at most 15. Costs are in microseconds on a logarithmic axis. Raises TuningError for a
    table of several tasks.
    """
    curves = [curve for curve in table.curves if len(curve.values) > 1][:_MOST_CURVES]
    rows = 1 + -(-len(curves) // _COLUMNS)
    figure, made = pyplot().subplots(
        rows, _COLUMNS, figsize=(4 * _COLUMNS, 3 * rows), squeeze=False, layout="constrained"
    )
    figure.suptitle("\n".join(table.tasks), fontsize=10)
    axes = np.asarray(made, object).ravel()
    _progress(axes[0], table)
    _endings(axes[1], table)
    where_time_went(table, ax=axes[2]).set_title("time spent", fontsize=9)
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


# --------------------------------------------------------------------------------------- the data


def _parts(runs: Runs) -> Iterator[tuple[str, TaskTrials]]:
    """Yield each task of each run with its label."""
    for label, run in _by_name(runs).items():
        for name, task in zip(run.labels, run.by_task, strict=True):
            several = ": ".join(filter(None, (label, name)))
            if task.trials:
                yield (several if len(run.tasks) > 1 else label), task


def _by_name(runs: Runs) -> Mapping[str, Trials]:
    return {"": runs} if isinstance(runs, Trials) else runs


def _columns(
    trials: Sequence[Trial], space: DesignSpace | None, sites: Sequence[int] | None
) -> dict[str, list[Any]]:
    """Return the decided numbers of the trials by column, None for trials without it."""
    known = () if space is None else space.knobs
    if space is None and any(trial.knobs for trial in trials):
        rows: list[Mapping[str, Any]] = [trial.knobs for trial in trials]
        names = list(dict.fromkeys(name for row in rows for name in row))
    else:
        rows = [dict(decision_columns(known, trial.decisions or ())) for trial in trials]
        count = max(len(trial.decisions or ()) for trial in trials)
        names = [*knob_names(known), *(f"decision {k}" for k in range(len(known), count))]
    chosen = set(names if sites is None else [names[k] for k in sites])
    columns = dict.fromkeys(name for row in rows for name in row)
    return {
        column: [row.get(column) for row in rows]
        for column in columns
        if column in chosen or column.rpartition("[")[0] in chosen
    }


def _stages(run: Trials, profiler: Profiler | None) -> dict[str, float]:
    stages = run.by_task.stages()
    if profiler is None:
        return stages
    del stages["search and wait"]
    spent = profiler.get()
    total = spent.pop("Total", math.fsum(spent.values()))
    scopes = {
        "search": ("EvoSearch/", "InitializeTask"),
        "learn": ("MeasureCallback/UpdateCostModel",),
        "wait for builds": ("SendToBuilder", "WaitForBuilder"),
    }
    parts = {
        part: math.fsum(seconds for name, seconds in spent.items() if name.startswith(prefixes))
        for part, prefixes in scopes.items()
    }
    other = total - list(stages.values())[-1] - math.fsum(parts.values())
    return {**stages, **parts, "other": max(other, 0.0)}


# ------------------------------------------------------------------------------------ the drawing


def _strip(
    ax: Axes,
    name: str,
    values: Sequence[Any],
    microseconds: NDArray[Any],
    stopped: NDArray[np.bool_],
) -> None:
    """Draw times over values, evenly spaced in ascending order."""
    jitter = np.random.default_rng(0)
    style: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.45, "markersize": 4}
    present = sorted({*values} - {None}, key=order_of_value)
    for place, number in enumerate(present):
        here = np.array([value == number for value in values])
        times, bound = microseconds[here], stopped[here]
        # Dots of one number would hide each other.
        x = place + jitter.uniform(-0.2, 0.2, len(times))
        ax.plot(x[~bound], times[~bound], "o", markeredgewidth=0, **style)
        if bound.any():
            ax.plot(x[bound], times[bound], "^", mfc="none", **style)
        ax.hlines(np.median(times), place - 0.35, place + 0.35, color=COLOURS[5], linewidth=2)
    labels = [str(value) for value in present]
    ax.set_xticks(range(len(labels)), labels)
    if sum(map(len, labels)) > 16:
        ax.tick_params(axis="x", labelrotation=60)
    ax.set_title(name, fontsize=9)
    ax.grid(axis="y", alpha=0.3)


def _curve(ax: Axes, curve: CostCurve) -> None:
    """Draw the best and the median cost against the values of a column.

    Positive numbers have a logarithmic axis; other values are evenly spaced. The large dot marks
    the end of the largest drop of the best cost.
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
        ax.xaxis.set_major_formatter(lambda x, _: f"{x / 1024:g}K" if x >= 1024 else f"{x:g}")
    else:
        ax.set_xticks(places, [str(value) for value in curve.values])
        if sum(len(str(value)) for value in curve.values) > _CROWDED:
            ax.tick_params(axis="x", labelrotation=60)
    ax.set_title(curve.column, fontsize=9)
    ax.set_ylabel("time (us)")
    ax.grid(alpha=0.3)


def _progress(ax: Axes, table: Trials) -> None:
    numbers = np.arange(1, len(table) + 1)
    cost = table.column("cost") * 1e6
    if np.isfinite(cost).any():
        ax.plot(numbers, cost, "o", color=COLOURS[5], alpha=0.45, markersize=3, label="measured")
        best_so_far({"best so far": table}, ax=ax)
    else:
        say(ax, "nothing was measured")
    ax.set_title("progress", fontsize=9)
    finish_axes(ax, "measurements", "time (us)")


def _endings(ax: Axes, table: Trials) -> None:
    counts = table.errors()
    bars = ax.barh(list(counts), list(counts.values()), color=COLOURS[0])
    ax.bar_label(bars, fmt=" %d", fontsize=9)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.locator_params(axis="x", integer=True)
    ax.tick_params(axis="y", labelsize=7)
    ax.set_title("how measurements ended", fontsize=9)
    finish_axes(ax)
