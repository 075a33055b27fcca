"""The number and length of the calls by which a candidate is timed."""

from __future__ import annotations

from dataclasses import dataclass

from search.errors import TuningError


@dataclass(frozen=True)
class EvaluatorConfig:
    """The number and length of the calls by which a candidate is timed.

    Each of `repeat` results is the time per call over at least `number` calls that take at least
    `min_repeat_ms` altogether. With `enable_cpu_cache_flush`, the arguments but the first are
    dropped from the caches before each `number` calls, up to 64 times.
    """

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 100
    enable_cpu_cache_flush: bool = False

    def __post_init__(self) -> None:
        if self.number < 1 or self.repeat < 1 or self.min_repeat_ms < 0:
            raise TuningError(
                "EvaluatorConfig needs number >= 1, repeat >= 1 and min_repeat_ms >= 0, got "
                f"{self.number}, {self.repeat}, {self.min_repeat_ms}"
            )
