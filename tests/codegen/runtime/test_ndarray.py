"""Arrays of the runtime, bfloat16 among them."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import codegen
import tensorir
from codegen import NDArray
from tensorir import parse
from tensorir.errors import IRTypeError, IRValueError
from tests.codegen.vm.models import module

# ---------- Arrays of the toolkit: aligned, NumPy's in every way, shared with others through DLPack


def is_aligned(array: np.ndarray) -> bool:  # type: ignore[type-arg]
    return array.ctypes.data % 64 == 0


# ------------------------------------------------------------------------------------------ made


def test_bfloat16_is_held_as_bits() -> None:
    assert codegen.empty((2,), "bfloat16").dtype == np.uint16


def test_what_is_no_array_goes_through_numpy() -> None:
    assert codegen.array([1.0, 2.0]).dtype == "float64"
    assert codegen.array(3).shape == ()


def test_devices() -> None:
    assert codegen.array([1], codegen.cpu()).device == codegen.cpu(0)
    assert codegen.empty((1,), "int8", codegen.cpu()).device == codegen.cpu(0)
    with pytest.raises(
        IRValueError, match=r"unknown device gpu\(0\); the only device is codegen.cpu"
    ):
        codegen.array([1], codegen.Device("gpu"))


# --------------------------------------------------------------------------------------- methods


def test_numpy_gives_a_copy_and_asarray_a_view() -> None:
    x = codegen.array([1, 2, 3])
    copied, shared = x.numpy(), np.asarray(x)
    assert type(copied) is np.ndarray
    assert type(shared) is np.ndarray
    x[0] = 7
    assert copied.tolist() == [1, 2, 3]
    assert shared.tolist() == [7, 2, 3]
    assert x.asnumpy().tolist() == [7, 2, 3]


def test_copyfrom_converts_dtypes_but_not_shapes() -> None:
    x = codegen.empty((2, 2), "float32")
    assert x.copyfrom([[1, 2], [3, 4.5]]) is x
    assert x.tolist() == [[1, 2], [3, 4.5]]
    x.copyfrom(np.array([[1, 2], [3, 4]], np.int64).T)
    assert x.tolist() == [[1, 3], [2, 4]]
    for wrong in (np.ones(2), np.ones((1, 2, 2)), 1.0, np.ones((2, 1))):
        with pytest.raises(IRValueError, match=r"copyfrom takes an array of shape \(2, 2\), got"):
            x.copyfrom(wrong)


def test_copyto_arrays_and_devices() -> None:
    x = codegen.array([1.5, 2.5])
    target = np.zeros(2, np.float32)
    assert x.copyto(target) is target
    assert target.tolist() == [1.5, 2.5]
    other = x.copyto(codegen.cpu())
    assert type(other) is NDArray
    assert not np.shares_memory(other, x)
    with pytest.raises(IRValueError, match=r"copyto takes an array of shape \(2,\), got .*\(3,\)"):
        x.copyto(np.zeros(3))
    with pytest.raises(IRTypeError, match="copyto takes an array or a device, got list"):
        x.copyto([1, 2])  # type: ignore[arg-type]


def test_views_are_ndarrays_and_results_of_arithmetic_are_plain() -> None:
    x = codegen.array(np.arange(6.0).reshape(2, 3))
    for view in (x[1:], x.T, x.reshape(-1), x[:, 0]):
        assert type(view) is NDArray
        assert np.shares_memory(view, x)
    for result in (x + 1, 1 + x, np.sin(x), x @ x.T, x.sum(axis=0), x == x):
        assert type(result) is np.ndarray
    assert type(x.sum()) is np.float64
    assert np.add(x, 1, out=x) is x
    x *= 2
    assert type(x) is NDArray
    assert x.tolist() == [[2, 4, 6], [8, 10, 12]]


@pytest.mark.parametrize("protocol", [2, 5])
def test_pickled_arrays_come_back_aligned(protocol: int) -> None:
    x = codegen.array(np.arange(6, dtype=np.int16).reshape(2, 3))
    for other in (pickle.loads(pickle.dumps(x, protocol)), copy.deepcopy(x), copy.copy(x)):
        assert type(other) is NDArray
        assert other.dtype == x.dtype
        assert np.array_equal(other, x)
        assert not np.shares_memory(other, x)
    assert is_aligned(pickle.loads(pickle.dumps(x, protocol)))


# ------------------------------------------------------------------------------- memory of others


class Owner:
    """Something to be kept alive."""


def test_the_owner_lives_as_long_as_array_and_views() -> None:
    memory, owner = np.arange(4.0), Owner()
    alive = weakref.ref(owner)
    view = NDArray.at(memory.ctypes.data, (4,), "float64", owner)[1:]
    plain = np.asarray(view)
    del owner, view
    gc.collect()
    assert alive() is not None
    assert plain.tolist() == [1, 2, 3]
    del plain
    assert alive() is None


def test_detached_arrays_have_their_own_memory() -> None:
    memory, owner = np.arange(6.0).reshape(2, 3), Owner()
    alive = weakref.ref(owner)
    x = NDArray.at(memory.ctypes.data, (3, 2), "float64", owner, strides=(8, 24))
    x.detach()
    del owner
    gc.collect()
    assert alive() is None
    memory[...] = -1
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_null_pointers_are_arrays_without_elements_only() -> None:
    assert NDArray.at(0, (3, 0), "float32").shape == (3, 0)
    with pytest.raises(IRValueError, match=r"an array of shape \(3,\) cannot begin at address 0x0"):
        NDArray.at(0, (3,), "float32")


# ------------------------------------------------------------------------------------------ DLPack


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "float16", "uint16"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
def test_numpy_reads_and_writes_the_same_memory(shape: tuple[int, ...], dtype: str) -> None:
    x = codegen.array(np.zeros(shape, dtype))
    assert x.__dlpack_device__() == (1, 0)
    other: Any = np.from_dlpack(x)
    assert (other.shape, other.dtype) == (shape, dtype)
    assert other.flags.writeable
    other[...] = 1
    assert x.all()


class OfAnotherLibrary:
    """What has DLPack and nothing else of NumPy, of the older or the newer protocol."""

    def __init__(self, array: np.ndarray, versioned: bool) -> None:  # type: ignore[type-arg]
        self.array, self.versioned = array, versioned

    def __dlpack__(self, **options: Any) -> Any:
        if not self.versioned and options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("versioned", [False, True])
def test_from_dlpack_shares_memory_and_keeps_the_layout(versioned: bool) -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2].T
    x = codegen.from_dlpack(OfAnotherLibrary(source, versioned))
    assert type(x) is NDArray
    assert x.strides == source.strides
    assert x.flags.writeable
    x[1, 2] = -1
    assert source.tolist() == [[0, 4, 8], [2, 6, -1]]


def test_from_dlpack_keeps_the_memory_alive() -> None:
    x = codegen.from_dlpack(OfAnotherLibrary(np.full(100_000, 7.0), True))
    gc.collect()
    assert (x == 7).all()


def test_from_dlpack_of_numpy_scalars_keeps_their_memory_alive() -> None:
    """NumPy copies a scalar to an array that lives as long as the interface that is asked for."""
    arrays = [codegen.from_dlpack(np.int32(k)) for k in range(100)]
    assert [int(x) for x in arrays] == list(range(100))


def test_from_dlpack_of_bools_numpy_arrays_and_read_only_ones() -> None:
    flags = np.array([True, False])
    assert codegen.from_dlpack(OfAnotherLibrary(flags, True)).dtype == bool
    assert np.shares_memory(codegen.from_dlpack(flags), flags)
    flags.flags.writeable = False
    assert not codegen.from_dlpack(flags).flags.writeable
    with pytest.raises(IRTypeError, match=r"takes an array with __dlpack__, got list"):
        codegen.from_dlpack([1, 2])
    with pytest.raises(IRTypeError, match=r"got PyCapsule; pass the array instead of the capsule"):
        codegen.from_dlpack(np.ones(2).__dlpack__())


def test_compiled_functions_take_them() -> None:
    x = NDArray.at((raw := np.arange(4.0)).ctypes.data, (4,), "float64", raw)
    f = codegen.build(
        tensorir.parse(
            """
@T.prim_func
def double(A: T.Buffer((4,), "float64")):
    for i in range(4):
        A[i] = A[i] * 2.0
"""
        )
    )
    f(x)
    assert raw.tolist() == [0, 2, 4, 6]


# --------------------------------------------------------- Results of bfloat16, as readers get them

BITS = np.array([0x3F80, 0xC000, 0x7FC0, 0xFF80], np.uint16)
VALUES = [1.0, -2.0, float("nan"), float("-inf")]


@pytest.fixture(scope="module")
def vm() -> codegen.VirtualMachine:
    text = """
@R.function
def main(x: R.Tensor((4,), "bfloat16"), y: R.Tensor((4,), "uint16")):
    a = R.add(x, R.const(0.0, "bfloat16"))
    b = R.concat((x, x))
    return (a, (y, b), x)

@R.function
def one(x: R.Tensor((4,), "bfloat16")):
    cls = Module
    return cls.inner(x)

@R.function
def inner(x: R.Tensor((4,), "bfloat16")):
    return R.multiply(x, x)
"""
    return codegen.VirtualMachine(codegen.vm_build(module(text), "llvm"), codegen.cpu())


def test_results_of_bfloat16_are_arrays_of_it(vm: codegen.VirtualMachine) -> None:
    a, (y, b), x = vm["main"](BITS, BITS)
    for array in (a, b, x):
        assert isinstance(array, codegen.BFloat16Array)
        assert array.dtype == "bfloat16"
    assert y.dtype == np.uint16
    np.testing.assert_array_equal(a.tolist(), VALUES)
    np.testing.assert_array_equal(b.astype("float32"), np.float32(VALUES * 2))
    assert b.bits.tolist() == [*BITS, *BITS]
    assert (b.shape, b.ndim, b.size, b.nbytes, len(b)) == ((8,), 1, 8, 16, 8)
    assert (b[0], b[4:6].tolist()) == (1.0, [1.0, -2.0])
    assert repr(a) == "BFloat16Array([  1.,  -2.,  nan, -inf])"


def test_functions_that_call_one_another_hand_on_the_values(vm: codegen.VirtualMachine) -> None:
    result = vm["one"](BITS)
    assert isinstance(result, codegen.BFloat16Array)
    np.testing.assert_array_equal(vm["inner"](result).tolist(), [1, 16, np.nan, np.inf])


def test_numbers_are_rounded_to_the_dtype(vm: codegen.VirtualMachine) -> None:
    assert vm["one"]([1.0, 1.001, 3, True]).tolist() == [1.0, 1.0, 9.0, 1.0]


def test_another_dtype_is_not_taken_for_it(vm: codegen.VirtualMachine) -> None:
    with pytest.raises(IRTypeError, match="expected an array of bfloat16, got float16; pass a"):
        vm["one"](np.zeros(4, "float16"))
    with pytest.raises(IRTypeError, match="'y': expected an array of uint16, got bfloat16"):
        vm["main"](BITS, vm["one"](BITS))


def test_numpy_has_it_by_ml_dtypes(vm: codegen.VirtualMachine) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="which adds bfloat16 to NumPy")
    values = np.array(VALUES, ml_dtypes.bfloat16)
    result = vm["main"](values, BITS)[0]
    for array in (result.numpy(), np.asarray(result)):
        assert array.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(array.astype("float32"), np.float32(VALUES))
    assert np.asarray(result, "float64").tolist()[:2] == [1.0, -2.0]


def test_without_ml_dtypes_the_error_says_what_there_is(
    vm: codegen.VirtualMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    result = vm["one"](BITS)
    for read in (np.asarray, lambda x: x.numpy(), lambda x: x.asnumpy()):
        with pytest.raises(
            IRTypeError, match=r"NumPy has no bfloat16, .* take .astype\('float32'\)"
        ):
            read(result)
    assert result.astype("float32")[0] == 1.0


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies(vm: codegen.VirtualMachine, again: Any) -> None:
    result = again(vm["one"](BITS))
    assert isinstance(result, codegen.BFloat16Array)
    assert result.tolist()[:2] == [1.0, 4.0]


def test_torch_reads_it_by_dlpack_and_gives_it_so(vm: codegen.VirtualMachine) -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor(VALUES, dtype=torch.bfloat16)
    result = vm["main"](x, BITS)[0]
    tensor = torch.from_dlpack(result)
    assert tensor.dtype is torch.bfloat16
    assert torch.equal(tensor.nan_to_num(), x.nan_to_num())
    tensor[0] = 7
    assert result[0] == 7.0


def test_kernels_read_and_write_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    twice = codegen.build(
        parse("""
@T.prim_func
def twice(A: T.Buffer((4,), "bfloat16"), B: T.Buffer((4,), "bfloat16")):
    for i in range(4):
        B[i] = A[i] + A[i]
""")
    )["twice"]
    x, y = torch.tensor([1.0, 2.0, 3.0, -4.0], dtype=torch.bfloat16), torch.zeros(4).bfloat16()
    twice(x, y)
    assert torch.equal(y, x + x)
    twice(torch._neg_view(x), y)
    assert torch.equal(y, -x - x)
    with pytest.raises(IRTypeError, match=r"'B'\): its memory holds the negated elements"):
        twice(x, torch._neg_view(y))
