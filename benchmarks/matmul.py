"""The matmul of the README, its hand schedules, and numbers about how fast it runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import codegen
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


@dataclass(frozen=True)
class Speed:
    """The time of a program in seconds; the best of several repeats, since others use the CPU."""

    seconds: float

    @property
    def gflops(self) -> float:
        return FLOP / self.seconds / 1e9

    def __str__(self) -> str:
        return f"{self.seconds * 1e6:9.1f} us  {self.gflops:7.2f} GFLOPS"


def speed(mod: IRModule) -> Speed:
    """Build and time a version of the matmul; AssertionError if its result is wrong."""
    rng = np.random.default_rng(0)
    a, b = (codegen.array(rng.random((N, N), np.float32)) for _ in range(2))
    c = codegen.empty((N, N))
    library = codegen.build(mod, TARGET)
    library["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    evaluator = library.time_evaluator("main", number=3, repeat=7, min_repeat_ms=20)
    return Speed(evaluator(a, b, c).min)


def hand_schedule(factor: int) -> IRModule:
    """Return the schedule of the README: split j, reorder, decompose the reduction."""
    sch = Schedule(MyModule)
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=[None, factor])
    sch.reorder(i, j0, k, j1)
    sch.decompose_reduction(block, k)
    return sch.mod
