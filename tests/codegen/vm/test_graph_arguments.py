"""What graph functions accept, and what they say about what they do not."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import codegen
from codegen.errors import ExecutionError
from tensorir import parse
from tensorir.errors import IRTypeError, IRValueError
from tests.codegen.vm.models import module

X = np.arange(6, dtype="float32").reshape(2, 3)


ROWS = """
@R.function
def main(s: R.Shape(["n", "m"]), x: R.Tensor((2, 3), "float32")):
    n = T.int64()
    m = T.int64()
    cls = Module
    y = R.call_dps_packed("tests.fill", (), R.Tensor(({rows}, 3), "float32"))
    return y
"""


@pytest.mark.parametrize(
    ("rows", "given", "error", "text"),
    [
        ("n", (-1, 0), IRValueError, "main: argument 1 's': an extent is at least 0, got (-1, 0)"),
        (
            "n - m",
            (2, 7),
            IRValueError,
            "main: result of shape ((n - m), 3) would have a negative extent: (-5, 3)",
        ),
        (
            "n // m",
            (2, 0),
            IRValueError,
            "main: the extents ((n // m), 3) cannot be computed for {'n': 2, 'm': 0}: Divide by",
        ),
        (
            "n",
            (1 << 58, 0),
            ExecutionError,
            "main: result, float32 of shape (288230376151711744, 3): 3,458,764,513,820,540,928 bytes "
            "cannot be allocated",
        ),
        ("n", (1 << 62, 0), ExecutionError, "main: result, float32 of shape (4611686018427387904"),
    ],
)
def test_sizes_that_no_array_has(
    rows: str, given: tuple[int, ...], error: type[Exception], text: str
) -> None:
    codegen.register_func("tests.fill", lambda out: out.fill(1))
    vm = codegen.VirtualMachine(codegen.vm_build(module(ROWS.format(rows=rows)), "llvm"))
    codegen.remove_global_func("tests.fill")
    with pytest.raises(error) as info:
        vm["main"](given, X)
    assert text in str(info.value)
    assert vm["main"]((4, 2), X).sum() > 0


@pytest.fixture(scope="module")
def vm() -> codegen.VirtualMachine:
    mod = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    cls = Module
    a = R.call_tir(cls.add, (x, y), R.Tensor((2, 3), "float32"))
    return a

@R.function
def rows(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
    return (a, y)

@R.function
def pair(xs: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32"))):
    cls = Module
    x = xs[0]
    y = xs[1]
    a = R.call_tir(cls.add, (x, y), R.Tensor((2, 3), "float32"))
    return (y, (a,))
""")
    return codegen.VirtualMachine(codegen.vm_build(mod, "llvm"), codegen.cpu())


class Dlpack:
    """An array that speaks DLPack only."""

    def __init__(self, array: np.ndarray) -> None:  # type: ignore[type-arg]
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()  # type: ignore[return-value]


def misaligned(array: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    raw = np.empty(array.nbytes + 4, np.uint8)
    result = raw[4:].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def read_only(array: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    result = array.copy()
    result.flags.writeable = False
    return result


@pytest.mark.parametrize("given", [np.asarray, codegen.array, Dlpack, misaligned, read_only])
def test_anything_that_is_an_array_is_taken(vm: codegen.VirtualMachine, given: object) -> None:
    result = vm["main"](given(X), X)  # type: ignore[operator]
    assert isinstance(result, codegen.NDArray)
    assert result.ctypes.data % 64 == 0
    np.testing.assert_array_equal(result, X + X)


@pytest.mark.parametrize(
    "given",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.tolist(),
        lambda x: tuple(map(tuple, x.tolist())),
    ],
    ids=["columns first", "every second", "backwards", "lists", "tuples"],
)
def test_values_of_another_layout_are_copied(vm: codegen.VirtualMachine, given: Any) -> None:
    np.testing.assert_array_equal(vm["main"](given(X), given(X)), X + X)
    np.testing.assert_array_equal(vm["main"](X, given(X)), X + X)


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((X,), IRTypeError, "main takes 2 argument(s) (x, y), got 1"),
        (
            (X, None),
            IRTypeError,
            "main: argument 2 'y': expected an array of float32, got NoneType",
        ),
        ((X, 3.0), IRValueError, "main: argument 2 'y': expected 2 dimension(s) (2, 3), got 0: ()"),
        (
            (X, [[1.0], [2.0, 3.0]]),
            IRValueError,
            "main: argument 2 'y': the lists do not form an array",
        ),
        (
            (X.astype("float64"), X),
            IRTypeError,
            "main: argument 1 'x': expected an array of float32, got float64; "
            "convert it with .astype('float32')",
        ),
        (
            (X, X[:1]),
            IRValueError,
            "main: argument 2 'y': dimension 0 is 1, expected 2: got shape (1, 3), expected (2, 3)",
        ),
        (
            (X, X[0]),
            IRValueError,
            "main: argument 2 'y': expected 2 dimension(s) (2, 3), got 1: (3,)",
        ),
        (
            (X, X.astype(">f4")),
            IRTypeError,
            "foreign byte order",
        ),
    ],
)
def test_wrong_arguments_raise_before_anything_runs(
    vm: codegen.VirtualMachine, args: tuple[object, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as info:
        vm["main"](*args)
    assert text in str(info.value)
    np.testing.assert_array_equal(vm["main"](X, X), X + X)


@pytest.mark.parametrize("count", [2, 0, 5])
def test_symbolic_sizes_follow_from_the_arguments(vm: codegen.VirtualMachine, count: int) -> None:
    x = np.ones((count, 3), "float32")
    doubled, same = vm["rows"](x, x)
    np.testing.assert_array_equal(doubled, 2 * x)
    np.testing.assert_array_equal(same, x)


def test_symbolic_sizes_have_to_agree(vm: codegen.VirtualMachine) -> None:
    with pytest.raises(
        IRValueError, match=r"rows: argument 2 'y': dimension 0 is 4, expected 2 \(n\)"
    ):
        vm["rows"](X, np.ones((4, 3), "float32"))


def test_tuples_are_taken_apart_and_returned(vm: codegen.VirtualMachine) -> None:
    y, (a,) = vm["pair"]((X, X + 1))
    np.testing.assert_array_equal(y, X + 1)
    np.testing.assert_array_equal(a, X + X + 1)
    with pytest.raises(
        IRTypeError, match="pair: argument 1 'xs': expected a tuple of 2, got tuple of 1"
    ):
        vm["pair"]((X,))
    with pytest.raises(IRValueError, match=r"pair: argument 1 'xs\[1\]': dimension 0 is 1"):
        vm["pair"]((X, X[:1]))


def test_an_unknown_function_is_named(vm: codegen.VirtualMachine) -> None:
    with pytest.raises(IRValueError, match="unknown graph function 'man'; the module has"):
        vm["man"]


def test_arrays_without_an_interface_are_no_arrays(vm: codegen.VirtualMachine) -> None:
    with pytest.raises(IRTypeError, match="expected an array of float32, got c_float"):
        vm["main"](ctypes.c_float(0), X)


WRITING = """
@I.ir_module
class Module:
    @T.prim_func
    def count(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] + T.float32(1)
    @R.function(pure=False, private=True)
    def inner(t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))):
        cls = Module
        a = t[0]
        _ = cls.count(a)
        return t[1]
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        cls = Module
        BODY
        return z
"""


@pytest.mark.parametrize(
    "body",
    [
        "z = x\n        _ = cls.count(z)",
        "t = (y, x)\n        z = t[1]\n        _ = cls.count(z)",
        "a = (x, x)\n        z = cls.inner(a)",
    ],
)
def test_arrays_that_a_graph_function_writes_are_writable(body: str) -> None:
    program = parse(WRITING.replace("BODY", body))
    main = codegen.VirtualMachine(codegen.vm_build(program, "llvm"))["main"]
    x, y = np.zeros(4, "float32"), np.zeros(4, "float32")
    main(x, read_only(y))
    assert x.tolist() == [1] * 4
    with pytest.raises(IRValueError, match="argument 1 'x': the function writes to it, but the"):
        main(read_only(x), y)
