"""Kernels for aarch64 compute what NumPy does, on an emulated CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated import build, why_not
from kernels import Array, elementwise_program, outputs_of

import codegen
from codegen.runtime.function import Function
from schedule import Schedule
from tensorir import parse
from tensorir.interp import interpret, random_arguments
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import cast, intrinsic

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

ARM = "llvm -mtriple=aarch64-linux-gnu"
SERVER = f"{ARM} -mcpu=neoverse-n1"
BYTES = """\
@T.prim_func
def main(A: T.Buffer((4, 8), "int8"), B: T.Buffer((4, 2, 4, 4), "int8"), C: T.Buffer((4, 16), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(4, 16, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj // 4, vk // 4, vj % 4, vk % 4])
"""
ROWS = """\
@T.prim_func
def main(A: T.Buffer((37, 10), "float32"), B: T.Buffer((37,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(37):
        B[i] = T.float32(0)
        for j in range(10):
            B[i] = B[i] + A[i, j]
"""
POSITIVE = """\
@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    assert A[0] > 0, "the first is positive"
    A[0] = 1
"""
FUNCTIONS = {
    "exp": np.exp,
    "tanh": np.tanh,
    "log": np.log,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "round": np.round,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def apply(func: Any, target: str, folder: Path, *arrays: Array) -> list[Array]:
    """Return what an elementwise program makes of arrays on the emulated CPU."""
    outputs = outputs_of(func, arrays)
    build(func, target, folder)["f"](*arrays, *outputs)
    return outputs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_a_real_variable(dtype: str, tmp_path: Path) -> None:
    x = np.concatenate([np.linspace(0.01, 30, 500), [1e-40, 1e4, 3e38, np.inf, np.nan, 0.0] * 2])
    x = x.astype(dtype)
    func = elementwise_program(lambda v: [intrinsic(n, v) for n in FUNCTIONS], [dtype], 8)
    with np.errstate(all="ignore"):
        for (name, function), got in zip(
            FUNCTIONS.items(), apply(func, ARM, tmp_path, x), strict=True
        ):
            exact = function(x.astype(np.float64))
            np.testing.assert_allclose(got, exact.astype(dtype), rtol=1e-6, err_msg=name)


def test_lanes_of_a_machine_agree_with_this_one(tmp_path: Path) -> None:
    """Fused multiply-adds are on both, so that results are the same to the bit."""
    patterns = np.random.default_rng(0).integers(0, 2**32 - 1, 4096, np.uint32)
    x = patterns.view(np.float32)
    func = elementwise_program(lambda v: [intrinsic(n, v) for n in FUNCTIONS], ["float32"], 4)
    here = outputs_of(func, [x])
    codegen.build(func, "x86-64-v3")["f"](x, *here)
    for there, expected in zip(apply(func, ARM, tmp_path, x), here, strict=True):
        np.testing.assert_array_equal(there, expected)


@pytest.mark.parametrize("lanes", [1, 8])
def test_halves_and_integers_are_converted(lanes: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**16, 512, np.uint16).view(np.float16)
    y = rng.normal(0, 1e5, 512).astype(np.float32)

    def to(dtype: str, value: PrimExpr) -> PrimExpr:
        return cast(DataType(dtype).with_lanes(lanes), value)

    def make(half: PrimExpr, single: PrimExpr) -> list[PrimExpr]:
        return [
            to("float32", half),
            to("float16", single),
            to("int8", single),
            to("float32", to("bfloat16", single)),
            half * half,
        ]

    func = elementwise_program(make, ["float16", "float32"], lanes)
    wide, narrow, small, brain, square = apply(func, ARM, tmp_path, x, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(wide, x.astype(np.float32))
        np.testing.assert_array_equal(narrow, y.astype(np.float16))
        np.testing.assert_array_equal(square, x * x)
    np.testing.assert_array_equal(small, np.clip(np.trunc(y), -128, 127).astype(np.int8))
    np.testing.assert_allclose(brain, y, rtol=2**-8)


@pytest.mark.parametrize(
    ("target", "intrin"),
    [(SERVER, "dot_4x4_i8i8s32_sdot"), (ARM, "dot_4x4_i8i8s32_neon")],
)
def test_dot_products_of_bytes(target: str, intrin: str, tmp_path: Path) -> None:
    func = parse(BYTES)
    sch = Schedule(func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction(block, k0)
    sch.tensorize(j1, intrin)
    expected = random_arguments(func, 0)
    actual = [a.copy() for a in expected]
    interpret(func, *expected)
    build(sch.mod, target, tmp_path)["main"](*actual)
    np.testing.assert_array_equal(actual[2], expected[2])


@pytest.mark.parametrize("threads", [0, 3])
def test_parallel_loops_with_a_runtime_and_without(threads: int, tmp_path: Path) -> None:
    a = np.random.default_rng(0).integers(0, 9, (37, 10)).astype(np.float32)
    b = np.zeros(37, np.float32)
    build(parse(ROWS), ARM, tmp_path, threads=threads)["main"](a, b)
    np.testing.assert_array_equal(b, a.sum(axis=1))


def test_an_assertion_is_told(tmp_path: Path) -> None:
    main: Function = build(parse(POSITIVE), ARM, tmp_path)["main"]
    a = np.full(4, 3, np.int32)
    main(a)
    assert a.tolist() == [1, 3, 3, 3]
    with pytest.raises(codegen.AssertionFailedError, match="the first is positive"):
        main(np.zeros(4, np.int32))
