"""Timing runs of graph functions on one frame."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codegen.runtime.array_view import view_of
from codegen.runtime.timed_loop import Batch, flush, time_calls

if TYPE_CHECKING:
    from codegen.vm.frame import Frame
    from codegen.vm.graph_function import GraphFunction


def time_runs(
    function: GraphFunction, frame: Frame, number: int, limit_seconds: float = 0.0
) -> Batch:
    """Run a function up to `number` times on a frame; with a limit, none starts after so long."""
    entry = function.native_entry()
    if entry is not None:
        batch = time_calls(entry, frame.slots, number, limit_seconds)
        if batch.status:
            function.run(frame)  # raises what the status stands for
        return batch
    start = time.perf_counter()
    runs, seconds = 0, 0.0
    while runs < number and (limit_seconds <= 0 or seconds <= limit_seconds):
        function.run(frame)
        runs += 1
        seconds = time.perf_counter() - start
    return Batch(runs, seconds, 0)


def flush_arguments(args: Iterable[Any]) -> None:
    """Drop arrays among arguments from all caches (x86 only)."""
    for arg in args:
        view = view_of(arg)
        if view is not None:
            low, high = view.extent_bytes()
            flush(low, high - low)
