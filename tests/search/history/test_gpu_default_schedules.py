"""Default schedules for GPUs: bound programs that fit the device, without a search."""

from __future__ import annotations

import pytest

import search as ms
from codegen import Target
from search.feature_extractor.gpu_kernels import kernels_of
from search.postproc.verify_gpu_code import refusal
from tensorir import te, workloads
from tensorir.function import PrimFunc


def element_wise() -> PrimFunc:
    a = te.placeholder((300, 7), name="A")
    return te.create_prim_func([a, te.compute((300, 7), lambda i, j: a[i, j] * 2.0, name="B")])


def transpose() -> PrimFunc:
    a = te.placeholder((64, 96), name="A")
    return te.create_prim_func([a, te.compute((96, 64), lambda i, j: a[j, i], name="B")])


def row_sums() -> PrimFunc:
    a, k = te.placeholder((40, 500), name="A"), te.reduce_axis((0, 500), name="k")
    return te.create_prim_func([a, te.compute((40,), lambda i: te.sum(a[i, k], k), name="B")])


PROGRAMS = {
    "element-wise": element_wise,
    "transpose": transpose,
    "row sums": row_sums,
    "matmul": lambda: workloads.create("GMM", n=64, m=64, k=64),
    "convolution": lambda: workloads.create("C1D"),
    "softmax": lambda: workloads.create("SFM", m=64, n=64),
    "sum of squares": lambda: workloads.create("NRM", m=64, n=64),
}


@pytest.mark.parametrize(
    ("name", "target"),
    [*((name, "cuda") for name in PROGRAMS), ("row sums", "opencl"), ("softmax", "opencl")],
)
def test_bound_and_within_limits(name: str, target: str) -> None:
    gpu = Target(target).gpu
    assert gpu is not None
    sch = ms.default_schedule(PROGRAMS[name](), target)
    kernels = kernels_of(sch.mod.prim_func("main"))
    assert kernels
    for kernel in kernels:
        assert refusal(kernel, gpu) == ""


def test_the_softmax_of_a_row_is_one_kernel() -> None:
    sch = ms.default_schedule(workloads.create("SFM", m=256, n=256), "cuda")
    (kernel,) = kernels_of(sch.mod.prim_func("main"))
    assert kernel.count("blockIdx") == 256
