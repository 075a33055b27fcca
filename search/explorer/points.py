"""The trials of a design space as parallel coordinates, as data to draw.

An axis is a time, a prediction or a decision, and a trial is a line through its values (Inselberg,
The Plane with Parallel Coordinates, 1985).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from search.explorer.program_view import Data
from search.reports.table import RunTable
from search.reports.trial import Trial

MOST_POINTS: Final = 3000
"""The maximum number of trials of a space that are drawn; the fastest are chosen."""
_MOST_TICKS: Final = 40
"""The maximum number of numbers that have a tick each; more of them are on a continuous axis."""
_SPREAD: Final = 4
"""The ratio of the greatest number to the least from which on an axis is logarithmic."""


def points_of(trials: Sequence[Trial]) -> Data:
    """Return the points of the trials of one design space, whose decisions have names.

    `axes` are the time in microseconds, the prediction, and the decisions that varied, the most
    telling first. An axis has `name` and `at`, the value of each trial, None if unknown. That is an
    index of `ticks`, texts in order. Without `ticks` it is a number; the axis goes from `low` to
    `high`, where greater numbers are drawn, too, and is logarithmic if `log`. `same` has the names
    and values of the other decisions.
    """
    table = RunTable(trials)
    telling = (curve.column for curve in table.what_matters)
    columns = {
        name: [row[name] for row in table.rows] for name in dict.fromkeys([*telling, *table.knobs])
    }
    varied = {name: values for name, values in columns.items() if len(set(values)) > 1}
    times = [_digits(1e6, trial.seconds or trial.slower_than) for trial in trials]
    scores = [_digits(1.0, trial.predicted) for trial in trials]
    return {
        "axes": [
            _numbers("time (us)", times, are_times=True),
            *([] if set(scores) == {None} else [_numbers("predicted score", scores)]),
            *(_axis(name, values) for name, values in varied.items()),
        ],
        "same": [[name, str(values[0])] for name, values in columns.items() if name not in varied],
    }


def _axis(name: str, values: Sequence[Any]) -> Data:
    known = {value for value in values if value is not None}
    if len(known) > _MOST_TICKS and all(isinstance(value, (int, float)) for value in known):
        return _numbers(name, values)
    ticks = sorted(known, key=lambda value: (isinstance(value, str), value))
    places = {value: place for place, value in enumerate(ticks)}
    at = [places.get(value) for value in values]
    return {"name": name, "ticks": [str(value) for value in ticks], "at": at}


def _numbers(name: str, values: Sequence[float | None], *, are_times: bool = False) -> Data:
    """Return a continuous axis; a few long times do not stretch it."""
    known = sorted(value for value in values if value is not None) or [0.0]
    low, high = known[0], known[-1]
    edge = 1.25 * known[int(0.9 * (len(known) - 1))]
    if are_times and high > 2 * edge:
        high = edge
    return {"name": name, "low": low, "high": high, "log": 0 < _SPREAD * low < high, "at": values}


def _digits(unit: float, number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(f"{unit * number:.6g}")
