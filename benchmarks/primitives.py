"""Time every schedule primitive, and the replay of recorded traces: `make bench-primitives`.

Primitives are called as the fuzzer of schedules calls them, with random operands in random
sequences on small programs; the size of a loop does not matter to them. Times are processor time,
since others use the machine. Finding operands is not timed.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.fuzz.programs import program, program_names
from benchmarks.fuzz.schedules import NoOperand, Writer, operands
from benchmarks.side_by_side import markdown
from schedule import InstructionKind, Schedule, ScheduleError, Trace
from tensorir import IRModule, parse
from tests.recorded import RECORDED, recorded

LENGTH = 12
"""The calls of a sequence."""
LEAST_CALLS = 5
"""A primitive that was called less often has no figure."""
BUDGET_US = 1500.0
LOOP_BUDGET_US = 200.0
LOOP_KINDS = {"Split", "Fuse", "Reorder", "Parallel", "Vectorize", "Unroll", "Bind"}
LOOP_METHODS = {kind.method for kind in InstructionKind.all() if kind.name in LOOP_KINDS}

Times = Mapping[str, Sequence[float]]
"""The times of the calls of each method, in microseconds."""


class _Timed:
    """A schedule that times its calls; refused calls are not counted."""

    def __init__(self, sch: Schedule, times: dict[str, list[float]]) -> None:
        self._sch = sch
        self._times = times

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._sch, name)

        def call(*arguments: Any, **named: Any) -> Any:
            start = time.thread_time()
            result = method(*arguments, **named)
            self._times[name].append((time.thread_time() - start) * 1e6)
            return result

        return call


def time_primitives(rounds: int = 4) -> Times:
    """Time the primitives in random sequences on every program."""
    times: dict[str, list[float]] = defaultdict(list)
    gc.disable()
    for seed in range(rounds):
        gc.collect()
        for name in program_names():
            sch = Schedule(program(name), seed=seed + 1, debug_mask="none")
            timed = _Timed(sch, times)
            writer = Writer(lambda sch=sch: sch, random.Random(f"{name} {seed}"))
            for _ in range(LENGTH):
                try:
                    line = writer.line()
                    if not line.startswith("changed("):
                        eval(line, {**operands(timed), "sch": timed})
                except (NoOperand, ScheduleError):
                    continue
    gc.enable()
    return {name: found for name, found in times.items() if len(found) >= LEAST_CALLS}


def budget_us(method: str) -> float:
    """Return the budget of a primitive."""
    return LOOP_BUDGET_US if method in LOOP_METHODS else BUDGET_US


def p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def primitive_table(times: Times) -> str:
    rows: list[list[object]] = [["primitive", "calls", "median us", "p95 us", "budget us", ""]]
    for method, found in sorted(times.items(), key=lambda item: -statistics.median(item[1])):
        median, budget = statistics.median(found), budget_us(method)
        note = "" if median < budget else "missed"
        rows.append([method, len(found), f"{median:.0f}", f"{p95(found):.0f}", budget, note])
    return markdown(rows)


def time_replays(repeats: int = 5) -> tuple[dict[str, float], int]:
    """Return the median milliseconds of replays of recorded traces; also how many are refused."""
    replays: dict[str, Callable[[], object]] = {}
    refused = 0
    for name in RECORDED:
        for number, entry in enumerate(recorded(name)):
            before = parse(entry["before"])
            mod = before if isinstance(before, IRModule) else IRModule({"main": before})
            trace, removes = Trace.from_json(entry["trace"]), entry["after"] is None

            def replay(mod: IRModule = mod, trace: Trace = trace, removes: bool = removes) -> None:
                trace.apply_to_schedule(Schedule(mod, seed=1), remove_postproc=removes)

            try:
                replay()
            except ScheduleError:
                refused += 1
            else:
                replays[f"{name}-{number}-{entry['workload']}"] = replay
    times: dict[str, list[float]] = {name: [] for name in replays}
    gc.disable()
    for _ in range(repeats):
        gc.collect()
        for name, replay in replays.items():
            start = time.thread_time()
            replay()
            times[name].append((time.thread_time() - start) * 1e3)
    gc.enable()
    return {name: statistics.median(found) for name, found in times.items()}, refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="sequences for each program")
    options = parser.parse_args()
    print(primitive_table(time_primitives(options.rounds)))
    replays, refused = time_replays()
    medians = list(replays.values())
    print(
        f"\nreplay of {len(replays)} recorded traces ({refused} more are refused): "
        f"median {statistics.median(medians):.2f} ms, p95 {p95(medians):.2f} ms a trace; slowest:"
    )
    for name in sorted(replays, key=lambda name: -replays[name])[:5]:
        print(f"  {name:24}{replays[name]:8.2f} ms")


if __name__ == "__main__":
    main()
