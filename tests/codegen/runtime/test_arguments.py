"""Arguments are checked before anything runs; errors name function and parameter."""

from __future__ import annotations

import ctypes
import pickle
from typing import Any

import numpy as np
import pytest

import codegen
import tensorir
from tensorir.errors import TensorIRError

SCALE = """
@T.prim_func
def scale(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32"), factor: T.float32):
    T.func_attr({"global_symbol": "scale", "tir.noalias": True})
    for i, j in T.grid(4, 8):
        B[i, j] = A[i, j] * factor
"""


@pytest.fixture(scope="module")
def scale() -> codegen.Function:
    return codegen.build(tensorir.parse(SCALE))["scale"]


def arrays() -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    return np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)


def refuses(
    function: codegen.Function, args: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        function(*args)
    assert isinstance(caught.value, TensorIRError)


def test_good_arguments_run(scale: codegen.Function) -> None:
    a, b = arrays()
    scale(a, b, 3)
    assert np.array_equal(b, a * 3)


def test_wrong_count(scale: codegen.Function) -> None:
    a, b = arrays()
    refuses(
        scale,
        (a, b),
        TypeError,
        r"scale has 3 parameter\(s\), got 2 argument\(s\): scale\(A: float32",
    )


def test_wrong_kind(scale: codegen.Function) -> None:
    a, b = arrays()
    refuses(scale, (a, [1.0], 2.0), TypeError, r"argument 2 \('B'\): expected an array of float32")
    refuses(scale, (a, b, "2"), TypeError, r"argument 3 \('factor'\): expected a number")


def test_wrong_dtype(scale: codegen.Function) -> None:
    a, b = arrays()
    message = (
        r"argument 1 \('A'\): expected an array of float32, got float64; .*astype\('float32'\)"
    )
    refuses(scale, (a.astype(np.float64), b, 2.0), TypeError, message)
    refuses(scale, (a.astype(">f4"), b, 2.0), TypeError, r"argument 1 \('A'\): arrays of >f4")


def test_wrong_shape(scale: codegen.Function) -> None:
    a, b = arrays()
    message = r"argument 1 \('A'\): dimension 1 is 9, expected 8: .*\(4, 9\).* needs \(4, 8\)"
    refuses(scale, (np.zeros((4, 9), np.float32), b, 2.0), ValueError, message)
    message = r"argument 2 \('B'\): expected 2 dimension\(s\) \(4, 8\), got 1: \(32,\)"
    refuses(scale, (a, b.ravel(), 2.0), ValueError, message)


def test_inputs_of_another_layout_are_copied(scale: codegen.Function) -> None:
    a, b = arrays()
    wide = np.zeros((4, 16), np.float32)
    wide[:, ::2] = a
    for given in (np.asfortranarray(a), wide[:, ::2], a.tolist()):
        b[...] = 0
        scale(given, b, 2.0)
        assert np.array_equal(b, a * 2)


def test_an_output_of_another_layout_is_refused(scale: codegen.Function) -> None:
    a, b = arrays()
    message = (
        r"argument 2 \('B'\): the function writes to it, but the array of shape \(4, 8\) has byte "
        r"strides \(4, 16\).*pass a contiguous array, such as codegen.empty\(\(4, 8\), 'float32'\)"
    )
    refuses(scale, (a, np.asfortranarray(b), 2.0), ValueError, message)
    refuses(scale, (a, b.tolist(), 2.0), TypeError, "expected an array of float32, got list")


def test_lists_take_the_dtype_of_the_parameter_and_lose_nothing(scale: codegen.Function) -> None:
    _, b = arrays()
    refuses(
        scale, ([[1.0], [2.0, 3.0]], b, 2.0), ValueError, r"'A'\): the lists do not form an array"
    )
    refuses(scale, ([["1.0"]], b, 2.0), TypeError, r"'A'\): expected numbers")
    refuses(scale, (3.0, b, 2.0), ValueError, r"'A'\): expected 2 dimension\(s\)")


def test_dimensions_of_size_one_may_have_any_stride() -> None:
    f = codegen.build(
        tensorir.parse(
            """
@T.prim_func
def f(A: T.Buffer((1, 4, 1), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        B[i] = A[0, i, 0]
"""
        )
    )["f"]
    base = np.arange(8, dtype=np.int32).reshape(2, 4)
    view = np.lib.stride_tricks.as_strided(base, (1, 4, 1), (999, 4, 123))
    b = np.zeros(4, np.int32)
    f(view, b)
    assert b.tolist() == [0, 1, 2, 3]


def test_outputs_must_be_writable(scale: codegen.Function) -> None:
    a, b = arrays()
    a.flags.writeable = False
    scale(a, b, 2.0)
    b.flags.writeable = False
    refuses(scale, (a, b, 2.0), ValueError, r"argument 2 \('B'\): .*read-only")


def test_misaligned_data(scale: codegen.Function) -> None:
    _, b = arrays()
    shifted = np.zeros(4 * 32 + 1, np.uint8)[1:].view(np.float32).reshape(4, 8)
    refuses(
        scale, (shifted, b, 2.0), ValueError, r"argument 1 \('A'\): .*not aligned to its 4-byte"
    )


def test_memory_promised_to_be_distinct(scale: codegen.Function) -> None:
    a, _ = arrays()
    refuses(scale, (a, a, 2.0), ValueError, r"'A' and 'B' share memory.*tir\.noalias")
    both = np.zeros((7, 8), np.float32)
    refuses(scale, (both[:4], both[3:], 2.0), ValueError, "share memory")
    scale(both[:3].repeat(2, axis=0)[:4], both[3:], 2.0)
    neighbours = np.ones((8, 8), np.float32)
    scale(neighbours[:4], neighbours[4:], 2.0)
    scale(neighbours[4:], neighbours[:4], 2.0)
    assert neighbours[:, 0].tolist() == [4] * 4 + [2] * 4


def test_without_the_promise_memory_may_be_shared() -> None:
    text = SCALE.replace(', "tir.noalias": True', "")
    a, _ = arrays()
    expected = a * 2
    codegen.build(tensorir.parse(text))["scale"](a, a, 2.0)
    assert np.array_equal(a, expected)


SYMBOLIC = """
@T.prim_func
def f(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "int32")
    B = T.match_buffer(b, (m, n), "int32")
    C = T.match_buffer(c, (n * 2 + 1,), "int32")
    for i, j in T.grid(n, m):
        B[j, i] = A[i, j]
    for i in range(n * 2 + 1):
        C[i] = 1
"""


def test_symbolic_shapes_are_bound_and_compared() -> None:
    f = codegen.build(tensorir.parse(SYMBOLIC))["f"]
    a = np.arange(15, dtype=np.int32).reshape(3, 5)
    b, c = np.zeros((5, 3), np.int32), np.zeros(7, np.int32)
    f(a, b, c)
    assert np.array_equal(b, a.T)
    assert c.tolist() == [1] * 7
    refuses(
        f, (a, np.zeros((5, 4), np.int32), c), ValueError,
        r"argument 2 \('B'\): dimension 1 is 4, expected 3 \(n\)",
    )  # fmt: skip
    refuses(
        f, (a, b, np.zeros(6, np.int32)), ValueError,
        r"argument 3 \('C'\): dimension 0 is 6, expected 7 \(\(\(n \* 2\) \+ 1\)\)",
    )  # fmt: skip


def test_extents_that_nothing_determines() -> None:
    program = tensorir.parse(
        """
@T.prim_func
def f(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n * 2,), "int32")
    A[0] = 1
""",
        check_well_formed=False,
    )
    with pytest.raises(tensorir.WellFormedError, match="undefined variable n"):
        codegen.build(program)


def test_an_empty_array_may_have_any_stride() -> None:
    f = codegen.build(
        tensorir.parse("""
@T.prim_func
def f(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "f"})
    n, s = T.int32(), T.int32()
    A = T.match_buffer(a, (n, 4), "float32", strides=(s, 2))
    B = T.match_buffer(b, (n, 4), "float32", strides=(9, 1))
    for i, j in T.grid(n, 4):
        B[i, j] = A[i, j]
""")
    )["f"]
    empty = np.empty((0, 4), np.float32)
    f(empty, empty.copy())
    refuses(f, (np.ones((2, 4), np.float32),) * 2, ValueError, r"'A'\): stride 1 is 1, expected 2")


def test_declared_strides_and_offsets() -> None:
    f = codegen.build(
        tensorir.parse(
            """
@T.prim_func
def f(a: T.handle, b: T.handle):
    s = T.int64()
    A = T.match_buffer(a, (3, 4), "float32", strides=(s, 1))
    B = T.match_buffer(b, (3, 4), "float32", strides=(1, 3))
    for i, j in T.grid(3, 4):
        B[i, j] = A[i, j]
"""
        )
    )["f"]
    base = np.arange(60, dtype=np.float32).reshape(3, 20)
    out = np.zeros((3, 4), np.float32, order="F")
    f(base[:, 5:9], out)
    assert np.array_equal(out, base[:, 5:9])
    refuses(f, (base[:, 5:13:2], out), ValueError, r"argument 1 \('A'\): stride 1 is 2, expected 1")
    refuses(f, (base[:, :4], np.zeros((3, 4), np.float32)), ValueError, r"'B'\): stride 0 is 4")


def test_scalars_are_checked_for_range() -> None:
    f = codegen.build(
        tensorir.parse(
            """
@T.prim_func
def f(A: T.Buffer((5,), "float64"), i: T.int8, u: T.uint64, x: T.float64, h: T.float16, flag: T.bool):
    A[0] = T.Cast("float64", i)
    A[1] = T.Cast("float64", u)
    A[2] = x
    A[3] = T.Cast("float64", h)
    A[4] = T.Cast("float64", flag)
"""
        )
    )["f"]
    a = np.zeros(5)
    f(a, -7, 2**63 + 2**62, 2.5, 0.333, True)
    assert a.tolist() == [-7.0, 2.0**63 + 2.0**62, 2.5, float(np.float16(0.333)), 1.0]
    f(a, np.int64(5), np.uint8(1), np.float32(0.5), np.float16(2), np.bool_(False))
    assert a.tolist() == [5.0, 1.0, 0.5, 2.0, 0.0]
    refuses(f, (a, 128, 0, 0.0, 0.0, True), ValueError, r"\('i'\): 128 does not fit int8")
    refuses(f, (a, 0, -1, 0.0, 0.0, True), ValueError, r"\('u'\): -1 does not fit uint64")
    refuses(f, (a, 1.5, 0, 0.0, 0.0, True), TypeError, r"\('i'\): expected an integer for int8")


def test_raw_pointers() -> None:
    f = codegen.build(
        tensorir.parse(
            """
@T.prim_func
def f(p: T.handle("int32"), A: T.Buffer((1,), "int32")):
    B = T.Buffer((4,), "int32", data=p)
    A[0] = B[3]
"""
        )
    )["f"]
    source, a = np.array([1, 2, 3, 42], np.int32), np.zeros(1, np.int32)
    for pointer in (source, source.ctypes.data, ctypes.c_void_p(source.ctypes.data)):
        a[0] = 0
        f(pointer, a)
        assert a[0] == 42


class DLPackOnly:
    """An array that only speaks DLPack."""

    def __init__(self, array: np.ndarray, legacy: bool) -> None:  # type: ignore[type-arg]
        self.array = array
        self.legacy = legacy

    def __dlpack__(self, **options: object) -> object:
        if self.legacy and options:
            raise TypeError("unexpected keyword arguments")
        return self.array.__dlpack__(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("legacy", [True, False])
def test_dlpack_arrays(scale: codegen.Function, legacy: bool) -> None:
    a, b = arrays()
    scale(DLPackOnly(a, legacy), DLPackOnly(b, legacy), 2.0)
    assert np.array_equal(b, a * 2)
    refuses(
        scale, (DLPackOnly(a.astype(np.int32), legacy), b, 2.0), TypeError,
        r"'A'\): expected an array of float32, got int32",
    )  # fmt: skip
    refuses(scale, (DLPackOnly(a[:, ::2], legacy), b, 2.0), ValueError, "dimension 1 is 4")


def test_an_array_that_does_not_share_its_memory(scale: codegen.Function) -> None:
    class OnAnotherDevice:
        def __dlpack__(self, **_: object) -> object:
            raise BufferError("it lies on device 0")

    _, b = arrays()
    refuses(
        scale, (OnAnotherDevice(), b, 2.0), TypeError,
        r"argument 1 \('A'\): its OnAnotherDevice does not .*\(it lies on device 0\); copy it",
    )  # fmt: skip


def test_a_function_is_pickled_with_its_module(scale: codegen.Function) -> None:
    with pytest.raises(TypeError, match=r'function scale cannot be pickled .* module\["scale"\]'):
        pickle.dumps(scale)


def test_a_module_without_main_is_not_called() -> None:
    module = codegen.build({name: tensorir.parse(SCALE) for name in ("one", "two")})
    with pytest.raises(
        ValueError, match=r"2 functions and none is called main: .*module\[\"one\"\]"
    ):
        module(*arrays(), 2.0)


@pytest.mark.parametrize("program", [None, 5, "main"])
def test_what_is_no_program(program: Any) -> None:
    with pytest.raises(codegen.CodegenError, match="a program is a module, a function, or functi"):
        codegen.build(program)
    with pytest.raises(codegen.CodegenError, match="a program is a module, a function, or functi"):
        codegen.explain(program)


def test_empty_arrays() -> None:
    f = codegen.build(tensorir.parse(SYMBOLIC))["f"]
    c = np.zeros(1, np.int32)
    f(np.zeros((0, 5), np.int32), np.zeros((5, 0), np.int32), c)
    assert c.tolist() == [1]


@pytest.mark.parametrize(
    "lines",
    [
        'main(p: T.handle("float32"), B: T.Buffer((4,))):\n    A = T.Buffer((4,), data=p)',
        'main(B: T.Buffer((4,)), C: T.Buffer((4,))):\n    p: T.handle("float32") = B.data\n'
        "    A = T.Buffer((4,), data=p)",
    ],
    ids=["a pointer parameter", "a bound pointer"],
)
def test_memory_that_is_written_through_a_pointer(lines: str) -> None:
    kernel = codegen.build(
        tensorir.parse(f"@T.prim_func\ndef {lines}\n    A[0] = T.float32(1)\n"), "llvm"
    )
    first, second = np.zeros(4, "float32"), np.zeros(4, "float32")
    kernel(first, second)
    assert first[0] == 1
    first.flags.writeable = False
    with pytest.raises(ValueError, match=r"argument 1 .*: the function writes to it, but"):
        kernel(first, second)
