"""Random programs compute the same before and after each pass, and as machine code.

`python -m benchmarks.fuzz_lowering` runs more of these. Programs that once failed are kept here.
"""

from __future__ import annotations

import pytest

from benchmarks.fuzz_lowering import MOST_INSTANCES, Options, random_case
from benchmarks.lowering_cases import Case, IllDefined
from benchmarks.random_schedules import Failure, instances
from benchmarks.random_tensor_programs import FEATURES, random_program
from benchmarks.shrink_program import shrunk
from tensorir import parse, structural_equal
from tensorir.errors import DiagnosticError

OPTIONS = Options()


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_random_programs(first: int) -> None:
    checked = 0
    for seed in range(first, first + 10):
        try:
            case = random_case(seed, OPTIONS)
            if instances(case.module()["main"].body) <= MOST_INSTANCES:
                case.check(tolerated=OPTIONS.tolerated)
                checked += 1
        except (DiagnosticError, Failure, IllDefined):
            continue
    assert checked >= 6


# --------------------------------------------------------------------------- what the fuzzer makes


def test_a_seed_means_one_program() -> None:
    assert random_program(3) == random_program(3)
    assert random_program(3) != random_program(4)


def test_programs_print_as_they_are_read() -> None:
    for seed in range(1000, 1030):
        program = parse(random_program(seed, frozenset({"division", "shift", "float"})).text)
        assert structural_equal(parse(program.script()), program)


FORMS = {
    "symbols": "n = T.int32()",
    "half": '"bfloat16"',
    "narrow": '"uint8"',
    "nan": '("nan")',
    "cast": "T.Cast(",
    "extremes": "T.int32(2147483647)",
    "division": "T.truncdiv(",
    "shift": "T.shift_left(",
    "let": "T.Let(",
    "guard": ">= 0, ",
    "float remainder": "T.fmod(",
    "strides": "strides=(",
    "view": "offset_factor=1",
    "call": "Module.helper",
    "while": "while ",
    "scalar": "s: T.",
    "across": 'T.block("keep',
    "nested": 'T.block("outer',
    "kinds": "T.vectorized(",
    "where": "T.where(",
    "conditional": "else:",
    "noalias": "tir.noalias",
    "bounds": "in range(1, ",
    "narrow loop": "in range(T.cast(",
    "library": "T.call_packed(",
    "exit": "T.ret(",
}
"""Text that programs with a feature have."""


@pytest.mark.parametrize("feature", FORMS)
def test_features_can_be_left_out(feature: str) -> None:
    seeds = range(150)
    assert any(FORMS[feature] in random_program(seed).text for seed in seeds)
    if feature not in ("nan", "cast", "where"):
        left_out = (random_program(seed, frozenset({feature})).text for seed in seeds)
        assert not any(FORMS[feature] in text for text in left_out)


def test_every_feature_is_known() -> None:
    without_a_form = {"float", "gather", "wide shift", "empty", "reading init"}
    without_a_form |= {"C names", "negative strides"}
    assert without_a_form | set(FORMS) == set(FEATURES)


def test_parameters_of_random_programs_may_run_backwards() -> None:
    sizes = [random_program(seed).sizes for seed in range(150)]
    assert any(n < 0 for found in sizes for n in found.values())


def test_a_failing_program_is_made_small() -> None:
    case = Case(
        """
        @T.prim_func
        def main(a: T.handle, B: T.Buffer((16, 4), "int32"), D: T.Buffer((8,), "float32")):
            n = T.int32()
            A = T.match_buffer(a, (n, 4), "int32", strides=(9, 2))
            C = T.alloc_buffer((8,))
            for i in range(8):
                with T.block("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = T.Cast("float32", vi) * T.float32(3)
            for i, j in T.grid(4, 4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.where(i * 4 + j < 15)
                    B[vi * 4 + vj, vj] = T.if_then_else(n > 2, A[1, vj], 5) // 7 + vi * 3
            if n > 1:
                for i in T.parallel(8):
                    D[i] = C[i] + T.float32(1)
        """,
        {"n": 5},
    )
    small = shrunk(case, lambda tried: "] // 7" in tried.text, attempts=2000)
    assert (
        small.text
        == """\
@T.prim_func
def main(a: T.handle, B: T.Buffer((1, 1), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (n, 1), "int32")
    with T.block("root"):
        B[0, 0] = A[1, 0] // 7
"""
    )
    assert small.sizes == {"n": 0}
