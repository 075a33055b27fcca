"""Compiled loops around calls: reading the clock and flushing caches without Python in between."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from codegen.errors import CodegenError
from codegen.runtime.array_view import ArrayView
from codegen.runtime.jit import load_own
from codegen.target import host


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of successive calls: their number and total seconds."""

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

; Call `function(slots)` up to `number` times; stop at a status.
; Store calls made, nanoseconds and status in `result`.
define void @tensorir_time_calls(ptr %function, ptr %slots, i64 %number, ptr %result) {{
entry:
  %start = call i64 @now()
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%next, %loop]
  %status = call i32 %function(ptr %slots)
  %next = add i64 %k, 1
  %failed = icmp ne i32 %status, 0
  %finished = icmp sge i64 %next, %number
  %stop = or i1 %failed, %finished
  br i1 %stop, label %done, label %loop
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
def _load_function(text: str, symbol: str, *kinds: Any) -> tuple[Callable[..., None], Any]:
    """Return a function of LLVM IR with arguments of these kinds, and the owner of its code."""
    code = load_own(text, [symbol])
    return ctypes.CFUNCTYPE(None, *kinds)(code[symbol]), code


_POINTER: Final = ctypes.c_void_p
_INTEGER: Final = ctypes.c_int64


def time_calls(entry: int, slots: Any, number: int) -> Batch:
    """Run the compiled function at address `entry` up to `number` times and time the batch."""
    result = (ctypes.c_int64 * 3)()
    kinds = (_POINTER, _POINTER, _INTEGER, _POINTER)
    run, _ = _load_function(_DRIVER, "tensorir_time_calls", *kinds)
    run(entry, slots, number, result)
    return Batch(result[0], result[1] * 1e-9, result[2])


def flush_views(views: Iterable[ArrayView | None]) -> None:
    """Drop the memory of arrays from all caches (x86 only; CodegenError elsewhere)."""
    for view in views:
        if view is not None:
            low, high = view.extent_bytes()
            if host.machine() != "x86_64":
                raise CodegenError("dropping memory from the caches needs an x86 CPU")
            flush, _ = _load_function(_FLUSH, "tensorir_flush", _POINTER, _INTEGER)
            flush(low, high - low)
