"""Random programs compute the same before and after each pass, and as machine code.

`python -m benchmarks.fuzz lowering` runs more of these. Programs that once failed are kept here.
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


@pytest.mark.parametrize("first", range(0, 40, 10))
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


def once_failed(text: str, **sizes: int) -> Case:
    return Case(f"@T.prim_func\ndef main({text}", sizes, data=1)


ONCE_FAILED = {
    "a load in a select, whose index is in bounds by another reason than the condition": once_failed(
        """A0: T.Buffer((4, 5), "int64"), B0: T.Buffer((6, 4), "int64")):
    for i, j in T.grid(6, 4):
        B0[i, j] = T.Select(i <= 1, A0[j, i % 5], T.int64(1)) // T.int64(-1)
"""
    ),
    "the lowest number divided by a negative one": once_failed(
        """A0: T.Buffer((1,), "int32"), n: T.int32):
    for i in range(n):
        A0[i] = T.if_then_else(i <= 0, -2147483648, 0) // -2
""",
        n=1,
    ),
    "a float of index arithmetic beyond 32 bits": once_failed(
        """B0: T.Buffer((1,), "float32")):
    for i in range(3):
        B0[0] = T.Cast("float32", i * -2147483647)
"""
    ),
    "an attribute that differs between lanes": once_failed(
        """A: T.Buffer((2, 1), "float32"), N: T.Buffer((1,), "int32")):
    for i in T.vectorized(2):
        T.attr(N.data, "inner", i)
        A[i, 0] = T.float32(1)
"""
    ),
    "a symbol of expressions in a shape that comes before its definition": once_failed(
        """b0: T.handle):
    n = T.int32()
    B0 = T.match_buffer(b0, ((n + 1) // 2, n, 1), "int32")
    for i in range(n // 2):
        B0[i, i, 0] = 1
""",
        n=4,
    ),
    "an index of a narrow type in a region": once_failed(
        """A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    with T.block("outer"):
        v = T.axis.spatial(4, 0)
        for j in range(4):
            B[v, j] = A[j, T.Min(T.uint8(1), T.uint8(1))]
"""
    ),
    "a shift and a remainder by large powers of two": once_failed(
        """B: T.Buffer((2,), "int32")):
    for i in range(2):
        x = T.int64()
        B[i] = T.shift_right(T.Let(0, where={x: T.int64(-1)}), 31) % 16
"""
    ),
    "a product that is too large wherever it is computed": once_failed(
        """b: T.handle):
    n = T.int32()
    B = T.match_buffer(b, (n,), "int32")
    for i in range(n):
        B[i] = (7 + i) * -2147483648
""",
        n=0,
    ),
    "an index that overflows before it is shifted": once_failed(
        """B: T.Buffer((2,), "int32")):
    for i in range(2):
        B[i] = T.shift_right(-2147483647 + (-1 - i), 1)
"""
    ),
    "fmod of a constant NaN": once_failed(
        """B: T.Buffer((2,), "float64")):
    for i in range(2):
        B[i] = T.fmod(T.Cast("float64", i), T.float64("nan"))
"""
    ),
    "a comparison with the greatest value of a type": once_failed(
        """b: T.handle):
    m = T.int32()
    B = T.match_buffer(b, (m,), "int64")
    for i in range(m):
        B[i] = T.Select(T.int64(9223372036854775807) < T.Cast("int64", i), T.int64(1), T.int64(2))
""",
        m=3,
    ),
    "the least value of a type is added": once_failed(
        """B: T.Buffer((2,), "int32")):
    for i in range(2):
        B[i] = i + -2147483648
"""
    ),
    "a store behind a condition on an extent": once_failed(
        """b: T.handle):
    n = T.int32()
    B = T.match_buffer(b, (n,), "uint32")
    if n > 0:
        B[n - 1] = T.uint32(1)
    for i in range(n):
        B[i] = T.uint32(2)
""",
        n=0,
    ),
    "a store for an empty array": once_failed(
        """a: T.handle, B: T.Buffer((2, 1), "int8")):
    n = T.int32()
    A = T.match_buffer(a, (1, n), "int8")
    if n == 0:
        B[1, 0] = T.int8(0)
    for i in range(n):
        A[0, i] = T.int8(1)
""",
        n=0,
    ),
    "a value that lives across iterations": once_failed(
        """B: T.Buffer((2, 1), "float16")):
    K = T.alloc_buffer((1,), "float16")
    for t in range(2):
        with T.block("keep"):
            v = T.axis.spatial(1, 0)
            T.where(t == 0)
            K[v] = T.float16(1.0)
        B[t, 0] = K[0]
"""
    ),
    "memory that is written and never read": once_failed(
        """A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,))
    with T.block("outer"):
        for j in range(8):
            with T.block("inner"):
                v = T.axis.spatial(8, j)
                C[v] = A[v]
    for i in range(8):
        B[i] = A[i]
"""
    ),
    "an allocation as large as an axis says": once_failed(
        """b: T.handle):
    n = T.int32()
    B = T.match_buffer(b, (n, 4), "int32")
    for i in range(n):
        with T.block("outer"):
            v = T.axis.spatial(n, i)
            C = T.alloc_buffer((v + 4,), "int32")
            for j in range(v + 4):
                C[j] = j * 2
            for j in range(4):
                B[v, j] = C[v + j]
""",
        n=3,
    ),
    "variables of T.Let in lanes": once_failed(
        """B: T.Buffer((16,), "uint64")):
    for i in T.vectorized(16):
        x = T.int64()
        B[i] = T.Let(T.Cast("uint64", x * x), where={x: T.Cast("int64", i)})
"""
    ),
    "variables of T.Let in copies of a loop's body": once_failed(
        """A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
    for i, j in T.grid(2, 2):
        x = T.float32()
        B[j] = B[j] + T.Let(x * x, where={x: A[i]})
"""
    ),
    "the smallest value of a type is subtracted": once_failed(
        """A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "bool")):
    for i in range(4):
        B[i] = A[i] + T.int8(-128) < T.int8(0)
"""
    ),
    "a product of constants that wraps": once_failed(
        """B: T.Buffer((1,), "int32")):
    B[0] = T.Mul(-2147483647, 2147483647)
"""
    ),
    "constants of narrow types in copies of a loop's body": once_failed(
        """B: T.Buffer((2,), "int16")):
    for j in T.unroll(2):
        B[j] = T.Cast("int16", j) + T.int16(1)
"""
    ),
    "a narrowing cast of a remainder": once_failed(
        """A: T.Buffer((1,), "int8"), B: T.Buffer((129,), "int8")):
    for i in range(129):
        B[i] = T.Cast("int8", i % 17) % T.bitwise_or(A[0], T.int8(1))
"""
    ),
    "the smaller one of an index and a negative number": once_failed(
        """b: T.handle):
    n = T.int32()
    B = T.match_buffer(b, (n, 1), "int16")
    for i in range(n):
        B[i, 0] = T.min(T.Cast("int16", i), T.int16(-32767))
""",
        n=2,
    ),
    "a loop that is as long as the number of the one around it": once_failed(
        """B: T.Buffer((2,), "int32"), C: T.Buffer((2,), "int32")):
    for i in range(2):
        B[i] = 1
        for k in range(i):
            C[i] = k
"""
    ),
    "a comparison with a constant near the end of a type": once_failed(
        """A: T.Buffer((1,), "int16"), B: T.Buffer((1,), "int32")):
    A[0] = T.int16(32767)
    if T.int16(-2) > A[0]:
        B[0] = 1
"""
    ),
    "zeros of both signs": once_failed(
        """B: T.Buffer((2,), "float32")):
    B[0] = T.float32(0.0)
    B[1] = T.float32(-0.0)
"""
    ),
    "the larger one of a number and NaN": once_failed(
        """B: T.Buffer((2,), "float32")):
    B[0] = T.min(T.float32(1.0), T.fmod(T.float32(1.0), T.float32(0.0)))
    B[1] = T.max(T.fmod(T.float32(1.0), T.float32(0.0)), T.float32(1.0))
"""
    ),
    "a negative number as an unsigned one": once_failed(
        """B: T.Buffer((5,), "uint64")):
    for i in range(5):
        B[i] = T.Cast("uint64", T.float32(2.5) - T.Cast("float32", i))
"""
    ),
    "an empty array with strides": once_failed(
        """a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 1), "uint8", strides=(3, 1), elem_offset=4)
    B = T.match_buffer(b, (n, 1), "uint8")
    for i in range(n):
        B[i, 0] = A[i, 0]
""",
        n=0,
    ),
    "a value that is a constant at the end of its type beside an index": once_failed(
        """s: T.int32, B: T.Buffer((8,), "int32")):
    for i in range(4):
        B[i] = (T.min(s, -2147483648) + (i - 2)) // 2
        B[i + 4] = (T.Select(s < s, i, -2147483648) + (i - 2)) // 2
"""
    ),
    "a region with indices that are loaded": once_failed(
        """B: T.Buffer((1, 1), "uint64")):
    C = T.alloc_buffer((1,), "uint32")
    D = T.alloc_buffer((1,), "uint8")
    C[0] = T.uint32(7)
    D[0] = T.uint8(0)
    with T.block("outer"):
        v = T.axis.spatial(1, 0)
        B[v, 0] = T.Cast("uint64", C[D[0]]) + T.Cast("uint64", C[0]) + T.Cast("uint64", C[v])
"""
    ),
}


@pytest.mark.parametrize("name", ONCE_FAILED)
def test_a_program_that_once_failed(name: str) -> None:
    ONCE_FAILED[name].check()


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
