"""Timing compiled functions on given arguments."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np

from codegen.errors import CodegenError
from codegen.runtime.ndarray import Device, check_device
from codegen.runtime.timed_loop import Batch
from tensorir.errors import IRValueError

_GROWTH: Final = 1.618
FLUSH_NON_FIRST: Final = "cache_flush_cpu_non_first_arg"
"""The `f_preproc` that drops all arguments but the first from the caches."""


def _statistic(of: Callable[[Any], Any]) -> cached_property[float]:
    return cached_property(lambda result: float(of(result.results)))


@dataclass(frozen=True)
class BenchmarkResult:
    """Times of a function in seconds per call; each result is the mean over a batch of calls."""

    results: tuple[float, ...]

    mean = _statistic(np.mean)
    """The mean of the results."""
    median = _statistic(np.median)
    """The median of the results."""
    min = _statistic(np.min)
    """The fastest result."""
    max = _statistic(np.max)
    """The slowest result."""
    std = _statistic(np.std)
    """The population standard deviation of the results."""

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{name + ' (ms)':>13}" for name in names)
        return head + "\n" + "".join(f"{getattr(self, name) * 1e3:>13.4f}" for name in names)


class Prepared(Protocol):
    """A call with checked arguments."""

    def __call__(self) -> object:
        """Run it."""
        ...

    def time(self, number: int = 1) -> Batch:
        """Run the call several times and time all runs together."""
        ...

    def flush_non_first(self) -> None:
        """Flush the argument arrays, except the first, from all caches."""
        ...


class Timeable(Protocol):
    """A function of a module or of a virtual machine that can be timed on arguments."""

    def prepare(self, *args: Any) -> Prepared:
        """Check arguments for many calls."""
        ...


@dataclass(eq=False, repr=False)
class TimeEvaluator:
    """Times a function on given arguments; made by `Module.time_evaluator`."""

    function: Timeable
    number: int = 10
    """Calls per batch; the number grows until a batch runs for `min_repeat_ms`, and then stays."""
    repeat: int = 1
    min_repeat_ms: float = 0
    limit_zero_time_iterations: int = 100
    cooldown_interval_ms: float = 0
    repeats_to_cooldown: int = 1
    cache_flush_bytes: int = 0
    f_preproc: str | Callable[..., object] = ""

    def __post_init__(self) -> None:
        counts: tuple[object, ...] = (self.number, self.repeat)
        if not all(isinstance(count, int) and count >= 1 for count in counts):
            raise CodegenError(
                f"number and repeat are integers of at least 1, got {self.number!r} and "
                f"{self.repeat!r}"
            )
        if isinstance(self.f_preproc, str) and self.f_preproc not in ("", FLUSH_NON_FIRST):
            raise CodegenError(
                f"unknown f_preproc {self.f_preproc!r}; it is {FLUSH_NON_FIRST!r} or a Python "
                f"callable"
            )
        self._flush_arrays: tuple[Any, Any] | None = None
        if self.cache_flush_bytes > 0:
            count = max(1, self.cache_flush_bytes // 4)
            self._flush_arrays = (np.ones(count, np.int32), np.empty(count, np.int32))

    def __call__(self, *args: Any) -> BenchmarkResult:
        """Return the times of `repeat` batches, after one call that is not timed."""
        call = self.function.prepare(*args)
        call()
        results = []
        for k in range(self.repeat):
            if callable(self.f_preproc):
                self.f_preproc(*args)
            elif self.f_preproc:
                call.flush_non_first()
            results.append(self._one_repeat(call))
            if self.cooldown_interval_ms > 0 and k % max(1, self.repeats_to_cooldown) == 0:
                time.sleep(self.cooldown_interval_ms * 1e-3)
        return BenchmarkResult(tuple(results))

    def _one_repeat(self, call: Prepared) -> float:
        zeros, least = 0, self.min_repeat_ms * 1e-3
        while True:
            if self._flush_arrays is not None:
                source, target = self._flush_arrays
                np.copyto(target, source)
            batch = call.time(self.number)
            if batch.seconds == 0:
                zeros += 1
            if batch.seconds >= least or zeros >= self.limit_zero_time_iterations:
                return batch.seconds / batch.runs
            one = batch.seconds / self.number
            wanted = least / one + 1 if one > 0 else 0.0
            self.number = int(max(wanted, self.number * _GROWTH + 1))


F = TypeVar("F", bound=Timeable)


class TimedFunctions(ABC, Generic[F]):
    """Functions by name that can be timed: modules, and the functions of virtual machines."""

    def __init__(self, functions: Mapping[str, F]) -> None:
        self._functions: Final = dict(functions)

    def __getitem__(self, name: str) -> F:
        return self.get_function(name)

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def get_function(self, name: str) -> F:
        """Return a function; IRValueError if there is none of that name."""
        found = self._functions.get(name)
        if found is None:
            raise IRValueError(self._unknown_message(name))
        return found

    @abstractmethod
    def _unknown_message(self, name: str) -> str:
        """Return the error message for a name that no function has."""

    def _check_device(self, device: Device | None) -> None:
        """Raise IRValueError for a device that the functions do not run on."""
        check_device(device)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: Any = "",
    ) -> TimeEvaluator:
        """Return an evaluator, which returns a BenchmarkResult in seconds for arguments.

        It calls the function once unmeasured, then times `repeat` batches of `number` successive
        calls. A batch shorter than `min_repeat_ms` is repeated with a larger number of calls, which
        later batches keep. `cache_flush_bytes` bytes are copied before each batch to flush the
        caches, `f_preproc` (a callable, or "cache_flush_cpu_non_first_arg") runs before each
        repeat, and the evaluator sleeps `cooldown_interval_ms` after every `repeats_to_cooldown`
        repeats.
        """
        self._check_device(dev)
        return TimeEvaluator(
            self.get_function(func_name),
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
            cache_flush_bytes,
            f_preproc,
        )
