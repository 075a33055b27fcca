"""The 128x128x128 matmul of the README: tuned by `make tune`, and by hand for the budgets."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import codegen
from benchmarks.side_by_side import tuned
from schedule import Schedule
from tensorir import I, T
from tensorir.function import IRModule

N = 128
TARGET = "llvm -num-cores=1"
FLOP = 2 * N**3


@I.ir_module
class MyModule:
    @T.prim_func
    def main(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(128, 128, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def seconds_of(mod: IRModule) -> float:
    """Build and time a version of the matmul; AssertionError if its result is wrong.

    The best of several repeats counts, since others use the CPU.
    """
    rng = np.random.default_rng(0)
    a, b = (codegen.array(rng.random((N, N), np.float32)) for _ in range(2))
    c = codegen.empty((N, N))
    library = codegen.build(mod, TARGET)
    library["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    evaluator = library.time_evaluator("main", number=3, repeat=7, min_repeat_ms=20)
    return evaluator(a, b, c).min


def hand_schedule(factor: int) -> IRModule:
    """Return the schedule of the README: split j, reorder, decompose the reduction."""
    sch = Schedule(MyModule)
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=[None, factor])
    sch.reorder(i, j0, k, j1)
    sch.decompose_reduction(block, k)
    return sch.mod


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--work-dir", type=Path, default=Path("tune_tmp"))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    start = time.monotonic()
    best = tuned(MyModule, TARGET, options.trials, work_dir=options.work_dir, seed=options.seed)
    took = time.monotonic() - start
    trace = options.work_dir / "best_trace.json"
    best.trace.save(trace)
    before, after = seconds_of(MyModule), seconds_of(best.mod)
    for name, seconds in (("before", before), ("after", after)):
        print(f"{name + ':':10}{seconds * 1e6:9.1f} us  {FLOP / seconds / 1e9:7.2f} GFLOPS")
    print(f"speed-up: {before / after:.1f}x, after {took:.1f} s of tuning")
    print(f"trace:    {trace}")


if __name__ == "__main__":
    main()
