"""The dialect of scripts, as text and as decorated functions."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest

from tensorir import DiagnosticError, I, T, assert_structural_equal, parse
from tensorir.function import PrimFunc
from tests.text_cases import TextCase, each_case

# ------------- Every form of the dialect parses, and prints to text that parses to the same program

HEADER = (
    "@T.prim_func\n"
    'def f(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), '
    "n: T.int32, p: T.handle):\n"
)


@each_case(Path(__file__).with_name("forms.txt"))
def test_round_trip(case: TextCase, pytestconfig: pytest.Config) -> None:
    func = parse(HEADER + textwrap.indent(case.before, "    "), check_well_formed=False)
    text = func.script()
    assert_structural_equal(parse(text, check_well_formed=False), func)
    case.check(textwrap.dedent(text.partition("T.handle):\n")[2]), pytestconfig)


# ------------------------------------------------------------------------------------------ macros

WIDTH = 4


@T.macro
def fill(buffer, value):
    for i in range(WIDTH):
        buffer[0, i] = value


@T.macro(hygienic=False)
def fill_row(value):
    A[row, 0] = value  # noqa: F821


def test_a_hygienic_macro_does_not() -> None:
    with pytest.raises(DiagnosticError, match="Undefined variable: row"):
        parse(
            """
@T.macro
def fill(buffer):
    buffer[row, 0] = T.float32(1)

@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    for row in range(8):
        fill(A)
"""
        )


def test_macros_in_text() -> None:
    func = parse(
        """
@T.macro(hygienic=False)
def twice(value=T.float32(2)):
    A[i, 0] = value
    A[i, 1] = value

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32")):
        for i in range(8):
            twice()
"""
    )
    assert func["main"].script().count("= T.float32(2.0)") == 2


LANES = 4


@T.macro(hygienic=False)
def fill_lanes(buffer, first, lanes=LANES):
    buffer[row, first] = T.float32(lanes)  # noqa: F821


def test_defaults_of_macros_mean_what_they_did_at_the_definition() -> None:
    """Neither the names of the caller nor other parameters are seen."""

    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32")):
        LANES = 16  # noqa: F841
        for row in range(8):  # noqa: B007
            fill_lanes(A, 0)

    assert isinstance(main, PrimFunc)
    assert "A[row, 0] = T.float32(4.0)" in main.script()
    with pytest.raises(DiagnosticError, match="Undefined variable: first"):
        parse(
            """
@T.macro
def fill(buffer, first, second=first):
    buffer[0, first] = second

@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    fill(A, 1)
"""
        )


def test_a_macro_is_no_value() -> None:
    with pytest.raises(DiagnosticError, match=r"cannot use a MacroCall .*<call of macro fill>"):
        parse(
            """
@T.macro
def fill(buffer):
    buffer[0, 0] = T.float32(1)

@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    A[0, 1] = fill(A)
"""
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fill(A)", "missing a required argument: 'v'"),
        ("fill(A, 1.0, 2.0)", "too many positional arguments"),
    ],
)
def test_arguments_of_macros_are_checked(call: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        parse(
            f"""
@T.macro
def fill(b, v):
    b[0, 0] = v

@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    {call}
"""
        )


# ---------- Functions, modules and macros that are Python: what they see of the program around them


class Copied:
    """A copy of a buffer, made by macros: Python code allocates the memory for it."""

    def __init__(self, source) -> None:
        self.local = T.alloc_buffer(source.shape, source.dtype)

    @T.macro
    def load(self, source) -> None:
        N, M = T.meta_var(self.local.shape)
        for i, j in T.grid(N, M):
            with T.block("load"):
                vi, vj = T.axis.remap("SS", [i, j])
                self.local[vi, vj] = source[vi, vj]


def test_objects_of_plain_classes_own_buffers_and_macros() -> None:
    @T.prim_func
    def main(A: T.Buffer((4, 6), "float32")):
        first = T.meta_var(Copied(A))
        first.load(A)
        second = T.meta_var(Copied(A))
        second.load(first.local)

    expected = parse(
        """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32")):
    one = T.alloc_buffer((4, 6))
    two = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("load"):
            vi, vj = T.axis.remap("SS", [i, j])
            one[vi, vj] = A[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("load"):
            vi, vj = T.axis.remap("SS", [i, j])
            two[vi, vj] = one[vi, vj]
"""
    )
    assert_structural_equal(main, expected)
    assert_structural_equal(parse(main.script()), expected)


def test_python_code_allocates_nothing_in_a_loop() -> None:
    with pytest.raises(DiagnosticError, match="called at the top of a function or block"):

        @T.prim_func
        def main(A: T.Buffer((4, 6), "float32")):
            for _ in range(4):
                inner = T.meta_var(Copied(A))
                inner.load(A)


def test_macros_of_a_module() -> None:
    @I.ir_module
    class Module:
        @T.macro
        def set_first(buffer):
            buffer[0] = T.float32(2)

        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            set_first(A)  # noqa: F821

    assert "A[0] = T.float32(2.0)" in Module.script()


def test_numbers_of_numpy_keep_their_type() -> None:
    step, scale = np.int64(3), np.float64(0.1)

    @T.prim_func
    def main(A: T.Buffer((8,), "float64"), n: T.int64):
        A[n + step] = A[step] * scale

    text = main.script()
    assert "A[n + T.int64(3)] = A[T.int64(3)] * T.float64(0.1)" in text


def test_errors_show_the_line_of_the_file() -> None:
    with pytest.raises(DiagnosticError) as caught:

        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            A[0] = missing  # noqa: F821

    error = caught.value
    assert error.filename == __file__
    with open(__file__, encoding="utf-8") as file:
        line = file.read().split("\n")[error.line - 1]
    assert line == error.source_line
    assert line[error.column - 1 : error.end_column - 1] == "missing"


def test_errors_of_helpers_show_the_call() -> None:
    def helper(n):
        raise LookupError(f"nothing is known of {n}")

    with pytest.raises(DiagnosticError, match="nothing is known of n") as caught:

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), n: T.int32):
            A[0] = helper(n)

    assert isinstance(caught.value.__cause__, LookupError)
    assert "helper(n)" in caught.value.source_line
