"""Which results a runner accepts: all that rounding explains, and nothing else."""

from pathlib import Path

import numpy as np
import pytest

import codegen
from codegen import Target
from schedule import Schedule
from search.arg_info import ArgInfo, TensorInfo
from search.builder.builder import build_and_export
from search.runner import RunnerInput
from search.runner.arguments import ProgramFacts, random_arrays
from search.runner.check_results import Expected, difference
from search.runner.measure import evaluate_reference, measure
from search.runner.measure_candidate import rewritten_parameter, with_separate_layout_rewrite
from search.runner.reference_program import reference_program
from search.runner.time_call import EvaluatorConfig
from search.task import normalize_mod
from tensorir import parse
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.dtype import DataType
from tests.search.postproc.test_postproc_rewrite_layout import AFTER, BEFORE

QUICK = EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)
TARGET = Target("llvm -num-cores=1")

DENSE_RELU = """
@T.prim_func
def main(A: T.Buffer((8, 300), "float32"), B: T.Buffer((300, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    S = T.alloc_buffer((8, 8))
    for i, j, k in T.grid(8, 8, 300):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = T.float32(0)
            S[vi, vj] = S[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(S[vi, vj], T.float32(0))
"""
INT8_DOT = """
@T.prim_func
def main(A: T.Buffer((16, 4), "uint8"), B: T.Buffer((16, 4), "int8"), C: T.Buffer((16,), "int32")):
    for i, k in T.grid(16, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vi, vk])
"""
VARIANCE = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), V: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.block("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = A[vi] / T.sqrt(V[vi])
"""
GATHER = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), I: T.Buffer((16,), "int32"), C: T.Buffer((16, 4), "float32")):
    for i, j in T.grid(16, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[I[vi], vj]
"""
HALF_SUM = """
@T.prim_func
def main(A: T.Buffer((8192,), "float16"), C: T.Buffer((1,), "float16")):
    for k in range(8192):
        with T.block("C"):
            vk = T.axis.reduce(8192, k)
            with T.init():
                C[0] = T.float16(0)
            C[0] = C[0] + T.abs(A[vk])
"""
SQUARES = """
@T.prim_func
def main(A: T.Buffer((4194304,), "float32"), C: T.Buffer((1,), "float32")):
    for k in range(4194304):
        with T.block("C"):
            vk = T.axis.reduce(4194304, k)
            with T.init():
                C[0] = T.float32(0)
            C[0] = C[0] + A[vk] * A[vk]
"""


def mod_of(text: str) -> IRModule:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return normalize_mod(func)


def verdict(
    tmp_path: Path, program: IRModule, candidate: IRModule, exact: bool = True
) -> str | None:
    """Return what a runner finds wrong with a candidate for a program."""
    reference, artifact = (
        build_and_export(mod, TARGET, None, None, None, str(tmp_path), None)
        for mod in (reference_program(program) if exact else program, candidate)
    )
    expected = f"{reference}.npz"
    evaluate_reference(reference, expected, ProgramFacts.of(program))
    args = ArgInfo.from_entry_func(candidate)
    return measure(RunnerInput(artifact, "llvm", args, expected), QUICK).error_msg


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        *((text, True) for text in (DENSE_RELU, INT8_DOT, VARIANCE, GATHER, HALF_SUM, SQUARES)),
        *((text, False) for text in (DENSE_RELU, VARIANCE, HALF_SUM)),
    ],
)
def test_a_program_is_right_about_itself(tmp_path: Path, text: str, exact: bool) -> None:
    assert verdict(tmp_path, mod_of(text), mod_of(text), exact) is None


@pytest.mark.parametrize("text", [HALF_SUM, SQUARES])
def test_a_sum_in_parts_is_right_where_one_by_one_loses_terms(tmp_path: Path, text: str) -> None:
    """A term that is small beside the sum so far is lost, or rounded always to the same side."""
    sch = Schedule(mod_of(text))
    (k,) = sch.get_loops(sch.get_block("C"))[-1:]
    outer, _ = sch.split(k, [64, None])
    sch.rfactor(outer, 0)
    assert verdict(tmp_path, mod_of(text), sch.mod) is None


def test_another_order_of_a_sum_is_right(tmp_path: Path) -> None:
    sch = Schedule(mod_of(DENSE_RELU))
    block = sch.get_block("S")
    *_, k = sch.get_loops(block)
    outer, _ = sch.split(k, [10, 30])
    sch.decompose_reduction(sch.rfactor(outer, 0), sch.get_loops(sch.get_block("S_rf"))[0])
    assert verdict(tmp_path, mod_of(DENSE_RELU), sch.mod) is None


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        (DENSE_RELU, "T.max(S[vi, vj], T.float32(0))", "S[vi, vj]"),
        (DENSE_RELU, "T.grid(8, 8, 300)", "T.grid(8, 8, 299)"),
        (
            DENSE_RELU,
            "A[vi, vk] * B[vk, vj]",
            "A[vi, vk] * T.Cast('float32', T.Cast('float16', B[vk, vj]))",
        ),
        (INT8_DOT, "C[vi] + T.Cast", "T.max(C[vi], -32768) + T.Cast"),
        (VARIANCE, "T.sqrt(V[vi])", "T.sqrt(T.max(V[vi], T.float32(0.6)))"),
        (GATHER, "A[I[vi], vj]", "A[T.min(I[vi], 6), vj]"),
    ],
    ids=["relu", "last term", "half precision", "saturation", "bound", "last row"],
)
def test_what_rounding_does_not_explain_is_wrong(
    tmp_path: Path, text: str, right: str, wrong: str
) -> None:
    assert right in text
    found = verdict(tmp_path, mod_of(text), mod_of(text.replace(right, wrong)))
    assert found is not None
    assert "wrong in" in found


def test_a_candidate_that_changes_an_input_is_wrong(tmp_path: Path) -> None:
    changes = """
    for i in range(64):
        with T.block("A"):
            vi = T.axis.spatial(64, i)
            A[vi] = A[vi] + T.float32(1)
"""
    wrong = verdict(tmp_path, mod_of(VARIANCE), mod_of(VARIANCE + changes))
    assert "argument 0 (A) is wrong in 64 of 64 elements" in str(wrong)


def test_saturation_at_16_bits_is_wrong(tmp_path: Path) -> None:
    """Multiply pairs, add them in 16 bits that saturate, as `pmaddubsw` does."""
    pairs = """
@T.prim_func
def main(A: T.Buffer((16, 4), "uint8"), B: T.Buffer((16, 4), "int8"), C: T.Buffer((16,), "int32")):
    for i, k in T.grid(16, 2):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + T.min(
                T.Cast("int32", A[vi, vk * 2]) * T.Cast("int32", B[vi, vk * 2])
                + T.Cast("int32", A[vi, vk * 2 + 1]) * T.Cast("int32", B[vi, vk * 2 + 1]),
                32767,
            )
"""
    assert verdict(tmp_path, mod_of(INT8_DOT), mod_of(pairs)) is not None


def test_weights_in_a_layout_of_their_own_are_checked(tmp_path: Path) -> None:
    assert verdict(tmp_path, mod_of(BEFORE), mod_of(AFTER)) is None
    wrong = AFTER.replace("B_global[vj, vk // 4, vk % 4]", "B_global[vj, vk // 4, 0]")
    found = verdict(tmp_path, mod_of(BEFORE), mod_of(wrong))
    assert found is not None
    assert "argument 2 (C) is wrong" in found


def test_the_layout_rewrite_is_a_function_of_its_own() -> None:
    module = codegen.build(with_separate_layout_rewrite(mod_of(AFTER)), TARGET)
    weight = np.arange(256, dtype="float32").reshape(16, 16)
    rewritten = np.zeros((16, 4, 4), "float32")
    module[rewritten_parameter(1)](weight, rewritten)
    assert np.array_equal(rewritten, weight.T.reshape(16, 4, 4))


def test_a_build_function_gets_the_program_as_it_is_measured(tmp_path: Path) -> None:
    given: list[str] = []

    def build(mod: IRModule, target: Target, params: object) -> codegen.Module:
        given.extend(mod.functions)
        return codegen.build(mod, target)

    build_and_export(mod_of(AFTER), TARGET, None, build, None, str(tmp_path))
    assert given == ["main", rewritten_parameter(1)]


@pytest.mark.parametrize(("text", "data"), [(INT8_DOT, True), (GATHER, False), (DENSE_RELU, True)])
def test_integers_that_index_are_not_data(text: str, data: bool) -> None:
    assert ProgramFacts.of(mod_of(text)).integers_are_data == data


def test_longer_sums_may_be_off_by_more() -> None:
    short, long = (ProgramFacts.of(mod_of(text)).rounding for text in (VARIANCE, DENSE_RELU))
    assert short == 8 * 2**-24 * 4
    assert long == 8 * 2**-24 * (300 + 16) ** 0.5


DATA = ProgramFacts(integers_are_data=True)
DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int64", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
def test_arguments_of_every_dtype(dtype: str) -> None:
    info = TensorInfo(dtype, (30, 50))
    (array,), (again,) = (random_arrays([info], 0, DATA, signed=True) for _ in range(2))
    expected = Expected.of(array, again, DataType(dtype), 1e-6, is_exact=False)
    assert difference(again, DataType(dtype), expected) is None
    if dtype in ("float32", "float64"):
        assert difference(again * (1 + 5e-7), DataType(dtype), expected) is None, "rounded"
    again[2, 1] = ~again[2, 1] if dtype == "bool" else again[2, 1] + 1
    assert "first at [2, 1]" in str(difference(again, DataType(dtype), expected))


def test_arguments_have_both_signs_zeros_and_extremes() -> None:
    kinds = [TensorInfo(dtype, (1000,)) for dtype in ("float32", "int8", "uint8", "int16")]
    floats, *integers = random_arrays(kinds, 0, DATA, signed=True)
    assert floats.min() < -7
    assert floats.max() > 7
    assert 20 < (floats == 0).sum() < 150
    for array in integers:
        limits = np.iinfo(array.dtype)
        assert (array.min(), array.max()) == (limits.min, limits.max)


def test_elements_that_are_not_written_do_not_make_the_check_stricter() -> None:
    """Of the elements [1, 1, 1, 1, 100, 1], the last two are results."""
    before = np.ones(6)
    first = np.array([1, 1, 1, 1, 100, 1.001])
    again = first.copy()
    again[5] += 4e-4

    def accepted(initial: np.ndarray | None) -> bool:
        made = Expected.of(first, first, DataType("float64"), 1e-5, True, initial)
        return difference(again, DataType("float64"), made) is None

    assert accepted(before)
    assert not accepted(None)
