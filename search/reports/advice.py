"""Advice on what to try next, computed from the trials of a task, with the figures behind it.

The thresholds are choices: advice needs a difference larger than chance in logs of a few dozen
trials.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from codegen import Target, TargetError
from codegen.target import host
from search.reports.report import TaskReport
from search.reports.table import Trials
from search.reports.tasks import failures_of
from search.runner.time_call import time_text

_FEW: Final = 8
"""The minimum number of trials for conclusions from the course of a search."""
_MANY: Final = 32
"""The minimum number of trials for the conclusion that fewer are enough."""
_STILL_FALLS: Final = 0.02
"""The minimum fraction by which the best fell in the last half of the trials."""
_SATURATED: Final = 0.25
"""The maximum fraction of the trials before the best was found."""
_FAR: Final = 2.0
"""The minimum factor between the best time and the best time with a bad value or space."""
_SAMPLES: Final = 4
"""The minimum number of trials with a bad value or space."""
_WORTH_IT: Final = 0.1
"""The minimum fraction of trials with a bad value or space."""
_EXPLAINS: Final = 0.15
"""The minimum fraction of the variance that a column with bad values explains."""
_NOISY: Final = 0.05
"""The minimum relative spread of noisy measurements."""
_OFTEN: Final = 0.2
"""The minimum fraction of failed trials."""
_PREDICTED: Final = 16
"""The minimum number of predicted trials for conclusions about the model."""
_BLIND: Final = 0.6
"""The maximum fraction of pairs that a useless model orders correctly."""
_APART: Final = 1.5
"""The minimum factor between the ninth and the first decile of times that have an order."""
_NEAR_THE_ROOF: Final = 0.9
"""The minimum fraction of the peak of the machine that leaves nothing to gain."""
_WORTH_CORES: Final = 50e-6
"""The minimum seconds of a call that is worth sharing among cores."""
_COLUMN: Final = re.compile(r"(.*?)((?:\[\d+\])?)")
"""The name of a decision, and the index of a number in a decision of several."""

Pieces: TypeAlias = Iterator[tuple[str, str]]


class Advice(NamedTuple):
    """A suggestion, and the figures behind it."""

    task: str
    what: str
    why: str


def advice(table: Trials) -> list[Advice]:
    """Return advice from the trials of one task, the most informative first."""
    (task,), report = table.tasks, table.task.report
    found = [*_failure_advice(table), *_noise_advice(table, report)]
    if report.share is not None and report.share >= _NEAR_THE_ROOF:
        remedy = {
            "compute": "fewer operations: another algorithm, or a narrower type",
            "memory": "less data: fusing it with what comes before or after, or a narrower type",
        }
        what = f"{remedy[str(report.bound)]}; a schedule has little left to gain"
        why = f"the best reaches {report.share:.0%} of the peak of the machine, "
        found.append((what, f"{why}{report.bound}-bound"))
    else:
        found += [*_course_advice(table, report), *_space_advice(table)]
        found += [*_value_advice(table), *_model_advice(table)]
    return [Advice(task, what, why) for what, why in (*found, *_core_advice(table))]


def _course_advice(table: Trials, report: TaskReport) -> Pieces:
    if report.exhausted:
        yield (
            "a wider space: more rules (`sch_rules=`), or another `space=`",
            f"the search ended after {report.trials} trials because it found no unmeasured "
            "candidate",
        )
        return
    course = table.task.course
    best = course[-1] if course else None
    if best is None or len(course) < _FEW:
        return
    half = course[len(course) // 2 - 1]
    last = course.index(best) + 1
    if half is None or half > best * (1 + _STILL_FALLS):
        fell = "" if half is None else f"by {1 - best / half:.0%} "
        yield (
            f"more trials, {2 * len(course)} or so in all",
            f"the best still fell {fell}in the second half of the {len(course)} trials, at last in "
            f"trial {last}",
        )
    elif len(course) >= _MANY and last <= len(course) * _SATURATED:
        yield (
            "fewer trials (`early_stopping=`), or another space: this one is exhausted",
            f"none of the {len(course) - last} trials after trial {last} was better than that",
        )


def _noise_advice(table: Trials, report: TaskReport) -> Pieces:
    spread, of = 0.0, ""
    if report.spread is not None and report.best:
        spread, of = report.spread / report.best, f"the {report.rounds} rounds of the best"
    else:
        repeats = [trial.run_secs for trial in table.trials if len(trial.run_secs) > 2]
        if repeats:
            apart = [statistics.stdev(times) / statistics.fmean(times) for times in repeats]
            spread, of = statistics.median(apart), "the repeats of a trial"
    if spread > _NOISY:
        yield (
            "a quieter machine, or longer measuring: EvaluatorConfig(min_repeat_ms=100)",
            f"{of} vary by {spread:.0%}, so the order of the candidates is partly chance",
        )


def _failure_advice(table: Trials) -> Pieces:
    groups = failures_of(table.trials)
    failed = sum(len(group.trials) for group in groups)
    if not groups or failed < max(2, _OFTEN * len(table)):
        return
    group = groups[0]
    remedies = {
        "build": "look at the errors of the builder in the log of the task",
        "run": "a longer limit (LocalRunner(timeout_sec=...)), if a limit ended them",
        "check": "look at the rule or the primitive that changes the result",
    }
    reason = f": {group.reason}" if group.reason else ""
    yield (
        remedies[group.trials[0].stage],
        f"{failed} of {len(table)} trials failed, {len(group.trials)} of them with "
        f"{group.ending}{reason}",
    )


def _space_advice(table: Trials) -> Pieces:
    """Yield the design spaces whose candidates were all far from the best."""
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


def _value_advice(table: Trials) -> Pieces:
    """Yield the values of decisions that always failed, or were always far from the best."""
    best = min((trial.seconds for trial in table.trials if trial.seconds), default=None)
    if best is None:
        return
    curves = [curve for curve in table.curves if curve.column in table.knobs]
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
        costs = zip(curve.values, curve.best, curve.counts, strict=True)
        far = {v: cost for v, cost, count in costs if cost > _FAR * best and count >= _SAMPLES}
        trials = sum(tried[value] for value in far)
        if far and trials >= _WORTH_IT * len(table):
            yield (
                _constraint(table, curve.column, list(far)),
                f"{trials} trials with that ({trials / len(table):.0%}) took "
                f"{min(far.values()) / best:.1f} times the best or more; {curve.column} explains "
                f"{curve.explained.share:.0%}",
            )
            return


def _model_advice(table: Trials) -> Pieces:
    times = [t.seconds for t in table.trials if t.predicted is not None and t.seconds is not None]
    if len(times) < _PREDICTED:
        return
    low, high = np.quantile(times, (0.1, 0.9))
    share = table.task.pairs_in_order if high > _APART * low else math.nan
    # Two standard errors: by chance alone, a few candidates look unordered.
    if share + 2 / (3 * len(times) ** 0.5) < _BLIND:
        yield (
            "another cost model (`cost_model=`), or a random search for comparison",
            f"the predictions are poor: of {len(times)} trials the model ordered {share:.0%} of "
            "the pairs in a batch correctly; chance orders 50%",
        )


def _core_advice(table: Trials) -> Pieces:
    try:
        target = Target(table.trials[0].target)
    except TargetError:
        return
    best, cores, here = table.best(), target.num_cores, host.physical_cores()
    if best is None or cores is None:
        return
    if cores > 1 and best["parallel_extent"] == 1:
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
    """Return code that excludes values of a column from a search, or words for a template."""
    listed = ", ".join(map(repr, values))
    if all(trial.decisions is None for trial in table.trials):
        return f"a space without {column} in {{{listed}}}"
    name, place = _COLUMN.fullmatch(column.removesuffix(" (knob)")).groups()  # type: ignore[union-attr]
    test = f"!= {listed}" if len(values) == 1 else f"not in ({listed})"
    return f'constraint=lambda d: d["{name}"]{place} {test}'
