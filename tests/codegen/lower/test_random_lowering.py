"""Random programs compute the same before and after each pass, and as machine code.

`python -m benchmarks.fuzz lowering` runs more of these. `programs.txt` has those that failed.
"""

from __future__ import annotations

import pytest

from benchmarks.fuzz.campaign import Failure
from benchmarks.fuzz.lowering import MOST_INSTANCES, random_case
from benchmarks.fuzz.lowering_steps import Case, IllDefined, LoweringFault
from benchmarks.fuzz.random_programs import random_program
from benchmarks.fuzz.schedules import instances
from benchmarks.fuzz.shrink_program import shrunk
from tensorir import parse, structural_equal
from tensorir.errors import DiagnosticError


@pytest.mark.parametrize("first", [0])
def test_random_programs(first: int) -> None:
    checked = 0
    for seed in range(first, first + 10):
        try:
            case = random_case(seed)
            if instances(case.module()["main"].body) <= MOST_INSTANCES:
                case.check()
                checked += 1
        except LoweringFault:
            raise
        except (DiagnosticError, Failure, IllDefined):
            continue
    assert checked >= 6


# --------------------------------------------------------------------------- what the fuzzer makes


def test_a_seed_means_one_program() -> None:
    assert random_program(3) == random_program(3)
    assert random_program(3) != random_program(4)


def test_programs_print_as_they_are_read() -> None:
    for seed in range(1000, 1030):
        program = parse(random_program(seed).text)
        assert structural_equal(parse(program.script()), program)


FORMS = (
    *("n = T.int32()", "tir.noalias", "s: T.", "strides=(", '"bfloat16"', '"uint8"', '("nan")'),
    *("T.Cast(", "T.int32(2147483647)", "T.truncdiv(", "T.shift_left(", "T.Let(", ">= 0, "),
    *("T.fmod(", "offset_factor=1", "Module.", "while ", 'T.block("keep', 'T.block("outer'),
    *("T.vectorized(", "T.where(", "else:", "in range(1, ", "in range(T.cast("),
    *("T.call_packed(", "T.ret("),
)
"""Texts of which some random programs have each."""


def test_every_form_occurs() -> None:
    texts = [random_program(seed).text for seed in range(200)]
    assert not [form for form in FORMS if not any(form in text for text in texts)]


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
