"""Measure every budget of the project and print the table: `make bench`.

Times are those of this machine at this moment. Ratios between things measured side by side hold
better than times do, so budgets of Python code are in calls of a loop that is timed next to it; see
`benchmarks.reference_loop`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import codegen
import search as ms
import tensorir
from benchmarks import graph_calls, primitives
from benchmarks.matmul import FLOP, TARGET, MyModule, N, hand_schedule, seconds_of
from benchmarks.peers.serve import inputs
from benchmarks.reference_loop import Timed, just_timed, timed, timed_by
from benchmarks.side_by_side import markdown, tuned
from benchmarks.suite_programs import program
from codegen.machine import machine_speed, read_bandwidth
from schedule import Schedule, Trace
from search.feature_extractor import PerStoreFeature
from search.search_strategy.trace_application import TraceApplication

ROOT = Path(__file__).parents[1]
Row = tuple[str, str, str, bool]


def below(what: str, figure: float, budget: float, unit: str) -> Row:
    return (what, f"< {budget:g} {unit}", f"{figure:.2f} {unit}", figure < budget)


def loops_below(what: str, time: Timed, budget: float) -> Row:
    """Compare a time with a budget in calls of the reference loop."""
    milliseconds = f"{time.seconds * 1e3:.3g} ms"
    measured = f"{time.loops:.3g} loops ({milliseconds})"
    return (what, f"< {budget:g} loops", measured, time.loops < budget)


def at_least(what: str, figure: float, goal: float, unit: str) -> Row:
    return (what, f">= {goal:g} {unit}", f"{figure:.2f} {unit}", figure >= goal)


# -------------------------------------------------------------------------------------- the budgets


def bench_import() -> list[Row]:
    code = (
        "import time; t = time.perf_counter(); import tensorir, schedule, codegen, search; "
        "print(time.perf_counter() - t)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def seconds() -> float:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            check=True,
        )
        return float(done.stdout)

    return [loops_below("`import tensorir, schedule, codegen, search`", timed_by(seconds, 7), 400)]


@dataclass
class Candidate:
    """An auto-scheduled matmul with a write cache, and what makes others like it."""

    sch: Schedule
    application: TraceApplication
    spaces: list[Trace]


@cache
def candidate() -> Candidate:
    context = ms.TuneContext(
        MyModule,
        target=TARGET,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
    )
    spaces = [space.trace.simplified(True) for space in context.generate_design_space()]
    application = TraceApplication(context)
    sch = application.apply(spaces[1])
    assert sch is not None
    return Candidate(sch, application, spaces)


def bench_script() -> list[Row]:
    text = candidate().sch.mod.script()
    lines = len(text.splitlines())
    whole = timed(lambda: tensorir.parse(text).script())
    forty = Timed(whole.seconds * 40 / lines, whole.loops * 40 / lines)
    return [loops_below("parse + print a 40-line function", forty, 5)]


def bench_replay() -> list[Row]:
    sch, application = candidate().sch, candidate().application
    replay = timed(lambda: application.apply(sch.trace))
    features = PerStoreFeature()
    extract = timed(lambda: features.extract(sch.mod))
    count = len(sch.trace.insts)
    return [
        loops_below(f"replay of an auto-scheduled matmul ({count} instructions)", replay, 5),
        loops_below("features of one candidate", extract, 3),
    ]


def bench_primitives() -> list[Row]:
    medians = {k: statistics.median(t) for k, t in primitives.time_primitives().items()}
    rows = []
    for budget, what in (
        (primitives.LOOP_BUDGET_US, "slowest of split, fuse, reorder and the loop kinds"),
        (primitives.BUDGET_US, "slowest of the other primitives"),
    ):
        methods = [name for name in medians if primitives.budget_us(name) == budget]
        slowest = max(methods, key=lambda name: medians[name])
        took = just_timed(medians[slowest] / 1e6)
        rows.append(loops_below(f"{what} ({slowest})", took, budget / 1e3))
    replays, _ = primitives.time_replays()
    if replays:
        median = statistics.median(replays.values())
        what = f"replay of {len(replays)} recorded traces, median"
        rows.append((what, "", f"{median:.2f} ms", True))
    return rows


def bench_build() -> list[Row]:
    """Time builds of candidates drawn at random, as a search draws them."""
    application, spaces = candidate().application, candidate().spaces
    times = []
    for number in range(24):
        sch = application.apply(spaces[number % len(spaces)], resample=True)
        if sch is not None:
            start = time.perf_counter()
            codegen.compile_object(sch.mod, TARGET)
            times.append(time.perf_counter() - start)
    what = "lowering + LLVM of one matmul candidate, median of 24"
    return [loops_below(what, just_timed(statistics.median(times)), 40)]


def bench_hand_schedules() -> list[Row]:
    plain = seconds_of(MyModule)
    four, sixteen = (seconds_of(hand_schedule(factor)) for factor in (4, 16))
    return [
        at_least("matmul, hand schedule with factor 4, over plain", plain / four, 2, "x"),
        at_least("matmul, hand schedule with factor 16, over plain", plain / sixteen, 5, "x"),
    ]


def numpy_seconds() -> float:
    """Return the time of NumPy's matmul on one thread (the environment of this process says so)."""
    rng = np.random.default_rng(0)
    a, b = (codegen.array(rng.random((N, N), np.float32)) for _ in range(2))
    c = codegen.empty((N, N))
    times = []
    for _ in range(200):
        start = time.perf_counter()
        for _ in range(10):
            np.matmul(a, b, out=c)
        times.append((time.perf_counter() - start) / 10)
    return min(times)


def bench_tune() -> list[Row]:
    plain = seconds_of(MyModule)
    with tempfile.TemporaryDirectory() as folder, MemoryWatch() as memory:
        start = time.monotonic()
        best = ms.tune_tir(
            mod=MyModule,
            target=TARGET,
            config=ms.TuneConfig(max_trials_global=64, num_trials_per_iter=64),
            work_dir=folder,
        )
        took = time.monotonic() - start
    assert best is not None
    tuned = min(seconds_of(best.mod) for _ in range(3))
    blas = numpy_seconds()
    print(f"tuned {FLOP / tuned / 1e9:.1f} GFLOPS, NumPy {FLOP / blas / 1e9:.1f} GFLOPS")
    return [
        below("`tune_tir`, matmul, 64 trials", took, 10, "s"),
        below("memory of a tuning run, all processes", memory.peak / 2**30, 1.5, "GiB"),
        at_least("tuned matmul over plain", plain / tuned, 25, "x"),
        at_least("tuned matmul over NumPy's BLAS, one thread", blas / tuned, 0.6, "x"),
    ]


def bench_exhaustion() -> list[Row]:
    def five_ways(sch: Schedule) -> None:
        block = sch.get_block("C", "main")
        i, j, k = sch.get_loops(block)
        j0, j1 = sch.split(j, factors=sch.sample_perfect_tile(j, n=2))
        sch.reorder(i, j0, k, j1)

    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        ms.tune_tir(
            mod=MyModule,
            target=TARGET,
            config=ms.TuneConfig(max_trials_global=64, num_trials_per_iter=64),
            work_dir=folder,
            space=five_ways,
        )
        took = time.monotonic() - start
    return [below("`tune_tir`, a space of 5 candidates", took, 10, "s")]


def per_thousand(what: str, function: Callable[[], object], budget: float) -> Row:
    """Compare what each of the 1,000 calls that `function` makes takes with a budget."""
    return loops_below(f"{what} (1,000 of them)", timed(function), budget)


LIBRARY_CALL = """
@T.prim_func
def main(A: T.Buffer((1, 128), "float32"), B: T.Buffer((1, 128), "float32")):
    for k in range(1000):
        T.evaluate(T.call_packed("benchmarks.nothing", A, B))
"""


def bench_library() -> list[Row]:
    """Time calls from machine code into a Python function that does nothing with its arrays."""
    codegen.register_func("benchmarks.nothing", lambda x, out: None, override=True)
    arrays = codegen.empty((1, 128)), codegen.empty((1, 128))
    prepared = codegen.build(tensorir.parse(LIBRARY_CALL), TARGET)["main"].prepare(*arrays)
    address, kind = arrays[0].ctypes.data, np.dtype("float32")

    def views() -> None:
        for _ in range(1000):
            codegen.NDArray.at(address, (1, 128), kind)

    return [
        per_thousand("a library function called from compiled code, 2 arrays", prepared, 3),
        per_thousand("an array at an address, nothing copied", views, 1),
    ]


class MemoryWatch:
    """The most memory that this process and its children had at once, in bytes (Linux only)."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.peak = max(self.peak, sum(_proportional_bytes(p) for p in _family(os.getpid())))


def _family(pid: int) -> list[int]:
    try:
        # A thread has children of its own.
        threads = Path(f"/proc/{pid}/task").glob("*/children")
        children = [child for thread in threads for child in thread.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [pid, *(member for child in children for member in _family(int(child)))]


def _proportional_bytes(pid: int) -> int:
    """Return the memory of a process, with what it shares counted in parts."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("Pss:"))


def bench_graph_calls() -> list[Row]:
    cost = graph_calls.measure()
    return [
        loops_below(
            "a call of a model of one kernel, beside the kernel (1,000 of them)",
            just_timed(cost.call * 1e-3),
            3,
        ),
        below("a kernel of a model, in a chain of 100", cost.kernel, 0.3, "us"),
        loops_below(
            "a library call of a model, beside the function (1,000 of them)",
            just_timed(cost.library_call * 1e-3),
            3,
        ),
    ]


SHARES = {
    "MM127": ("a register tile that divides nothing", 0.8),
    "MM384": ("a register tile", 0.85),
    "MM1024": ("panels", 0.8),
    "T2D[1]": ("no zeros", 0.8),
    "MM1x1024x1024": ("rows side by side", 0.7),
}
"""The mechanism that each program needs, and the fraction of the peak that it must reach."""
AVX2 = "llvm -mcpu=znver3 -num-cores=1"


def share_of_peak(name: str, target: str, trials: int, turns: int = 8) -> float:
    """Tune a program; return the share of the peak that its kernel reaches.

    Products and convolutions are compared with the multiply-adds of a core, products of a matrix
    and a vector with its reads of memory of that size; both are interleaved with the kernel.
    Zeros that a transposed convolution leaves out count as no operations.
    """
    prog = program(name)
    module = codegen.build(tuned(prog.mod, target, trials).mod, target)
    arguments = [codegen.array(array) for array in inputs(prog.shapes)]
    evaluator = module.time_evaluator("main", number=1, repeat=1, min_repeat_ms=10)
    p, size = prog.parameters, 4 * max(math.prod(shape) for shape in prog.shapes)
    is_vector = prog.operator == "MM" and 1 in (p["n"], p["m"])
    if is_vector:
        work = float(size)
    elif prog.operator == "MM":
        work = 2.0 * p["n"] * p["m"] * p["k"]
    else:
        taps = p["kernel"] ** 2 * p["ci"] // (p["stride"] ** 2 if prog.operator == "T2D" else 1)
        work = 2.0 * math.prod(prog.shapes[-1]) * taps
    seconds, peak = math.inf, 0.0
    for _ in range(turns):
        seconds = min(seconds, float(evaluator(*arguments).results[0]))
        here = (
            read_bandwidth(size, target)
            if is_vector
            else machine_speed(target, again=True).peak_flops
        )
        peak = max(peak, here)
    return work / seconds / peak


def bench_shares(trials: int = 16) -> list[Row]:
    rows = []
    for target in [TARGET, AVX2] if codegen.Target(TARGET).vector_bits > 256 else [TARGET]:
        for name, (what, goal) in SHARES.items():
            bits = codegen.Target(target).vector_bits
            label = f"{name}, {bits} bits, {trials} trials: {what}"
            share = share_of_peak(name, target, trials)
            rows.append(at_least(label, share, goal, "of the peak"))
    return rows


BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "import": bench_import,
    "script": bench_script,
    "replay": bench_replay,
    "primitives": bench_primitives,
    "build": bench_build,
    "graph_calls": bench_graph_calls,
    "hand": bench_hand_schedules,
    "tune": bench_tune,
    "exhaustion": bench_exhaustion,
    "library": bench_library,
    "shares": bench_shares,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--json", type=Path, help="also write the figures to a file")
    options = parser.parse_args()
    rows = [row for name in options.names or BENCHMARKS for row in BENCHMARKS[name]()]
    print(table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


def table(rows: list[Row]) -> str:
    """Return rows as a Markdown table."""
    cells = [[what, budget, figure, "" if met else "missed"] for what, budget, figure, met in rows]
    return markdown([["what", "budget", "measured", ""], *cells])


if __name__ == "__main__":
    main()
