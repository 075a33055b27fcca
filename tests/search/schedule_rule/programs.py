"""Small programs that tests of schedule rules and postprocessors share, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from tensorir import parse
from tensorir.function import IRModule, PrimFunc
from tensorir.interp import interpret, random_arguments

PROGRAMS: Final = {
    "matmul": """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16, 16)), C: T.Buffer((16, 16))):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    "matmul and relu": """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16, 16)), D: T.Buffer((16, 16))):
    C = T.alloc_buffer((16, 16))
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(16, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))
""",
    "row sums": """
@T.prim_func
def main(A: T.Buffer((8, 16, 32)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    for i, j, k in T.grid(8, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vj, vk]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = T.sqrt(C[vi])
""",
    "short sum": """
@T.prim_func
def main(A: T.Buffer((8, N)), B: T.Buffer((8,))):
    for i, k in T.grid(8, N):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""",
    "chain": """
@T.prim_func
def main(A: T.Buffer((16,)), D: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    C = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.exp(B[vi])
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = C[vi] * T.float32(2)
""",
    "chain and sum": """
@T.prim_func
def main(A: T.Buffer((16,)), D: T.Buffer((16,)), E: T.Buffer((1,))):
    B = T.alloc_buffer((16,))
    C = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.exp(B[vi])
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = C[vi] * T.float32(2)
    for i in range(16):
        with T.block("E"):
            vi = T.axis.reduce(16, i)
            with T.init():
                E[0] = T.float32(0)
            E[0] = E[0] + A[vi]
""",
    "transposed sums": """
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vj]
""",
    "constant": """
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    two = T.alloc_buffer(())
    with T.block("two"):
        T.reads()
        T.writes(two[()])
        two[()] = T.float32(2)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi] * two[()]
""",
    "tiled matmul": """
@T.prim_func
def main(A: T.Buffer((16, 12)), B: T.Buffer((12, 8)), C: T.Buffer((16, 8))):
    for i_0, j_0, k_0, i_1, j_1, k_1 in T.grid(4, 2, 3, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vj = T.axis.spatial(8, j_0 * 4 + j_1)
            vk = T.axis.reduce(12, k_0 * 4 + k_1)
            T.block_attr({"meta_schedule.tiling_structure": "SRSR"})
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    "strided window": """
@T.prim_func
def main(X: T.Buffer((8, 31)), W: T.Buffer((16, 8, 3)), C: T.Buffer((16, 15))):
    for o, w, c, r in T.grid(16, 15, 8, 3):
        with T.block("C"):
            vo, vw, vc, vr = T.axis.remap("SSRR", [o, w, c, r])
            T.block_attr({"meta_schedule.tiling_structure": "SR"})
            with T.init():
                C[vo, vw] = T.float32(0)
            C[vo, vw] = C[vo, vw] + X[vc, vw * 2 + vr] * W[vo, vc, vr]
""",
    "packed matmul": """
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((12, COLUMNS)), C: T.Buffer((8, COLUMNS))):
    B_global = T.alloc_buffer((12, COLUMNS))
    for ax0, ax1 in T.grid(12, COLUMNS):
        with T.block("B_global"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.block_attr({"meta_schedule.packed_operand": 1})
            B_global[v0, v1] = B[v0, v1]
    for LOOPS:
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(COLUMNS, COLUMN)
            vk = T.axis.reduce(12, k)
            T.where(True)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_global[vk, vj]
""",
    "transposed convolution": """
@T.prim_func
def main(A: T.Buffer((6, 10)), W: T.Buffer((4, 6)), C: T.Buffer((16, 6))):
    for h, co, r, ci in T.grid(16, 6, 4, 6):
        with T.block("C"):
            vh, vco, vr, vci = T.axis.remap("SSRR", [h, co, r, ci])
            with T.init():
                C[vh, vco] = T.float32(0)
            C[vh, vco] = C[vh, vco] + T.if_then_else((vh + vr) % 2 == 0, A[vci, (vh + vr) // 2], T.float32(0)) * W[vr, vci]
""",
    "vector and matrix": """
@T.prim_func
def main(x: T.Buffer((24,)), A: T.Buffer((24, 128)), y: T.Buffer((128,))):
    for j, k in T.grid(128, 24):
        with T.block("y"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                y[vj] = T.float32(0)
            y[vj] = y[vj] + x[vk] * A[vk, vj]
""",
    "matrix and vector": """
@T.prim_func
def main(A: T.Buffer((6, 32)), B: T.Buffer((32,)), C: T.Buffer((6,))):
    for i, k in T.grid(6, 32):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * B[vk]
""",
    "linear": """
@T.prim_func
def main(X: T.Buffer((ROWS, DEPTH)), W: T.Buffer((COLUMNS, DEPTH)), B: T.Buffer((COLUMNS,)), Z: T.Buffer((ROWS, COLUMNS))):
    Y = T.alloc_buffer((ROWS, COLUMNS))
    for i, j, k in T.grid(ROWS, COLUMNS, DEPTH):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
    for i, j in T.grid(ROWS, COLUMNS):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vi, vj] + B[vj]
""",
    "transpose": """
@T.prim_func
def main(X: T.Buffer((48, 24)), Y: T.Buffer((24, 48))):
    for i, j in T.grid(24, 48):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vj, vi]
""",
    "elementwise": """
@T.prim_func
def main(A: T.Buffer((12, 50)), B: T.Buffer((12, 50))):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 8, "meta_schedule.vectorize": 64, "meta_schedule.unroll_explicit": 16})
        for i, j in T.grid(12, 50):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
""",
    "marked matmul": """
@T.prim_func
def main(A: T.Buffer((32, 16)), B: T.Buffer((16, 32)), C: T.Buffer((32, 32))):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 8, "meta_schedule.vectorize": 16, "meta_schedule.unroll_implicit": 64})
        for i0, j0, i1, k, j1 in T.grid(4, 4, 8, 16, 8):
            with T.block("C"):
                vi = T.axis.spatial(32, i0 * 8 + i1)
                vj = T.axis.spatial(32, j0 * 8 + j1)
                vk = T.axis.reduce(16, k)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    "weights": """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16, 16)), C: T.Buffer((16, 16))):
    T.func_attr({"layout_free_buffers": [1]})
    for i0, j, k0, i1, k1 in T.grid(4, 16, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i0 * 4 + i1)
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(16, k0 * 4 + k1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    "matmul of vectors": """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16, 48)), C: T.Buffer((16, 48))):
    for LOOPS:
        for j in T.vectorized(48):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                vj = T.axis.spatial(48, j)
                vk = T.axis.reduce(16, k)
                with T.init():
                    C[vi, vj] = T.float16(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    "bytes": """
@T.prim_func
def main(A: T.Buffer((4, 8), "uint8"), B: T.Buffer((2, 2, 16, 4), "int8"), C: T.Buffer((4, 32), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(4, 32, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj // 16, vk // 4, vj % 16, vk % 4])
""",
}


def program(text: str) -> PrimFunc:
    """Parse a program, or one of `PROGRAMS` with a replacement `old => new` on each further line."""
    if not text.lstrip().startswith("@"):
        name, *changes = text.splitlines()
        text = PROGRAMS[name]
        for change in changes:
            old, new = (part.strip().replace("\\n", "\n") for part in change.split("=>"))
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, new)
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


class Reference:
    """The results of a program, to compare those of its schedules with."""

    def __init__(self, func: PrimFunc) -> None:
        self._arguments = random_arguments(func, 0)
        self._results = [a.copy() for a in self._arguments]
        interpret(func, *self._results)

    def check(self, mod: IRModule, **tolerance: Any) -> None:
        """Assert that a schedule computes the same; integers must be equal."""
        self.check_call(partial(interpret, mod), **tolerance)

    def check_call(self, call: Callable[..., object], **tolerance: Any) -> None:
        """The same for a function that writes its results to its arguments."""
        actual = [a.copy() for a in self._arguments]
        call(*actual)
        for got, wanted in zip(actual, self._results, strict=True):
            if got.dtype.kind == "f":
                np.testing.assert_allclose(got, wanted, **{"rtol": 2e-5, **tolerance})
            else:
                np.testing.assert_array_equal(got, wanted)
