"""What to try next, computed from a log: each piece of advice with the figures that it rests on.

The thresholds are choices, and stand here together: advice is given where a difference is larger
than what one finds by chance in logs of a few dozen trials.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from codegen import Target, TargetError
from codegen.target import host
from search.reports.report import TaskReport
from search.reports.table import Trials
from search.reports.tasks import failures_of
from search.runner.time_text import time_text

_FEW: Final = 8
"""Trials below which the course of a search says nothing."""
_STILL_FALLS: Final = 0.02
"""The part by which the best fell in the last half of the trials, from which on more may pay."""
_SATURATED: Final = 0.25
"""The share of the trials within which the best was found, if there are enough for a search."""
_MANY: Final = 32
_FAR: Final = 2.0
"""The factor to the best time that a value or a design space never came near to."""
_SAMPLES: Final = 4
"""Trials of a value after which it is known to be bad."""
_WORTH_IT: Final = 0.1
"""The share of the trials that leaving it out has to save."""
_EXPLAINS: Final = 0.15
"""The share of the variance that a column explains at least, to be worth a constraint."""
_NOISY: Final = 0.05
"""The relative spread of measurements beyond which candidates are told apart by luck."""
_OFTEN: Final = 0.2
"""The share of failures that is worth a look."""
_ASKED: Final = 16
_BLIND: Final = 0.6
"""The share of pairs, of at least so many trials, below which a model does not help."""
_APART: Final = 1.5
"""The factor between the ninth and the first tenth of times from which on there is an order."""
_NEAR_THE_ROOF: Final = 0.9
_FACTOR: Final = re.compile(r"(.*?)((?:\[\d+\])?)")
"""A column: the name of a decision, and the place of a number in one of several."""
_WORTH_CORES: Final = 50e-6
"""Seconds of a call from which on it pays to share it among cores."""


class Advice(NamedTuple):
    """Something to try, and the figures that speak for it."""

    task: str
    what: str
    why: str


def advice(table: Trials) -> list[Advice]:
    """Return what to try next for the trials of one task, the most telling first."""
    (task,), report = table.tasks, table.task.report
    found = [*_of_failures(table), *_of_noise(table, report)]
    at_the_roof = [*_of_the_roof(report)]
    found += at_the_roof or [
        *_of_the_course(table, report),
        *_of_spaces(table),
        *_of_values(table),
        *_of_the_model(table),
    ]
    found += _of_cores(table)
    return [Advice(task, what, why) for what, why in found]


def _of_the_course(table: Trials, report: TaskReport) -> Iterator[tuple[str, str]]:
    if report.exhausted:
        yield (
            "a wider space: more rules (`sch_rules=`), or another `space=`",
            f"the search ended after {report.trials} trials because it found no candidate that was "
            "not measured",
        )
        return
    course = table.task.course
    best = course[-1] if course else None
    if best is None or len(course) < _FEW:
        return
    half = course[len(course) // 2 - 1]
    last = next(k for k, value in enumerate(course) if value == best) + 1
    if half is None or half > best * (1 + _STILL_FALLS):
        fell = "" if half is None else f"by {1 - best / half:.0%} "
        yield (
            f"more trials, {2 * len(course)} or so in all",
            f"the best still fell {fell}in the second half of the {len(course)} trials, at last in "
            f"trial {last}",
        )
    elif len(course) >= _MANY and last <= len(course) * _SATURATED:
        yield (
            "fewer trials (`early_stopping=`), or another space: this one gives no more",
            f"none of the {len(course) - last} trials after trial {last} was better than that",
        )


def _of_the_roof(report: TaskReport) -> Iterator[tuple[str, str]]:
    share = report.share
    if share is None or share < _NEAR_THE_ROOF:
        return
    remedy = {
        "compute": "fewer operations: another algorithm, or a narrower type",
        "memory": "less data: fusing it with what comes before or after, or a narrower type",
    }
    yield (
        f"{remedy[str(report.bound)]}; a schedule has little left to gain",
        f"the best reaches {share:.0%} of what the machine can do, {report.bound}-bound",
    )


def _of_noise(table: Trials, report: TaskReport) -> Iterator[tuple[str, str]]:
    spread, of = None, ""
    if report.spread is not None and report.best:
        spread, of = report.spread / report.best, f"the {report.rounds} rounds of the best"
    else:
        repeats = [trial.run_secs for trial in table.trials if len(trial.run_secs) > 2]
        apart = [statistics.stdev(times) / statistics.fmean(times) for times in repeats]
        if apart:
            spread, of = statistics.median(apart), "the repeats of a trial"
    if spread is not None and spread > _NOISY:
        yield (
            "a quieter machine, or longer measuring: EvaluatorConfig(min_repeat_ms=100)",
            f"{of} vary by {spread:.0%}, so that candidates are told apart by luck",
        )


def _of_failures(table: Trials) -> Iterator[tuple[str, str]]:
    groups = failures_of(table.trials)
    failed = sum(len(group.trials) for group in groups)
    if not groups or failed < max(2, _OFTEN * len(table)):
        return
    group = groups[0]
    stages = {
        "build": "what the builder says of them: see the log of the task",
        "run": "a longer limit (LocalRunner(timeout_sec=...)), if it is one that ends them",
        "check": "the rule or the primitive that makes them compute something else",
    }
    yield (
        f"a look at {stages[group.trials[0].stage]}",
        f"{failed} of {len(table)} trials failed, {len(group.trials)} of them with "
        f"{group.ending}{f': {group.reason}' if group.reason else ''}",
    )


def _of_spaces(table: Trials) -> Iterator[tuple[str, str]]:
    """Say which design spaces never came near to the best."""
    times: dict[int, list[float | None]] = {}
    for trial in table.trials:
        if trial.space is not None and not trial.failed:
            times.setdefault(trial.space, []).append(trial.seconds)
    best = min(filter(None, (s for of in times.values() for s in of)), default=None)
    if best is None or len(times) < 2:
        return
    for space, seconds in sorted(times.items()):
        own = min((s for s in seconds if s is not None), default=None)
        far = own is None or own > _FAR * best
        if far and len(seconds) >= max(_SAMPLES, _WORTH_IT * len(table)):
            reached = "was stopped each time" if own is None else f"came to {time_text(own)}"
            yield (
                f"the search without the rule that makes design space {space} (`sch_rules=`)",
                f"{len(seconds)} trials went there; it {reached}, and the best is "
                f"{time_text(best)}",
            )


def _of_values(table: Trials) -> Iterator[tuple[str, str]]:
    """Say which values of decisions only fail, or never came near to the best."""
    best = min((trial.seconds for trial in table.trials if trial.seconds), default=None)
    if best is None:
        return
    curves = [table.group_by(name) for name in table.knobs]
    for curve in sorted(curves, key=lambda curve: -curve.share):
        values = [row[curve.column] for row in table.rows]
        tried = Counter(value for value in values if value is not None)
        ended = zip(values, table.trials, strict=True)
        failed = Counter(v for v, one in ended if v is not None and one.failed)
        always = [v for v in tried if failed[v] == tried[v] >= _SAMPLES]
        if always and sum(failed.values()) <= 2 * sum(failed[v] for v in always):
            yield (
                _constraint(table, curve.column, always),
                f"all {sum(tried[v] for v in always)} trials with that failed",
            )
        if curve.explained is None or curve.explained.low < _EXPLAINS:
            continue
        far = [
            value
            for value, least, count in zip(curve.values, curve.best, curve.counts, strict=True)
            if least > _FAR * best and count >= _SAMPLES
        ]
        trials = sum(tried[value] for value in far)
        if far and trials >= _WORTH_IT * len(table):
            least = min(b for v, b in zip(curve.values, curve.best, strict=True) if v in far)
            yield (
                _constraint(table, curve.column, far),
                f"{trials} trials with that ({trials / len(table):.0%}) took {least / best:.1f} "
                f"times the best or more; {curve.column} explains {curve.explained.share:.0%}",
            )
            return


def _of_the_model(table: Trials) -> Iterator[tuple[str, str]]:
    asked = [t.seconds for t in table.trials if t.predicted is not None and t.seconds is not None]
    if len(asked) < _ASKED:
        return
    low, high = np.quantile(asked, (0.1, 0.9))
    share = table.task.pairs_in_order if high > _APART * low else math.nan
    # Two standard errors: chance alone makes a few candidates look unordered.
    if share + 2 / (3 * len(asked) ** 0.5) < _BLIND:
        yield (
            "another cost model (`cost_model=`), or a random search beside it",
            f"the model does not tell what is fast: of {len(asked)} trials it predicted "
            f"{share:.0%} of the pairs of a batch in the right order, half of them being a guess",
        )


def _of_cores(table: Trials) -> Iterator[tuple[str, str]]:
    try:
        target = Target(table.trials[0].target)
    except TargetError:
        return
    best, cores, here = table.best(), target.num_cores, host.physical_cores()
    if best is None or cores is None:
        return
    used = best["parallel_extent"]
    if cores > 1 and used == 1:
        yield (
            f"a target of one core, in place of {cores}: measuring is then quieter",
            "the best uses one core only",
        )
    elif cores == 1 < here and target.is_host and best["cost"] > _WORTH_CORES:
        yield (
            f"a target with -num-cores={here}, if the program has this machine for itself",
            f"a call takes {time_text(best['cost'])} on one core, and this machine has {here}",
        )


def _constraint(table: Trials, column: str, values: list[Any]) -> str:
    """Return how some values of a column are left out: of a search, what it is given for that."""
    listed = ", ".join(map(repr, values))
    if all(trial.decisions is None for trial in table.trials):
        return f"a space without {column} in {{{listed}}}"
    name, place = _FACTOR.fullmatch(column.removesuffix(" (knob)")).groups()  # type: ignore[union-attr]
    decision = f'd["{name}"]{place}'
    if len(values) == 1:
        return f"constraint=lambda d: {decision} != {listed}"
    return f"constraint=lambda d: {decision} not in ({listed})"
