"""Scheduled programs compiled to machine code compute what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from schedule import Schedule
from tensorir import parse
from tests.matmul import matmul

MATMUL = matmul(32, 40, 48, noalias=True)


def as_written(sch):
    del sch


def reordered(sch):
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i, j0, k, j1)
    sch.decompose_reduction(block, k)


def tiled(sch):
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, j0, k, i1, j1)
    copy = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(copy, j0)
    sch.vectorize(sch.get_loops(copy)[-1])
    sch.vectorize(j1)
    sch.unroll(i1)
    sch.decompose_reduction(block, k)


@pytest.mark.parametrize("transform", [as_written, reordered, tiled])
def test_matmul(transform):
    sch = Schedule(parse(MATMUL))
    transform(sch)
    rng = np.random.default_rng(0)
    a, b = rng.random((32, 48), "float32"), rng.random((48, 40), "float32")
    c = np.zeros((32, 40), "float32")
    lib = codegen.build(sch.mod, target="llvm -num-cores=1")
    lib["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_unrolled_loops_inside_a_loop_of_one_iteration():
    sch = Schedule(parse(MATMUL))
    i, j, _ = sch.get_loops(sch.get_block("C"))
    one, _ = sch.split(i, [1, 32])
    sch.annotate(one, "note", 1)
    sch.unroll(sch.split(j, [None, 4])[1])
    rng = np.random.default_rng(0)
    a, b = rng.random((32, 48), "float32"), rng.random((48, 40), "float32")
    c = np.zeros((32, 40), "float32")
    codegen.build(sch.mod, target="llvm -num-cores=1")["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize("reducer", ["max", "min"])
def test_a_long_chain_of_extrema_compiles(reducer):
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((64, 96), "float32"), M: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.allocate([1], "float32", "global") as p:
            best = T.Buffer((1,), "float32", data=p)
            best[0] = A[i, 0]
            for k in T.unroll(96):
                best[0] = T.{reducer}(best[0], A[i, k])
            M[i] = best[0]
"""
    )
    a = np.random.default_rng(0).random((64, 96), "float32")
    m = np.zeros(64, "float32")
    codegen.build(func, target="llvm -num-cores=1")["main"](a, m)
    np.testing.assert_array_equal(m, getattr(a, reducer)(axis=1))
