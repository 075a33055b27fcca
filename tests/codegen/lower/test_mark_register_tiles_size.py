"""What stands in registers is not written out together with large loops beside it."""

from __future__ import annotations

import pytest

from codegen import lower
from tensorir import parse
from tensorir.stmt import For, ForKind
from tensorir.visit import walk

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((150,), "float32"), C: T.Buffer((5, 8), "float32")):
    T.func_attr({{"tir.noalias": True}})
    table = T.alloc_buffer((10,), "int32")
    P = T.alloc_buffer((150,))
    for t in range(10):
        with T.block("table"):
            vt = T.axis.spatial(10, t)
            table[vt] = vt * 7
    for j, i in T.grid(5, 8):
        for a in range({extent}):
            with T.block("P"):
                va = T.axis.spatial(150, a)
                P[va] = T.if_then_else(va < 70, A[va] + T.float32(1), T.float32(0))
        for k in range(2):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vj, vi] = T.float32(0)
                C[vj, vi] = C[vj, vi] + P[table[vj * 2 + vk]]
"""


@pytest.mark.parametrize(("extent", "written_out"), [(2, True), (150, False)])
def test_what_else_the_loops_run_counts(extent, written_out):
    func = lower(parse(PROGRAM.format(extent=extent)), "llvm -mcpu=skylake-avx512")
    serial = [lp for lp in walk(func.body) if isinstance(lp, For) and lp.kind is ForKind.SERIAL]
    assert ("j" not in [lp.loop_var.name for lp in serial]) == written_out
