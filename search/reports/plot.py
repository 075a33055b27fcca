"""Pictures of runs, drawn with matplotlib: the progress of a search, and its findings.

    run = search.load_run("./tune_tmp")
    search.plot.best_so_far(run)
    search.plot.best_so_far({"64 trials": run, "16 trials": other}, against="seconds")
    search.plot.best_so_far(search.explain("matmul.log").table())

What is drawn are trials, whichever log they come from. Each function takes the axes to draw on,
makes them if there are none, and returns them. A trial that was stopped early has a lower bound in
place of a time, and is drawn hollow: it lies where the triangle is or beyond it, where the tip
points. One that failed has no time and no dot; the picture says how many did. ImportError without
matplotlib says how to install it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    finished,
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from search.reports.profiler import Profiler
    from search.space_generator.design_space import DesignSpace

Runs: TypeAlias = Trials | Mapping[str, Trials]
"""One run, or several with their labels."""

_MOST_PANELS: Final = 24
_COLUMNS: Final = 3
_MOST_CURVES: Final = 15
_CROWDED: Final = 30
_WORTH_A_DOT: Final = 1.05


@dataclass(frozen=True)
class _Numbers:
    """One number of a decision in each trial; None where a trial has none there."""

    name: str
    values: list[Any]
    label: Callable[[Any], str] = str

    @property
    def present(self) -> list[Any]:
        """The numbers that occur, in their order."""
        return sorted({value for value in self.values if value is not None}, key=order_of_value)


def best_so_far(
    runs: Runs, *, against: Literal["trials", "seconds"] = "trials", ax: Axes | None = None
) -> Axes:
    """Draw the best time found so far against trials or seconds, a line for each run and task.

    Times are in microseconds on a logarithmic axis. A line starts at the first trial that was
    measured, and goes on to the last one. Seconds count from the start of the first trial.
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
    return finished(ax, x_label, "best time so far (us)")


def predicted_against_measured(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Draw for each trial the score that the model gave before against its speed.

    Speeds are relative to the best of the task. The legend has the share of pairs of measured
    trials that were predicted in the right order, half of them being a guess; pairs are of one
    batch, since the model learns between batches. It also counts the trials without a dot: those
    that failed, and those that were chosen without a prediction.
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
    return finished(ax, "measured speed (share of the best)", "predicted score (higher is faster)")


def cost_by_decision(
    run: Trials,
    space: DesignSpace | None = None,
    *,
    sites: Sequence[int] | None = None,
    axes: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Draw the time of each trial against every number that was decided, a panel for each.

    A decision of several numbers, such as a tile, has a panel for each of them; numbers that never
    varied have none, nor have those after the first 24. Dots are trials and bars the medians, in
    microseconds on a logarithmic axis. Trials that were stopped count with their bounds, so that a
    median is never too high. `sites` chooses some sites by their index. `space` names them, and
    chooses its own trials; without it they are those of the space that the best trial is of.
    Returns the axes in a flat array. Raises TuningError if no measured trial has decisions of that
    space.
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
    varied = [n for n in _numbers(trials, space, sites) if len(n.present) > 1][:_MOST_PANELS]
    drawn = panels(max(len(varied), 1)) if axes is None else np.asarray(axes, object).ravel()
    for ax, numbers in zip(drawn, varied, strict=False):
        _strip(ax, numbers, seconds, stopped)
    beside = [f"{stopped.sum()} stopped (hollow: this slow at least)"] if stopped.any() else []
    failed = sum(t.failed for t in decided)
    beside += [f"{failed} failed (no dot)"] if failed else []
    if beside and axes is None:
        text = f"{len(trials) - stopped.sum()} trials measured, {', '.join(beside)}"
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

    `measure` is the time on the measuring core. `build` adds up the building processes, which work
    beside each other and beside measuring, so that it may exceed the rest. `search and wait` is
    what is left of the time from the first trial's start to the last one's end. Logs that do not
    tell building from measuring have one bar for both. With the Profiler
    that was entered during the run (`profilers`: one, or one for each label) it is told apart into
    `search`, `learn`, `wait for builds` and `other`.
    """
    ax = new_axes(ax)
    named = _named(runs)
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
    return finished(ax, "time (s)")


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


# --------------------------------------------------------------------------------------- the data


def _parts(runs: Runs) -> Iterator[tuple[str, TaskTrials]]:
    """Yield each task of each run, with a label that tells it from the others."""
    for label, run in _named(runs).items():
        for name, task in zip(run.labels, run.by_task, strict=True):
            several = ": ".join(filter(None, (label, name)))
            if task.trials:
                yield (several if len(run.tasks) > 1 else label), task


def _named(runs: Runs) -> Mapping[str, Trials]:
    return {"": runs} if isinstance(runs, Trials) else runs


def _numbers(
    trials: Sequence[Trial], space: DesignSpace | None, sites: Sequence[int] | None
) -> Iterator[_Numbers]:
    """Yield each number that is decided; a log that has names for them tells each by its own."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.knobs))
    if space is None and names:
        for name in names if sites is None else [names[k] for k in sites]:
            yield _Numbers(name, [trial.knobs.get(name) for trial in trials])
        return
    points = [trial.decisions or () for trial in trials]
    for k in range(max(map(len, points))) if sites is None else sites:
        site = None if space is None else space.sites[k]
        name = f"site {k}" if site is None else site.name
        decisions = [_plain(point[k]) if k < len(point) else () for point in points]
        length = max(map(len, decisions))
        domain = None if site is None or length > 1 else site.domain
        for j in range(length):
            values = [decision[j] if j < len(decision) else None for decision in decisions]
            place = f",\nfactor {j + 1} of {length}" if length > 1 else ""
            yield _Numbers(f"{name}{place}", values, str if domain is None else domain.label)


def _plain(decision: Any) -> tuple[Any, ...]:
    """Return the numbers of a decision; one that is none, such as a word, is one too."""
    if decision is None:
        return ()
    return tuple(decision) if isinstance(decision, (list, tuple)) else (decision,)


def _stages(run: Trials, profiler: Profiler | None) -> dict[str, float]:
    stages = run.by_task.stages()
    if profiler is None:
        return stages
    del stages["search and wait"]
    spent = profiler.get()
    total = spent.pop("Total", math.fsum(spent.values()))
    told = {
        "search": _sum(spent, ("EvoSearch/", "InitializeTask")),
        "learn": _sum(spent, ("MeasureCallback/UpdateCostModel",)),
        "wait for builds": _sum(spent, ("SendToBuilder", "WaitForBuilder")),
    }
    other = total - list(stages.values())[-1] - math.fsum(told.values())
    return {**stages, **told, "other": max(other, 0.0)}


def _sum(spent: Mapping[str, float], prefixes: tuple[str, ...]) -> float:
    return math.fsum(seconds for name, seconds in spent.items() if name.startswith(prefixes))


# ------------------------------------------------------------------------------------ the drawing


def _strip(
    ax: Axes, numbers: _Numbers, microseconds: NDArray[Any], stopped: NDArray[np.bool_]
) -> None:
    """Draw times over the numbers that occur, which stand side by side in their order."""
    jitter = np.random.default_rng(0)
    style: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.45, "markersize": 4}
    for place, number in enumerate(numbers.present):
        here = np.array([value == number for value in numbers.values])
        times, bound = microseconds[here], stopped[here]
        # Dots of one number would hide each other.
        x = place + jitter.uniform(-0.2, 0.2, len(times))
        ax.plot(x[~bound], times[~bound], "o", markeredgewidth=0, **style)
        if bound.any():
            ax.plot(x[bound], times[bound], "^", mfc="none", **style)
        ax.hlines(np.median(times), place - 0.35, place + 0.35, color=COLOURS[5], linewidth=2)
    labels = [numbers.label(number) for number in numbers.present]
    ax.set_xticks(range(len(labels)), labels)
    if sum(map(len, labels)) > 16:
        ax.tick_params(axis="x", labelrotation=60)
    ax.set_title(numbers.name, fontsize=9)
    ax.grid(axis="y", alpha=0.3)


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
