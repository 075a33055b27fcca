"""Programs to search for, and things to put in place of parts of a search.

Worker processes import this module, so what they are to call is here.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedule import Schedule
from tensorir import I, T
from tensorir.function import IRModule as IRModule
from tensorir.nodes.ops import as_expr
from tensorir.nodes.stmt import Evaluate, Stmt

MARK = "TENSORIR_TEST_MARK"
"""Environment variable with the path of a file that counts calls across processes."""


@I.ir_module
class Matmul:
    @T.prim_func
    def main(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(32, 32, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def aborts(A: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = T.float32(0)
    T.evaluate(T.call_extern("int32", "abort"))


@T.prim_func
def hangs(A: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    T.evaluate(T.call_extern("int32", "sleep", 100))


@T.prim_func
def adds_one(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func
def computes_for_minutes(A: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(1048576, 1048576):
        with T.block("A"):
            _vi, _vj = T.axis.remap("SS", [i, j])
            A[0] = A[0] * T.float32(0.5) + T.float32(1)


@T.prim_func
def reads_much(A: T.Buffer((1,), "float32"), B: T.Buffer((262144,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(16384):
        with T.block("A"):
            vi = T.axis.opaque(16384, i)
            A[0] = T.max(A[0], B[vi * 16])


@T.prim_func
def adds_two(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + T.float32(2)


def split_j(sch: Schedule) -> Schedule:
    """Split the second loop; of 32 into 2 with at most 16 inside there are 5 ways."""
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=16))
    sch.reorder(i, outer, k, inner)
    sch.decompose_reduction(block, k)
    return sch


def split_all(sch: Schedule) -> Schedule:
    """Split every loop: hundreds of ways."""
    block = sch.get_block("C", "main")
    tiles = [sch.split(loop, sch.sample_perfect_tile(loop, n=3)) for loop in sch.get_loops(block)]
    sch.reorder(*(tile[level] for level in range(3) for tile in tiles))
    return sch


def calls_so_far() -> int:
    """Count a call in the marked file and return how many there were before."""
    path = Path(os.environ[MARK])
    with path.open("ab") as file:
        before = file.tell()
        file.write(b".")
    return before


def dies_at_the_third(
    module: Any, device: Any, config: Any, arguments: Sequence[Sequence[Any]]
) -> list[float]:
    """Run a candidate; in the third call, the process is killed."""
    if calls_so_far() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.perf_counter()
    module(*arguments[0])
    return [time.perf_counter() - start]


def square(x: int) -> int:
    return x * x


def fail_on(x: int) -> int:
    if x == 2:
        raise ValueError("two is not allowed")
    return x


def sleep_for(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def end_process(signal_number: int) -> None:
    os.kill(os.getpid(), signal_number)


def nothing() -> Stmt:
    """Return a statement that does nothing."""
    return Evaluate(as_expr(0))


MATMUL_TEXT = """
@T.prim_func
def main(A: T.Buffer((48, 32), "float32"), B: T.Buffer((32, 64), "float32"), C: T.Buffer((48, 64), "float32")):
    for i, j, k in T.grid(48, 64, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
