"""Functions, modules and macros that are Python: what they see of the program around them."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import DiagnosticError, I, T, assert_structural_equal, parse
from tensorir.function import IRModule, PrimFunc
from tensorir.script import ir_module, prim_func


def test_a_module_inside_a_function_whose_functions_call_each_other() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def next(n: T.int32) -> T.int32:
            return n + 1

        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            A[0] = Module.next(A[1])

    assert isinstance(Module, IRModule)
    assert "A[0] = Module.next(A[1])" in Module.script()


def test_decorators_without_their_namespace() -> None:
    @prim_func
    def main(A: T.Buffer((4,), "float32")):
        A[0] = 1.0

    @ir_module
    class Module:
        @prim_func
        def main(A: T.Buffer((4,), "float32")):
            A[0] = 1.0

    assert isinstance(main, PrimFunc)
    assert_structural_equal(Module["main"], main)


def test_helpers_return_several_values() -> None:
    def halves(value):
        return T.meta_var((value // 2, value % 2))

    def ends(*values):
        return T.meta_var([values[0], values[-1]])

    @T.prim_func
    def main(A: T.Buffer((8, 2), "float32"), n: T.int32):
        high, low = halves(n)
        first, *rest = ends(high, low)
        both = halves(n)
        A[high, low] = 1.0
        A[first, rest[0]] = 2.0
        A[both[0], both[1]] = 3.0

    assert_structural_equal(
        main,
        parse("""
@T.prim_func
def main(A: T.Buffer((8, 2), "float32"), n: T.int32):
    A[n // 2, n % 2] = 1.0
    A[n // 2, n % 2] = 2.0
    A[n // 2, n % 2] = 3.0
"""),
    )


def test_captured_tuples_are_spread() -> None:
    extents, where = (4, 2), [1, 0]

    @T.prim_func
    def main(A: T.Buffer(extents, "float32"), B: T.Buffer((*extents, 3), "float32")):
        for i, j in T.grid(*extents):
            A[i, j] = B[*where, 2]

    assert_structural_equal(
        main,
        parse("""
@T.prim_func
def main(A: T.Buffer((4, 2), "float32"), B: T.Buffer((4, 2, 3), "float32")):
    for i, j in T.grid(4, 2):
        A[i, j] = B[1, 0, 2]
"""),
    )


class Scaled:
    """Macros of an object, which see what it holds."""

    def __init__(self, factor: float) -> None:
        self.factor = T.float32(factor)

    @T.macro
    def fill(self, buffer, at):
        buffer[at] = self.factor

    @T.macro(hygienic=False)
    def fill_here(self, buffer):
        buffer[at] = self.factor  # noqa: F821


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
    with pytest.raises(DiagnosticError, match="called directly in a function or block"):

        @T.prim_func
        def main(A: T.Buffer((4, 6), "float32")):
            for _ in range(4):
                inner = T.meta_var(Copied(A))
                inner.load(A)


def test_macros_are_methods() -> None:
    two, three = Scaled(2.0), Scaled(3.0)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        two.fill(A, 1)
        for at in range(8):  # noqa: B007
            three.fill_here(A)

    assert_structural_equal(
        main,
        parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    A[1] = T.float32(2)
    for at in range(8):
        A[at] = T.float32(3)
"""),
    )


def test_macros_of_a_module() -> None:
    @I.ir_module
    class Module:
        @T.macro
        def fill(buffer):
            buffer[0] = T.float32(2)

        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            fill(A)  # noqa: F821

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
