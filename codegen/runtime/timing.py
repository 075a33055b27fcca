"""Measuring compiled functions.

The loop around the calls and the reading of the clock are compiled code, so that Python is no part
of what is measured.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from codegen import host
from codegen.errors import CodegenError
from codegen.runtime.jit import load_ir

if TYPE_CHECKING:
    from codegen.runtime.module import Function, PreparedCall

_GROWTH: Final = 1.618
FLUSH_NON_FIRST: Final = "cache_flush_cpu_non_first_arg"
"""The `f_preproc` that drops all arguments but the first from the caches."""


@dataclass(frozen=True)
class BenchmarkResult:
    """Times of a function in seconds a call; each result is the mean over a batch of calls."""

    results: tuple[float, ...]

    @cached_property
    def mean(self) -> float:
        """Mean of the results."""
        return float(np.mean(self.results))

    @cached_property
    def median(self) -> float:
        """Median of the results."""
        return float(np.median(self.results))

    @cached_property
    def min(self) -> float:
        """Fastest result."""
        return float(np.min(self.results))

    @cached_property
    def max(self) -> float:
        """Slowest result."""
        return float(np.max(self.results))

    @cached_property
    def std(self) -> float:
        """Standard deviation (of the population) of the results."""
        return float(np.std(self.results))

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{name + ' (ms)':>13}" for name in names)
        return head + "\n" + "".join(f"{getattr(self, name) * 1e3:>13.4f}" for name in names)


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls back to back: how many ran, in how many seconds altogether."""

    runs: int
    seconds: float
    status: int


_CLOCK_MONOTONIC: Final = 6 if sys.platform == "darwin" else 1
_DRIVER: Final = f"""
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {{
entry:
  %time = alloca [2 x i64], align 8
  %ignored = call i32 @clock_gettime(i32 {_CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %scaled = mul i64 %seconds, 1000000000
  %total = add i64 %scaled, %rest
  ret i64 %total
}}

; Call `function(slots)` up to `number` times; stop at a status or, if `limit` is positive, once
; more than `limit` nanoseconds have passed. Store calls made, nanoseconds and status in `result`.
define void @tensorir_time_calls(ptr %function, ptr %slots, i64 %number, i64 %limit, ptr %result) {{
entry:
  %limited = icmp sgt i64 %limit, 0
  %start = call i64 @now()
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%next, %more], [%next, %check]
  %status = call i32 %function(ptr %slots)
  %next = add i64 %k, 1
  %failed = icmp ne i32 %status, 0
  %finished = icmp sge i64 %next, %number
  %stop = or i1 %failed, %finished
  br i1 %stop, label %done, label %more
more:
  br i1 %limited, label %check, label %loop
check:
  %time = call i64 @now()
  %passed = sub i64 %time, %start
  %late = icmp sgt i64 %passed, %limit
  br i1 %late, label %done, label %loop
done:
  %end = call i64 @now()
  %elapsed = sub i64 %end, %start
  store i64 %next, ptr %result
  %elapsed.at = getelementptr i64, ptr %result, i64 1
  store i64 %elapsed, ptr %elapsed.at
  %status.at = getelementptr i64, ptr %result, i64 2
  %status.wide = sext i32 %status to i64
  store i64 %status.wide, ptr %status.at
  ret void
}}
"""
_FLUSH: Final = """
declare void @llvm.x86.sse2.clflush(ptr)
declare void @llvm.x86.sse2.mfence()

define void @tensorir_flush(ptr %data, i64 %bytes) {
entry:
  br label %test
test:
  %at = phi i64 [0, %entry], [%next, %line]
  %more = icmp slt i64 %at, %bytes
  br i1 %more, label %line, label %done
line:
  %address = getelementptr i8, ptr %data, i64 %at
  call void @llvm.x86.sse2.clflush(ptr %address)
  %next = add i64 %at, 64
  br label %test
done:
  call void @llvm.x86.sse2.mfence()
  ret void
}
"""


@cache
def _driver() -> tuple[Callable[..., None], Any]:
    code = load_ir(_DRIVER, ["tensorir_time_calls"])
    kind = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    )
    return kind(code["tensorir_time_calls"]), code


@cache
def _flusher() -> tuple[Callable[[int, int], None], Any]:
    if host.machine() != "x86_64":
        raise CodegenError(f"{FLUSH_NON_FIRST} needs an x86 CPU")
    code = load_ir(_FLUSH, ["tensorir_flush"])
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    return kind(code["tensorir_flush"]), code


def time_calls(entry: int, slots: Any, number: int, limit_seconds: float = 0.0) -> Batch:
    """Run the compiled function at address `entry` up to `number` times and time the batch.

    With a positive `limit_seconds` no call starts after so long; the clock is then read after each
    call, which costs some 30 nanoseconds.
    """
    result = (ctypes.c_int64 * 3)()
    _driver()[0](entry, slots, number, int(limit_seconds * 1e9), result)
    return Batch(result[0], result[1] * 1e-9, result[2])


class TimeEvaluator:
    """Times a function on given arguments; made by `Module.time_evaluator`."""

    def __init__(
        self,
        function: Function,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str | Callable[..., object] = "",
    ) -> None:
        if number < 1 or repeat < 1:
            raise CodegenError(f"number and repeat are at least 1, got {number} and {repeat}")
        if isinstance(f_preproc, str) and f_preproc not in ("", FLUSH_NON_FIRST):
            raise CodegenError(
                f"unknown f_preproc {f_preproc!r}; it is {FLUSH_NON_FIRST!r} or a Python callable"
            )
        self._function = function
        self.number = number
        """Calls a batch; it grows until a batch takes `min_repeat_ms`, and stays so."""
        self._repeat = repeat
        self._min_seconds = min_repeat_ms * 1e-3
        self._zero_limit = limit_zero_time_iterations
        self._cooldown = (cooldown_interval_ms * 1e-3, max(1, repeats_to_cooldown))
        self._flush_arrays: tuple[Any, Any] | None = None
        if cache_flush_bytes > 0:
            count = max(1, cache_flush_bytes // 4)
            self._flush_arrays = (np.ones(count, np.int32), np.empty(count, np.int32))
        self._preprocess = f_preproc

    def __call__(self, *args: Any) -> BenchmarkResult:
        """Return the times of `repeat` batches, after one call that is not timed."""
        call = self._function.prepare(*args)
        call()
        results = []
        for k in range(self._repeat):
            self._prepare_repeat(args, call)
            results.append(self._one_repeat(call))
            pause, every = self._cooldown
            if pause > 0 and k % every == 0:
                time.sleep(pause)
        return BenchmarkResult(tuple(results))

    def _prepare_repeat(self, args: Sequence[Any], call: PreparedCall) -> None:
        if callable(self._preprocess):
            self._preprocess(*args)
        elif self._preprocess:
            call.flush_from_caches(skip_first=True)

    def _one_repeat(self, call: PreparedCall) -> float:
        zeros = 0
        while True:
            if self._flush_arrays is not None:
                source, target = self._flush_arrays
                np.copyto(target, source)
            batch = call.time(self.number)
            if batch.seconds == 0:
                zeros += 1
            if batch.seconds >= self._min_seconds or zeros >= self._zero_limit:
                return batch.seconds / batch.runs
            one = batch.seconds / self.number
            wanted = self._min_seconds / one + 1 if one > 0 else 0.0
            self.number = int(max(wanted, self.number * _GROWTH + 1))


def flush(address: int, nbytes: int) -> None:
    """Drop memory from all caches (x86 only; CodegenError elsewhere)."""
    _flusher()[0](address, nbytes)
