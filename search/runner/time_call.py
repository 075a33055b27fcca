"""Timing a prepared call: long enough to be sure, and no longer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from codegen import PreparedCall
from search.errors import TuningError

_SLICES: Final = 20
"""The number of parts in which the calls of one result are timed.

With the 20 ms of a candidate a part takes 1 ms, less than what a process computes between two
pauses on a machine that others use, too: most parts are without a pause, and so is their median.
"""
_MOST_SLICES: Final = 64
_NOISE: Final = 0.03
"""The distance between the quartiles of the slices, relative to their median, that is noise."""
_FEW: Final = 3
"""The slices without which there is no telling whether a rival is in noise: the middle of two is
the slower one."""
_LONGEST: Final = 2
"""The factor to the usual time for which a rival in noise is timed."""
_RIVAL: Final = 1.1
"""The factor to the best time up to which a candidate is a rival."""
_LONG: Final = 10e-3
"""Seconds of a call in which what was not in the caches yet makes no difference."""

HOPELESS: Final = 10
_LEAST_LIMIT: Final = 50e-3


@dataclass(frozen=True)
class EvaluatorConfig:
    """The number and length of the calls by which a candidate is timed.

    Each of `repeat` results is the time per call over at least `number` calls that take at least
    `min_repeat_ms` altogether. With `enable_cpu_cache_flush`, the arguments but the first are
    dropped from the caches before each `number` calls, up to 64 times. With `energy` the joules per
    call are counted besides, in a quarter of a second.
    """

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 100
    enable_cpu_cache_flush: bool = False
    energy: bool = False

    def __post_init__(self) -> None:
        if self.number < 1 or self.repeat < 1 or self.min_repeat_ms < 0:
            raise TuningError(
                "EvaluatorConfig needs number >= 1, repeat >= 1 and min_repeat_ms >= 0, got "
                f"{self.number}, {self.repeat}, {self.min_repeat_ms}"
            )


def first_call_limit(best: float | None) -> float | None:
    """Return in how many seconds the first call must end, None for any number.

    One that takes 10 times as long as the best cannot win; 50 ms are granted to every one, for
    memory that was never touched and a machine that is busy.
    """
    return None if best is None else max(HOPELESS * best, _LEAST_LIMIT)


def times(
    call: PreparedCall, config: EvaluatorConfig, first: float, best: float = math.inf
) -> list[float]:
    """Return `config.repeat` times per call in seconds, of a call that took `first` before.

    The calls of one result are timed in slices, and the median of the slices is the result, which a
    pause of the machine does not reach. A candidate that may be the best is timed up to twice as
    long while the slices differ much. One that is certainly slower than `best` seconds is not timed
    any longer: after n slices, one whose fastest slice is 1 + 1/n times as slow; a first call of
    some length is a slice.
    """
    results: list[float] = []
    wanted = config.min_repeat_ms * 1e-3
    per_call = first
    for number in range(config.repeat):
        slices = [first] if number == 0 and first >= _LONG else []
        runs, spent = 0, 0.0
        while True:
            if _hopeless(slices, best):
                return [_median(slices)] * config.repeat
            enough = runs >= config.number and spent >= wanted
            goes_on = len(slices) < _FEW or spent < _LONGEST * wanted
            if enough and not (goes_on and _noisy_rival(slices, best)):
                break
            if config.enable_cpu_cache_flush:
                if len(slices) >= _MOST_SLICES:
                    break
                call.flush_from_caches(skip_first=True)
                count = config.number
            else:
                share = wanted / _SLICES / per_call if per_call > 0 else config.number * 1.618
                count = max(1 if per_call >= _LONG else config.number, min(int(share), 1 << 30))
            batch = call.time(count)
            per_call = batch.seconds / batch.runs
            runs += batch.runs
            spent += max(batch.seconds, 1e-6)
            slices.append(per_call)
        results.append(_median(slices))
    return results


def _hopeless(slices: Sequence[float], best: float) -> bool:
    return bool(slices) and min(slices) > best * (1 + 1 / len(slices))


def _noisy_rival(slices: Sequence[float], best: float) -> bool:
    low, middle, high = np.quantile(slices, (0.25, 0.5, 0.75))
    return bool(low <= best * _RIVAL and high - low > _NOISE * middle)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
