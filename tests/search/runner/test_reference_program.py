"""The program that candidates are compared with runs in bearable time and gives the same bits."""

import numpy as np
import pytest

import codegen
from codegen import Target
from search.arg_info import ArgInfo
from search.runner.arguments import random_arrays
from search.runner.reference_program import reference_program
from search.task import normalize_mod
from tensorir import assert_structural_equal, parse, workloads
from tensorir.function import PrimFunc

BEFORE = """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for i, j, k in T.grid(64, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
AFTER = """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for i in range(64):
        for j_init in range(64):
            with T.block("C_init"):
                vi, vj = T.axis.remap("SS", [i, j_init])
                C[vi, vj] = T.float32(0)
        for k, j in T.grid(64, 64):
            with T.block("C_update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_the_last_data_parallel_loop_of_a_large_reduction_goes_innermost() -> None:
    before, after = parse(BEFORE), parse(AFTER)
    assert isinstance(before, PrimFunc)
    assert isinstance(after, PrimFunc)
    mod = normalize_mod(before)
    assert_structural_equal(reference_program(mod, large=1)["main"], normalize_mod(after)["main"])


def test_a_small_program_keeps_its_order() -> None:
    mod = normalize_mod(workloads.create("SFM", 0))
    assert reference_program(mod)["main"] is mod["main"]


IN_FLOAT64 = """
@T.prim_func
def exact(A: T.Buffer((8,), "float64"), B: T.Buffer((8,), "int8"), C: T.Buffer((8,), "float64")):
    T.func_attr({"global_symbol": "exact", "tir.noalias": True})
    S = T.alloc_buffer((8,), "float64")
    for i in range(8):
        with T.block("S"):
            vi = T.axis.spatial(8, i)
            S[vi] = T.exp(A[vi]) + T.Cast("float64", B[vi])
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.max(S[vi], T.float64(0.5))
"""


def test_beside_it_is_the_program_in_float64() -> None:
    text = IN_FLOAT64.replace("exact", "main").replace("float64", "float32")
    half = text.replace("S[vi] = T.exp(A[vi])", "S[vi] = T.exp(T.Cast('float32', A[vi]))")
    half = half.replace('(8,), "float32"), B', '(8,), "float16"), B')
    wide = parse(IN_FLOAT64)
    for before in (parse(text), parse(half)):
        assert isinstance(before, PrimFunc)
        assert_structural_equal(reference_program(normalize_mod(before))["exact"], wide)


@pytest.mark.parametrize(
    "value", ['T.reinterpret("float32", B[vi])', 'T.call_pure_extern("float32", "sinf", A[vi])']
)
def test_not_where_the_bits_of_a_float_or_its_type_matter(value: str) -> None:
    before = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = {value}
"""
    )
    assert isinstance(before, PrimFunc)
    assert list(reference_program(normalize_mod(before))) == ["main"]


@pytest.mark.parametrize("name", ["C1D", "DEP", "T2D", "NRM", "SFM"])
def test_results_are_the_same_to_the_last_bit(name: str) -> None:
    mod = normalize_mod(workloads.create(name, 3 if name in ("C1D", "T2D") else 0))
    results = []
    for program in (mod, reference_program(mod, large=1)):
        arrays = random_arrays(ArgInfo.from_entry_func(mod), 0, signed=True)
        codegen.build(program, Target("llvm -num-cores=1"))(*arrays)
        results.append(arrays)
    assert all(np.array_equal(x, y) for x, y in zip(*results, strict=True))
