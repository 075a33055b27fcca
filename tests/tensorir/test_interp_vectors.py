"""The interpreter takes vectors, so that lowered programs can be checked as well."""

import numpy as np
import pytest

import codegen
from schedule import Schedule
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import InterpreterError, interpret, random_arguments

MATMUL = """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((8, 20), "float32"), C: T.Buffer((6, 20), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(6, 20, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def run(body: str, dtype: str = "float32", numpy_dtype: type = np.float32) -> np.ndarray:
    func = parse(f'@T.prim_func\ndef f(A: T.Buffer((16,), "{dtype}")):\n{body}')
    array = np.arange(16).astype(numpy_dtype)
    interpret(func, array)
    return array


@pytest.mark.parametrize("until", [name for name, _ in codegen.PASSES])
def test_every_stage_of_lowering_computes_the_same(until: str) -> None:
    func = parse(MATMUL)
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i, j0, k, j1)
    sch.vectorize(j1)
    sch.decompose_reduction(block, k)
    arrays = random_arguments(func)
    interpret(codegen.lower(sch.mod["main"], "llvm", until=until), *arrays)
    np.testing.assert_allclose(arrays[2], arrays[0] @ arrays[1], rtol=1e-5)


def test_all_lanes_are_read_before_one_is_written() -> None:
    result = run("    A[1:9] = A[0:8]\n")
    assert result.tolist() == [0, *range(8), *range(9, 16)]


def test_lanes_that_are_masked_are_left_alone() -> None:
    mask = "T.Ramp(0, 1, 4) < T.Broadcast(2, 4)"
    result = run(f"    A.vstore([0], T.Broadcast(T.float32(9), 4), predicate={mask})\n")
    assert result[:4].tolist() == [9, 9, 2, 3]


def test_a_lane_out_of_bounds_is_an_error() -> None:
    with pytest.raises(InterpreterError, match="index 16 of dimension 0 is not in"):
        run("    A[14:18] = T.Broadcast(T.float32(0), 4)\n")


def test_bfloat16_is_rounded_to_even() -> None:
    result = run(
        "    A[0] = T.bfloat16(1)\n    A[1] = A[0] + T.bfloat16(0.00390625)\n"
        "    A[2] = A[0] + T.bfloat16(0.005859375)\n",
        "bfloat16",
        np.uint16,
    )
    assert [hex(bits) for bits in result[:3].tolist()] == ["0x3f80", "0x3f80", "0x3f81"]
