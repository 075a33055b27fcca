"""Arrays of bfloat16, which NumPy lacks, for results of models."""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np

from codegen.runtime.array_view import BFLOAT_CODE, tensor_in
from codegen.runtime.ndarray import Device, NDArray
from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import DataType

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
_BFLOAT16: Final = DataType("bfloat16")


class BFloat16Array:
    """An array of bfloat16, as a model returns it.

    `torch.from_dlpack(x)` is a tensor of bfloat16 over the same memory. `x.numpy()` and
    `numpy.asarray(x)` give an array of the dtype that the package `ml_dtypes` adds to NumPy;
    `x.astype("float32")` needs no package and is exact. `x.bits` are the bits, as uint16.
    """

    __slots__ = ("bits",)
    bits: NDArray
    """The bits as a uint16 array over the same memory."""

    def __init__(self, bits: NDArray) -> None:
        self.bits = bits

    dtype: Final = _BFLOAT16

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        shape: tuple[int, ...] = self.bits.shape
        return shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.bits.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.bits.size

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.bits.nbytes

    @property
    def device(self) -> Device:
        """The device that holds the data: always the CPU."""
        return self.bits.device

    def numpy(self) -> Array:
        """Return a copy with the dtype bfloat16 of `ml_dtypes`; IRTypeError without the package."""
        return self.bits.numpy().view(_numpy_dtype())

    def asnumpy(self) -> Array:
        """Return `numpy()`; this is the older name."""
        return self.numpy()

    def astype(self, dtype: Any) -> Array:
        """Return a copy as an array of a dtype of NumPy; float32 has every value exactly."""
        wide = (np.asarray(self.bits).astype(np.uint32) << 16).view(np.float32)
        return wide.astype(dtype)

    def tolist(self) -> Any:
        """Return the elements as nested lists of floats."""
        return self.astype(np.float32).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if dtype is not None and np.dtype(dtype).isbuiltin == 1:
            return self.astype(dtype)
        return self.numpy() if copy else np.asarray(self.bits).view(_numpy_dtype())

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.bits.__dlpack__(**options)
        tensor_in(capsule).code = ctypes.c_uint8(BFLOAT_CODE)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.bits.__dlpack_device__()

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, key: Any) -> Any:
        part = self.bits[key]
        found = BFloat16Array(np.asarray(part).view(NDArray))
        return found if isinstance(part, np.ndarray) else found.tolist()

    def __reduce__(self) -> tuple[type[BFloat16Array], tuple[NDArray]]:
        return BFloat16Array, (self.bits,)

    def __repr__(self) -> str:
        return f"BFloat16Array({np.array2string(self.astype(np.float32), separator=', ')})"


def _numpy_dtype() -> Any:
    try:
        return np.dtype(import_module("ml_dtypes").bfloat16)
    except ImportError:
        raise IRTypeError(
            "NumPy has no bfloat16, and the package ml_dtypes, which adds it, is not installed; "
            "take .astype('float32'), torch.from_dlpack(x) or, for the bits as uint16, .bits"
        ) from None
