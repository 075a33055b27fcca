"""Warp shuffles: what each lane gets, reductions that use them, and their code for each device."""

from __future__ import annotations

import numpy as np
import pytest
from devices.ladder import device_program

import codegen
from codegen.devices.compile import compile_lowered
from codegen.devices.ptxas import assemble, ptxas_path
from codegen.target import Target
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes.dtype import DataType
from tensorir.semantics.conversions import stored

A100 = Target("cuda -arch=sm_80")


def exchange(op: str, width: int) -> PrimFunc:
    """Return a kernel with two warps of 8 lanes and a last one of 4."""
    return device_program(f"""
def main(A: T.Buffer((20,), "int32"), N: T.Buffer((20,), "int32"), B: T.Buffer((20,), "int32")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for ty in T.thread_binding(5, thread="threadIdx.y"):
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                x: T.int32 = T.{op}(-1, A[ty * 4 + tx], N[ty * 4 + tx], {width}, 8)
                B[ty * 4 + tx] = x
""")


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize(
    ("op", "source"),
    [
        ("tvm_warp_shuffle", lambda lane, n, width: n % width),
        ("tvm_warp_shuffle_up", lambda lane, n, width: lane - n if lane >= n else lane),
        ("tvm_warp_shuffle_down", lambda lane, n, width: lane + n if lane + n < width else lane),
    ],
)
def test_a_lane_gets_a_value_of_its_segment(op, source, width):
    a, n = np.arange(20, dtype="int32") * 10, np.arange(20, dtype="int32") % 3
    b = np.zeros_like(a)
    interpret(exchange(op, width), a, n, b)
    lane = np.arange(20) % width
    expected = [source(k, m, width) - k for k, m in zip(lane, n, strict=True)]
    np.testing.assert_array_equal(b, a[np.arange(20) + expected])


ROWS = """
def main(A: T.Buffer(({rows}, {n}), "{dtype}"), B: T.Buffer(({rows},), "{dtype}"), C: T.Buffer(({rows}, {n}), "{dtype}")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    S = T.alloc_buffer(({rows},), "{dtype}", scope="{scope}")
    for bx in T.thread_binding(({rows} + {y} - 1) // {y}, thread="blockIdx.x"):
        for ty in T.thread_binding({y}, thread="threadIdx.y"):
            for k0 in range(({n} + {x} - 1) // {x}):
                for k1 in T.thread_binding({x}, thread="threadIdx.x"):
                    with T.block("S"):
                        i = T.axis.spatial({rows}, bx * {y} + ty)
                        k = T.axis.reduce({n}, k0 * {x} + k1)
                        T.where(bx * {y} + ty < {rows} and k0 * {x} + k1 < {n})
                        with T.init():
                            S[i] = T.min_value("{dtype}")
                        S[i] = T.max(S[i], A[i, k] * B[i])
            for k0 in range(({n} + {x} - 1) // {x}):
                for k1 in T.thread_binding({x}, thread="threadIdx.x"):
                    with T.block("C"):
                        i = T.axis.spatial({rows}, bx * {y} + ty)
                        k = T.axis.spatial({n}, k0 * {x} + k1)
                        T.where(bx * {y} + ty < {rows} and k0 * {x} + k1 < {n})
                        C[i, k] = A[i, k] + S[i]
"""


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "rocm -mcpu=gfx90a", "rocm -mcpu=gfx1100"])
@pytest.mark.parametrize(
    ("x", "y", "n", "rows", "dtype", "barriers"),
    [
        (8, 4, 30, 7, "float32", (0, 0)),
        (32, 2, 70, 3, "int64", (0, 0)),
        (64, 2, 64, 4, "float16", (1, 0)),
        (96, 2, 100, 2, "float64", (1, None)),
        (12, 1, 50, 2, "int8", (0, 0)),
        (100, 1, 150, 1, "bfloat16", (1, 1)),
        (12, 3, 20, 3, "int32", (None, None)),
    ],
)
def test_largest_elements_of_rows(target, x, y, n, rows, dtype, barriers):
    """`barriers` has their number by lanes of a warp, 32 or 64; None where shuffles cannot do."""
    func = device_program(ROWS.format(x=x, y=y, n=n, rows=rows, dtype=dtype, scope="local"))
    lowered = codegen.lower(func, Target(target))
    rng = np.random.default_rng(0)
    numbers, factors = rng.integers(-5, 5, (rows, n)), rng.integers(-2, 2, rows)
    largest = (numbers * factors[:, None]).max(1, keepdims=True)
    a, b, expected = (stored(x, DataType(dtype)) for x in (numbers, factors, numbers + largest))
    c = np.zeros_like(a)
    interpret(lowered, a, b, c)
    np.testing.assert_array_equal(c, expected)
    expected_barriers = barriers["gfx90a" in target]
    text = lowered.script()
    if expected_barriers is None:
        assert "warp_shuffle" not in text
    else:
        assert text.count("tvm_storage_sync") == expected_barriers
    code = compile_lowered({"main": lowered}, Target(target)).functions[0]
    if target.startswith("cuda") and ptxas_path() is not None:
        (resources,) = [r for ptx in code.kernels.values() for r in assemble(ptx, "sm_80").values()]
        assert resources.stack_bytes == resources.spill_bytes == 0


@pytest.mark.parametrize(
    "target", ["opencl", "cuda -arch=sm_80 -thread_warp_size=1", "rocm -thread_warp_size=1"]
)
def test_targets_without_shuffles_use_shared_memory(target):
    func = device_program(ROWS.format(x=8, y=1, n=8, rows=1, dtype="float32", scope="shared"))
    text = codegen.lower(func, Target(target)).script()
    assert "warp_shuffle" not in text
    assert text.count("tvm_storage_sync") > 1
