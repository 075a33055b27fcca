"""Machine code that calls library functions, which are Python's."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import codegen
import tensorir
from codegen.errors import CodegenError, LibraryFunctionError, LinkError
from schedule import Schedule
from tensorir.errors import IRTypeError
from tensorir.interp import InterpreterError, interpret

Register = Any


@pytest.fixture
def register() -> Iterator[Register]:
    """Registers functions for one test."""
    names: list[str] = []

    def enter(name: str, function: Any) -> Any:
        names.append(name)
        return codegen.register_func(name, function, override=True)

    yield enter
    for name in dict.fromkeys(names):
        codegen.remove_global_func(name)


def build(text: str, target: str | None = None) -> codegen.Module:
    return codegen.build(tensorir.parse(text), target)


def run_both(text: str, *args: Any) -> list[Any]:
    """Interpret a function and run it compiled; return the arguments afterwards, which agree."""
    runs = []
    for run in (build(text), lambda *values: interpret(tensorir.parse(text), *values)):
        values = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        run(*values)
        runs.append(values)
    for compiled, interpreted in zip(*runs, strict=True):
        np.testing.assert_array_equal(compiled, interpreted)
    return runs[0]


# -------------------------------------------------------------------------------------- arguments

RELU = """
@T.prim_func
def relu(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
    T.func_attr({"global_symbol": "relu", "tir.noalias": True})
    T.evaluate(T.call_packed("test.relu", A, B))
"""


def relu(x: np.ndarray, out: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return np.maximum(np.from_dlpack(x), 0, out=np.from_dlpack(out))


def test_numbers_and_strings_are_pythons(register: Register) -> None:
    seen: list[Any] = []
    register("test.see", lambda *args: seen.append(args))
    text = """
@T.prim_func
def f(A: T.Buffer((2,), "float32"), n: T.int8, u: T.uint64, x: T.float16, y: T.float64, b: T.bool):
    T.evaluate(T.call_packed("test.see", A[1] * 2.0, n - T.int8(1), u, x, y, b, n > 0, "text", 7, True))
"""
    run_both(text, np.array([0, 1.25], np.float32), -5, 2**64 - 1, 0.5, 0.1, True)
    expected = (2.5, -6, 2**64 - 1, 0.5, 0.1, True, False, "text", 7, True)
    assert seen == [expected, expected]
    assert [type(value) for value in seen[0]] == [type(value) for value in expected]


def test_dtypes_of_arrays(register: Register) -> None:
    seen: list[Any] = []
    register("test.see", lambda *arrays: seen.append([(a.dtype.name, a.tolist()) for a in arrays]))
    text = """
@T.prim_func
def f(A: T.Buffer((2,), "bfloat16"), B: T.Buffer((2,), "bool"), C: T.Buffer((), "int64"), D: T.Buffer((1, 0), "float16")):
    T.evaluate(T.call_packed("test.see", A, B, C, D))
"""
    run_both(
        text,
        np.array([0x3F80, 0x4000], np.uint16),
        np.array([True, False]),
        np.array(-3, np.int64),
        np.empty((1, 0), np.float16),
    )
    expected = [
        ("uint16", [0x3F80, 0x4000]),
        ("bool", [True, False]),
        ("int64", -3),
        ("float16", [[]]),
    ]
    assert seen == [expected, expected]


def test_arrays_of_vectors_have_the_lanes_last(register: Register) -> None:
    register("test.negate", lambda x: np.negative(x, out=x))
    f = build(
        """
@T.prim_func
def f(A: T.Buffer((2,), "float32x4")):
    T.evaluate(T.call_packed("test.negate", A))
"""
    )
    a = np.arange(8, dtype=np.float32).reshape(2, 4)
    f(a)
    assert a.tolist() == [[0, -1, -2, -3], [-4, -5, -6, -7]]


def test_symbolic_shapes_strides_and_offsets(register: Register) -> None:
    def fill(x: np.ndarray, n: int) -> None:  # type: ignore[type-arg]
        assert x.shape == (2, n)
        x[...] = [[1], [2]]

    register("test.fill", fill)
    text = """
@T.prim_func
def f(a: T.handle):
    n, stride = T.int64(), T.int32()
    A = T.match_buffer(a, (2, n), "int16", strides=(stride, 2))
    T.evaluate(T.call_packed("test.fill", A, n))
"""
    memory = np.zeros((2, 8), np.int16)
    build(text)(memory[:, :6:2])
    assert memory.tolist() == [[1, 0, 1, 0, 1, 0, 0, 0], [2, 0, 2, 0, 2, 0, 0, 0]]


@pytest.mark.parametrize(
    "view",
    [
        "V = T.match_buffer(A[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4], (2, 4), strides=[s, 1])",
        "V = T.match_buffer(A[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4], (2, 4), strides=[s, 1], offset_factor=1)",
    ],
)
def test_parts_of_buffers(register: Register, view: str) -> None:
    def fill(x: np.ndarray, number: int) -> None:  # type: ignore[type-arg]
        x[...] = number

    register("test.fill", fill)
    text = f"""
@T.prim_func
def f(A: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(2, 2):
        with T.block("part"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(A[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4])
            s = T.int32()
            {view}
            T.evaluate(T.call_packed("test.fill", V, vi * 10 + vj))
"""
    (a,) = run_both(text, np.zeros((4, 8), np.float32))
    assert np.array_equal(a, np.kron([[0, 1], [10, 11]], np.ones((2, 4))))


@pytest.mark.parametrize("offset", ["", ", offset_factor=1"])
def test_parts_of_parts(register: Register, offset: str) -> None:
    seen: list[Any] = []
    register("test.see", lambda x: seen.append(x.tolist()))
    text = f"""
@T.prim_func
def f(A: T.Buffer((4, 4), "int32")):
    for i in range(2):
        with T.block("rows"):
            vi = T.axis.spatial(2, i)
            T.reads(A[vi * 2:vi * 2 + 2, 0:4])
            T.writes()
            V = T.match_buffer(A[vi * 2:vi * 2 + 2, 0:4], (2, 4), "int32")
            with T.block("row"):
                T.reads(V[1, 1:3])
                T.writes()
                W = T.match_buffer(V[1, 1:3], (2,), "int32"{offset})
                T.evaluate(T.call_packed("test.see", W))
"""
    run_both(text, np.arange(16, dtype=np.int32).reshape(4, 4))
    assert seen == [[5, 6], [13, 14]] * 2


def test_buffers_of_the_program_keep_their_layout(register: Register) -> None:
    """Also where each iteration needs only a row, and where the schedule asks for padding."""

    def add_to(x: np.ndarray, number: int) -> None:  # type: ignore[type-arg]
        assert x.shape == (4, 8)
        x += number

    register("test.add", add_to)
    text = """
@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            C = T.alloc_buffer((4, 8), "float32")
            for j in range(8):
                with T.block("copy"):
                    vj = T.axis.spatial(8, j)
                    T.block_attr({"buffer_dim_align": [[0, 0, 32, 4]]})
                    C[vi, vj] = A[vi, vj] * 2.0
            with T.block("call"):
                T.reads(C[0:4, 0:8])
                T.writes(C[0:4, 0:8])
                T.evaluate(T.call_packed("test.add", C, 3))
            for j in range(8):
                with T.block("back"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = C[vi, vj]
"""
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    _, b = run_both(text, a, np.zeros_like(a))
    assert np.array_equal(b, a * 2 + 3)


def test_memory_is_current_at_each_call(register: Register) -> None:
    seen: list[float] = []

    def peek(x: np.ndarray) -> None:  # type: ignore[type-arg]
        seen.append(float(x[0]))
        x[0] += 100

    register("test.peek", peek)
    text = """
@T.prim_func
def f(A: T.Buffer((2,), "float32"), C: T.Buffer((1,), "float32")):
    T.func_attr({"global_symbol": "f", "tir.noalias": True})
    for i in range(2):
        C[0] = C[0] + A[i]
        T.evaluate(T.call_packed("test.peek", C))
        C[0] = C[0] + A[i]
"""
    _, c = run_both(text, np.array([1, 2], np.float32), np.zeros(1, np.float32))
    assert c[0] == 206
    assert seen == [1, 104] * 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("A.data", r"argument 1: a pointer has no shape; pass the buffer, A instead of A\.data"),
        ("1, A[0:4]", r"argument 2: .* is a vector; pass a buffer or a scalar"),
    ],
)
def test_what_cannot_be_passed(call: str, message: str) -> None:
    with pytest.raises(CodegenError, match=rf"T\.call_packed\('test\.f'\), {message}"):
        build(
            f"""
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    T.evaluate(T.call_packed("test.f", {call}))
"""
        )


def test_memory_of_another_type_is_refused(register: Register) -> None:
    register("test.relu", relu)
    sch = Schedule(
        tensorir.parse(
            """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    with T.block("call"):
        T.reads(B[0:4])
        T.writes(C[0:4])
        T.evaluate(T.call_packed("test.relu", B, C))
"""
        )
    )
    codegen.build(sch.mod)
    sch.unsafe_set_dtype("B", 0, "float16")
    message = "argument 1: an array of float32 cannot be in memory of float16"
    with pytest.raises(CodegenError, match=message):
        codegen.build(sch.mod)
    with pytest.raises(IRTypeError, match=message):
        interpret(sch.mod, np.zeros(4, np.float32), np.zeros(4, np.float32))


def test_packed_functions_of_c_are_refused() -> None:
    with pytest.raises(CodegenError, match=r"T\.call_cpacked calls a C function of TVM"):
        build(
            """
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    T.evaluate(T.call_cpacked("test.f", A))
"""
        )


# ---------------------------------------------------------------------------------------- results

RESULT = """
@T.prim_func
def f(A: T.Buffer((1,), "int32"), n: T.int32):
    A[0] = T.call_packed("test.result", n) + 1
"""


@pytest.mark.parametrize(
    ("given", "result"), [(41, 41), (None, 0), (True, 1), (np.int64(-7), -7), (-(2**31), -(2**31))]
)
def test_results_are_int32(register: Register, given: Any, result: int) -> None:
    register("test.result", lambda n: given)
    (a, _) = run_both(RESULT, np.zeros(1, np.int32), 0)
    assert a[0] == result + 1


def test_results_of_another_kind_are_refused_where_they_are_used(register: Register) -> None:
    register("test.result", lambda n: 1.5)
    message = "uses the result as an int32, got float"
    with pytest.raises(LibraryFunctionError, match=message):
        build(RESULT)(np.zeros(1, np.int32), 0)
    with pytest.raises(InterpreterError, match=r"uses the result of 'test\.result' as an int32"):
        interpret(tensorir.parse(RESULT), np.zeros(1, np.int32), 0)
    register("test.result", lambda n: 2**31)
    with pytest.raises(LibraryFunctionError, match="as an int32, which 2147483648 does not fit"):
        build(RESULT)(np.zeros(1, np.int32), 0)
    register("test.relu", relu)  # returns an array, which nobody uses
    build(RELU)(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))


# ----------------------------------------------------------------------------------------- errors


def raising(error: BaseException) -> Any:
    def raises(*args: object) -> None:
        raise error

    return raises


def test_errors_name_the_function_and_show_where_it_failed(register: Register) -> None:
    fails = [True]

    def picky(x: np.ndarray, out: np.ndarray) -> None:  # type: ignore[type-arg]
        if fails[0]:
            raise ZeroDivisionError("not today")
        relu(x, out)

    register("test.relu", picky)
    module = build(RELU)
    a, b = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    message = (
        r"^library function 'test\.relu'\(float32\[2, 3\], float32\[2, 3\]\) raised "
        r"ZeroDivisionError: not today$"
    )
    for _ in range(2):
        with pytest.raises(LibraryFunctionError, match=message) as caught:
            module(a, b)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        shown = "".join(traceback.format_exception(caught.value))
        assert 'raise ZeroDivisionError("not today")' in shown
    with pytest.raises(LibraryFunctionError, match=message):
        interpret(tensorir.parse(RELU), a, b)
    with pytest.raises(LibraryFunctionError, match=message):
        module.time_evaluator("relu", number=3)(a, b)
    fails[0] = False
    module(a, b)
    assert b.tolist() == a.tolist()


def test_functions_between_guard_pages_write_to_what_is_copied_back(register: Register) -> None:
    register("test.relu", relu)
    a, b = np.full((2, 3), 5, np.float32), np.zeros((2, 3), np.float32)
    codegen.build(tensorir.parse(RELU), guard_pages=True)(a, b)
    assert b.tolist() == a.tolist()


def test_what_follows_a_failed_call_does_not_run(register: Register) -> None:
    register("test.fails", raising(ValueError("stop")))
    text = """
@T.prim_func
def f(A: T.Buffer((20000,), "float32"), B: T.Buffer((20000,), "float32")):
    C = T.alloc_buffer((20000,), "float32")
    for i in range(20000):
        C[i] = A[i]
    B[0] = 1.0
    T.evaluate(T.call_packed("test.fails"))
    for i in range(20000):
        B[i] = C[i] + 1.0
"""
    b = np.zeros(20000, np.float32)
    with pytest.raises(LibraryFunctionError, match=r"'test\.fails'\(\) raised ValueError: stop"):
        build(text)(b.copy(), b)
    assert b[:2].tolist() == [1, 0]


def test_arrays_in_tracebacks_outlive_the_memory_of_the_program(register: Register) -> None:
    def fails(x: np.ndarray) -> None:  # type: ignore[type-arg]
        raise ValueError("look at x")

    register("test.fails", fails)
    text = """
@T.prim_func
def f(A: T.Buffer((1000000,), "float32")):
    B = T.alloc_buffer((1000000,), "float32")
    for i in range(1000000):
        B[i] = A[i]
    T.evaluate(T.call_packed("test.fails", B))
"""
    with pytest.raises(LibraryFunctionError) as caught:
        build(text)(np.arange(1_000_000, dtype=np.float32))
    assert caught.value.__cause__ is not None
    *_, (frame, _) = traceback.walk_tb(caught.value.__cause__.__traceback__)
    assert np.array_equal(frame.f_locals["x"], np.arange(1_000_000))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_interrupts_reach_the_caller_as_they_are(register: Register, error: BaseException) -> None:
    register("test.result", raising(error))
    with pytest.raises(type(error)) as caught:
        build(RESULT)(np.zeros(1, np.int32), 0)
    assert caught.value is error


# ------------------------------------------------------------------------------------------ names


def test_modules_keep_the_function_that_they_found(register: Register) -> None:
    register("test.result", lambda n: 1)
    module = build(RESULT)
    register("test.result", lambda n: 2)
    a = np.zeros(1, np.int32)
    module(a, 0)
    assert a[0] == 2
    pickle.loads(pickle.dumps(module))(a, 0)
    assert a[0] == 3


def test_code_for_another_process_is_resolved_there(register: Register) -> None:
    """Compiling needs no function, loading does."""
    data = codegen.compile_object(tensorir.parse(RESULT))
    with pytest.raises(LinkError, match=r"library function is not registered: 'test\.result'"):
        codegen.Module.from_object(data)
    register("test.result", lambda n: n)
    a = np.zeros(1, np.int32)
    codegen.Module.from_object(data)(a, 6)
    assert a[0] == 7


def test_libraries_cannot_carry_them(register: Register, tmp_path: Any) -> None:
    register("test.result", lambda n: n)
    with pytest.raises(CodegenError, match=r"calls library function\(s\) 'test\.result', which"):
        build(RESULT).export_library(tmp_path / "lib.so")
    assert not (tmp_path / "lib.so").exists()


def test_programs_without_codegen_cannot_be_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorir.interp.library_call.extension", lambda _: None)
    with pytest.raises(
        InterpreterError, match=r"'test\.result' is called, but no installed package"
    ):
        interpret(tensorir.parse(RESULT), np.zeros(1, np.int32), 0)


def test_undefined_memory_is_not_shown_to_library_functions(register: Register) -> None:
    register("test.see", lambda x: None)
    text = """
@T.prim_func
def f():
    A = T.alloc_buffer((4,), "float32")
    T.evaluate(T.call_packed("test.see", A))
"""
    interpret(tensorir.parse(text))
    with pytest.raises(InterpreterError, match="without refuse_undefined"):
        interpret(tensorir.parse(text), refuse_undefined=True)


# ---------------------------------------------------------------------------------------- threads


def test_parallel_loops_are_refused(register: Register) -> None:
    register("test.f", lambda x: None)
    text = """
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    for i in T.parallel(4):
        T.evaluate(T.call_packed("test.f", A))
"""
    with pytest.raises(CodegenError, match=r"library function 'test\.f' in a parallel loop, where"):
        build(text, "llvm --num-cores=2")
    build(text, "llvm --num-cores=1")(np.zeros(4, np.float32))  # the loop is serial there


def test_parallel_loops_are_refused_where_a_function_between_makes_the_call() -> None:
    module = tensorir.parse(
        """
@I.ir_module
class M:
    @T.prim_func
    def inner(A: T.Buffer((4,), "float32")):
        T.evaluate(T.call_packed("test.f", A))
    @T.prim_func
    def middle(A: T.Buffer((4,), "float32")):
        M.inner(A.data)
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.parallel(4):
            M.middle(A.data)
"""
    )
    message = r"calls middle, which calls library function 'test\.f', in a parallel loop"
    with pytest.raises(CodegenError, match=message):
        codegen.build(module, "llvm --num-cores=2")


def test_threads_may_call_one_module(register: Register) -> None:
    """Each gets its own results and its own errors."""

    def odd_ones_fail(n: int) -> int:
        if n % 2:
            raise ValueError(f"number {n}")
        return n

    register("test.result", odd_ones_fail)
    function = build(RESULT)["f"]
    wrong: list[str] = []

    def work(first: int) -> None:
        a = np.zeros(1, np.int32)
        for n in range(first, first + 500):
            try:
                function(a, n)
            except LibraryFunctionError as problem:
                if not (n % 2 and str(problem).endswith(f"raised ValueError: number {n}")):
                    wrong.append(f"{n}: {problem}")
            else:
                if n % 2 or a[0] != n + 1:
                    wrong.append(f"{n}: {a[0]}")

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ----------------------------------------------------------------------------------------- memory


def test_many_calls_take_no_memory(register: Register) -> None:
    def sometimes(n: int) -> int:
        if n % 100 == 0:
            raise ValueError("again")
        return n

    register("test.result", sometimes)
    register("test.relu", relu)
    result, both = build(RESULT)["f"], build(RELU)["relu"]
    a, x, y = np.zeros(1, np.int32), np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)

    def calls(count: int) -> None:
        again = both.prepare(x, y)
        for n in range(count):
            again()
            if n % 100 == 0:
                with pytest.raises(LibraryFunctionError):
                    result(a, n)

    calls(2_000)
    gc.collect()
    before = sys.getallocatedblocks()
    calls(20_000)
    gc.collect()
    assert sys.getallocatedblocks() - before < 150


def test_modules_that_are_gone_let_functions_go(register: Register) -> None:
    class Callable:
        def __call__(self, n: int) -> int:
            return n

    function = Callable()
    alive = weakref.ref(function)
    register("test.result", function)
    module = build(RESULT)
    register("test.result", print)
    del function
    gc.collect()
    assert alive() is not None
    module(np.zeros(1, np.int32), 1)
    del module
    gc.collect()
    assert alive() is None


def test_every_call_in_an_expression_is_made(register):
    """Two calls of a function are not the same number."""
    calls = []
    register("test.count", lambda: calls.append(None) or len(calls))
    text = """
@T.prim_func
def main(A: T.Buffer((3,), "int32")):
    A[0] = T.call_packed("test.count") - T.call_packed("test.count")
    if T.call_packed("test.count") == T.call_packed("test.count"):
        A[1] = 1
"""
    for run in (build(text), lambda out: interpret(tensorir.parse(text), out)):
        calls.clear()
        out = np.zeros(3, "int32")
        run(out)
        np.testing.assert_array_equal(out, [-1, 0, 0])
        assert len(calls) == 4
