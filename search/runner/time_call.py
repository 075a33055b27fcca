"""The time and the energy of a prepared call, and times as text.

A call is timed for as long as the result is uncertain. The energy comes from the RAPL counters of
the machine (running average power limit).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from codegen import PreparedCall
from search.errors import TuningError

_SLICES: Final = 20
"""The number of slices of the calls of one result.

A candidate of 20 ms has slices of 1 ms, shorter than the time between two interruptions by other
processes: most slices have no interruption, and neither has their median.
"""
_MOST_SLICES: Final = 64
_NOISE: Final = 0.03
"""The maximum distance between the quartiles of the slices, relative to their median."""
_FEW: Final = 3
"""The minimum number of slices for judging noise: the median of two is the slower one."""
_LONGEST: Final = 2
"""The factor by which a rival with noisy slices is timed longer."""
_RIVAL: Final = 1.1
"""The factor to the best time up to which a candidate is a rival."""
_LONG: Final = 10e-3
"""The length of a call in seconds from which on cold caches do not matter."""

HOPELESS: Final = 10
_LEAST_LIMIT: Final = 50e-3


@dataclass(frozen=True)
class EvaluatorConfig:
    """The number and length of the calls that time a candidate.

    Each of `repeat` results is the time per call over at least `number` calls and `min_repeat_ms`
    milliseconds. With `enable_cpu_cache_flush`, all arguments but the first are dropped from the
    caches before each `number` calls, up to 64 times. With `energy`, the joules per call are
    counted in addition, for a quarter of a second.
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
    """Return the time limit of the first call in seconds, None without a best time.

    A call of 10 times the best time cannot win. Each call has at least 50 ms, since memory may be
    untouched and the machine busy.
    """
    return None if best is None else max(HOPELESS * best, _LEAST_LIMIT)


def times(
    call: PreparedCall,
    config: EvaluatorConfig,
    first: float,
    best: float = math.inf,
    before: Callable[[], object] | None = None,
) -> list[float]:
    """Return `config.repeat` times per call in seconds; the first call took `first`.

    The calls of one result are timed in slices, and the median of the slices is the result, which
    ignores interruptions. While the slices of a candidate that may be the best differ much, it is
    timed up to twice as long. Timing stops once a candidate is certainly slower than `best`
    seconds: after n slices, if the fastest slice is 1 + 1/n times slower. A long first call counts
    as a slice. `before` is called before each slice, which is then one call.
    """
    results: list[float] = []
    at_once = 1
    if config.enable_cpu_cache_flush:
        before, at_once = call.flush_non_first, config.number
    wanted = config.min_repeat_ms * 1e-3
    per_call = first
    for number in range(config.repeat):
        slices = [first] if number == 0 and first >= _LONG else []
        runs, spent = 0, 0.0
        while True:
            if bool(slices) and min(slices) > best * (1 + 1 / len(slices)):
                return [_median(slices)] * config.repeat
            enough = runs >= config.number and spent >= wanted
            may_extend = len(slices) < _FEW or spent < _LONGEST * wanted
            if enough and not (may_extend and _noisy_rival(slices, best)):
                break
            if before is not None:
                if len(slices) >= _MOST_SLICES:
                    break
                before()
                count = at_once
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


def _noisy_rival(slices: Sequence[float], best: float) -> bool:
    low, middle, high = np.quantile(slices, (0.25, 0.5, 0.75))
    return bool(low <= best * _RIVAL and high - low > _NOISE * middle)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


POWERCAP: Final = Path("/sys/class/powercap")
"""The folder of the counters on Linux, also for processors of AMD."""
_PACKAGE: Final = re.compile(r"intel-rapl:\d+")
"""The name of a zone for a whole processor, which includes its subzones."""
_SECONDS: Final = 0.25
"""The length of a measurement; a counter changes about once a millisecond."""
_MICRO: Final = 1e-6


class TimedCall(Protocol):
    """A call that can be repeated, see `codegen.PreparedCall`."""

    def time(self, count: int, /) -> object:
        """Call `count` times."""


class EnergyMeter:
    """The counters of all processors of this machine; TuningError if they cannot be read."""

    def __init__(self, root: Path = POWERCAP) -> None:
        reason = energy_refusal(root)
        if reason is not None:
            raise TuningError(f"the energy of candidates cannot be measured: {reason}")
        self._zones = _zones(root)
        self._ranges = [int((zone / "max_energy_range_uj").read_text()) for zone in self._zones]

    def read(self) -> list[int]:
        """Return the microjoules of each counter."""
        return [int((zone / "energy_uj").read_text()) for zone in self._zones]

    def joules_since(self, before: Sequence[int]) -> float:
        """Return the joules since a reading; each counter may have overflowed once."""
        spent = 0
        for then, now, most in zip(before, self.read(), self._ranges, strict=True):
            spent += now - then if now >= then else now - then + most
        return spent * _MICRO


def joules_per_call(call: TimedCall, seconds: float, meter: EnergyMeter) -> float:
    """Return the mean energy in joules of a call that runs in `seconds`.

    The call is repeated for a quarter of a second. The counters include idle power and other
    processes.
    """
    count = max(1, round(_SECONDS / seconds))
    before = meter.read()
    call.time(count)
    return meter.joules_since(before) / count


def energy_refusal(root: Path = POWERCAP) -> str | None:
    """Return why energy cannot be measured here, with a remedy; None if it can."""
    zones = _zones(root)
    if not zones:
        return (
            f"the counter {root}/intel-rapl:0 does not exist (only x86 processors have it, and few "
            "virtual machines)"
        )
    for zone in zones:
        try:
            (zone / "energy_uj").read_text()
        except OSError as error:
            return (
                f"{zone}/energy_uj cannot be read: {error.strerror}; an administrator may allow it "
                f"with chmod a+r {root}/intel-rapl:*/energy_uj"
            )
    return None


def _zones(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if _PACKAGE.fullmatch(path.name))


def time_text(seconds: float, digits: int = 4) -> str:
    """Return a time with `digits` digits, in the largest suitable unit of s, ms and us."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.{digits}g} {name}"
    return f"{seconds * 1e6:.{digits}g} us"


def speed_text(before: float, after: float) -> str:
    """Return how the time `after` compares with `before`: "2.5 times as fast", "563 times slower".

    Both are in seconds and positive.
    """
    if after <= before:
        return f"{before / after:.3g} times as fast"
    return f"{after / before:.3g} times slower"
