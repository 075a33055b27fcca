"""From schedules with threads to results on a device."""

from __future__ import annotations

import numpy as np
from devices.ladder import OPENCL, check_kernels, needs_opencl

import codegen
from schedule import Schedule
from tensorir.script import parse

MATMUL = """
@T.prim_func
def main(A: T.Buffer((32, 24)), B: T.Buffer((24, 64)), C: T.Buffer((32, 64))):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(32, 64, 24):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
SOFTMAX = """
@T.prim_func
def main(A: T.Buffer((10, 100)), C: T.Buffer((10, 100))):
    T.func_attr({"tir.noalias": True})
    top, total = T.alloc_buffer((10,)), T.alloc_buffer((10,))
    for i, k in T.grid(10, 100):
        with T.block("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                top[vi] = T.min_value("float32")
            top[vi] = T.max(top[vi], A[vi, vk])
    for i, k in T.grid(10, 100):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = 0.0
            total[vi] += T.exp(A[vi, vk] - top[vi])
    for i, k in T.grid(10, 100):
        with T.block("C"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = T.exp(A[vi, vk] - top[vi]) / total[vi]
"""


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype("float32")


def tiled_matmul() -> Schedule:
    """Return a matmul with tiles in shared memory that threads fetch together, and in registers."""
    sch = Schedule(parse(MATMUL))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (by, ty, yi), (bx, tx, xi) = sch.split(i, [None, 8, 2]), sch.split(j, [None, 8, 4])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(by, bx, ty, tx, k0, k1, yi, xi)
    for loop, axis in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (tx, "threadIdx.x"),
    ):
        sch.bind(loop, axis)
    for number in (0, 1):
        copy = sch.cache_read(block, number, "shared")
        sch.compute_at(copy, k0)
        fused = sch.fuse(*sch.get_loops(copy)[-2:])
        _, ty_copy, tx_copy, lanes = sch.split(fused, [None, 8, 8, 2])
        sch.bind(ty_copy, "threadIdx.y")
        sch.bind(tx_copy, "threadIdx.x")
        sch.vectorize(lanes)
    write = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(write, tx)
    sch.vectorize(sch.get_loops(write)[-1])
    sch.decompose_reduction(block, k0)
    return sch


@needs_opencl
def test_a_matmul_of_tiles():
    a, b = random(32, 24), random(24, 64)
    func = tiled_matmul().mod["main"]
    resources = check_kernels(func, [a, b], [a @ b], atol=1e-5, is_lowered=False)
    if resources is not None:
        assert (resources.spill_bytes, resources.stack_bytes) == (0, 0)


@needs_opencl
def test_a_softmax_with_reductions_over_threads():
    sch = Schedule(parse(SOFTMAX))
    for name in ("top", "total", "C"):
        i, k = sch.get_loops(sch.get_block(name))
        _, tx = sch.split(k, [None, 32])
        sch.bind(i, "blockIdx.x")
        sch.bind(tx, "threadIdx.x")
    a = random(10, 100)
    e = np.exp(a - a.max(1, keepdims=True))
    expected = e / e.sum(1, keepdims=True)
    check_kernels(sch.mod["main"], [a], [expected], rtol=1e-5, is_lowered=False)


@needs_opencl
def test_build_and_call():
    module = codegen.build(tiled_matmul().mod, OPENCL)
    device = codegen.device(OPENCL)
    a, b = random(32, 24), random(24, 64)
    arrays = [codegen.array(x, device) for x in (a, b)]
    c = codegen.empty((32, 64), "float32", device)
    module["main"](*arrays, c)
    np.testing.assert_allclose(c.numpy(), a @ b, atol=1e-5)
    assert "OpEntryPoint Kernel" in module.inspect_device()


def test_the_explanation_of_a_schedule():
    text = str(codegen.explain(tiled_matmul().mod, "cuda -arch=sm_80"))
    assert "main on cuda sm_80" in text
    assert "store C         C         global      2      4  coalesced" in text
