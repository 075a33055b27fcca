"""Results of bfloat16, as readers get them."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import IRTypeError, parse
from tests.codegen.vm.models import module

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
