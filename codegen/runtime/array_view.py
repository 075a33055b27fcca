"""Any array-like as an address with a layout, without copying.

NumPy arrays and other objects with `__array_interface__` are read through that interface, all
others through DLPack (torch, jax, cupy on the CPU, ...). This module reads DLPack structures
directly, because `numpy.from_dlpack` makes read-only arrays of older producers' tensors.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import DataType

_TYPES: Final = {
    "f2": "float16", "f4": "float32", "f8": "float64", "b1": "bool",
    **{f"i{n}": f"int{8 * n}" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"uint{8 * n}" for n in (1, 2, 4, 8)},
}  # fmt: skip
BFLOAT_CODE: Final = 4
_DLPACK_CODES: Final = {0: "int", 1: "uint", 2: "float", BFLOAT_CODE: "bfloat", 6: "bool"}
_DLPACK_CPU: Final = (1, 3)
_DLPACK_READ_ONLY: Final = 1


NAMES_OF_ML_DTYPES: Final = {
    "bfloat16": "bfloat16",
    "float8_e4m3fn": "e4m3_float8",
    "float8_e5m2": "e5m2_float8",
}
"""Dtypes that the package `ml_dtypes` adds to NumPy."""


@dataclass(frozen=True, slots=True)
class ArrayView:
    """The memory of an array: `strides` are in bytes, None for compact row-major."""

    address: int
    dtype: DataType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    read_only: bool
    owner: Any
    """The object that keeps the memory alive."""

    def extent_bytes(self) -> tuple[int, int]:
        """Return the half-open range of addresses of the elements."""
        if 0 in self.shape:
            return self.address, self.address
        low = high = self.address
        itemsize = self.dtype.nbytes
        if self.strides is None:
            size = itemsize
            for extent in self.shape:
                size *= extent
            return low, low + size
        for extent, stride in zip(self.shape, self.strides, strict=True):
            reach = (extent - 1) * stride
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high + itemsize


def view_of(value: Any) -> ArrayView | None:
    """Return `value` as an ArrayView, None if it is not an array.

    Raises IRTypeError for an array that compiled code cannot use: a foreign byte order, another
    device, an unsupported dtype, or a lazy negation of torch.
    """
    interface = getattr(value, "__array_interface__", None)
    if interface is not None:
        address, read_only = interface["data"]
        return ArrayView(
            address,
            _dtype_of(interface["typestr"], value),
            interface["shape"],
            interface.get("strides"),
            read_only,
            (value, interface),  # the interface keeps a NumPy scalar's copied memory alive
        )
    if hasattr(value, "__dlpack__"):
        if is_negated(value):
            raise IRTypeError(
                "its memory holds the negated elements (torch.Tensor.is_neg); pass x.resolve_neg()"
            )
        return _from_dlpack(value)
    return None


def narrow_dtype(dtype: DataType) -> DataType | None:
    """Return a dtype that NumPy lacks, None for others."""
    return dtype if dtype in NAMES_OF_ML_DTYPES.values() else None


def remedy_for(dtype: DataType) -> str:
    """Return the remedy for an array of a dtype other than `dtype`."""
    held = str(dtype.to_numpy())
    for name, known in NAMES_OF_ML_DTYPES.items():
        if known == dtype:
            return f"pass a tensor of torch.{name}, an array of ml_dtypes.{name}, or bits as {held}"
    return f"convert it with .astype({held!r})"


def is_negated(value: Any) -> bool:
    """Return True if a torch tensor is the negation of its memory, which DLPack does not report."""
    asked = getattr(value, "is_neg", None)
    return asked is not None and bool(asked())


def _dtype_of(typestr: str, value: Any) -> DataType:
    name = _TYPES.get(typestr[1:])
    order = "<" if sys.byteorder == "little" else ">"
    if name is not None and typestr[0] in ("|", order):
        return DataType(name)
    named = NAMES_OF_ML_DTYPES.get(str(getattr(value, "dtype", "")))
    if named is not None:
        return DataType(named)
    kind = getattr(value, "dtype", typestr)
    raise IRTypeError(f"arrays of {kind} ({typestr}) cannot be passed to compiled code")


# ------------------------------------------------------------------------------------------ DLPack


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _VersionedTensor(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype = ctypes.c_char_p
_capsule_name.argtypes = (ctypes.py_object,)


def _capsule_of(value: Any) -> Any:
    if getattr(value, "requires_grad", False):
        value = value.detach()  # shares memory; torch does not export tensors with gradients
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:  # an older producer without max_version
        return value.__dlpack__()


def _from_dlpack(value: Any) -> ArrayView:
    try:
        capsule = _capsule_of(value)
    except BufferError as problem:
        raise IRTypeError(
            f"its {type(value).__name__} does not share its memory with the CPU ({problem}); copy "
            f"it to a NumPy array first"
        ) from problem
    tensor, flags = _content(capsule)
    if tensor.device_type not in _DLPACK_CPU:
        raise IRTypeError(
            f"an array on DLPack device {tensor.device_type} cannot be passed to CPU code; copy it "
            f"to the CPU first"
        )
    base = _DLPACK_CODES.get(tensor.code)
    if base is None or tensor.lanes != 1:
        raise IRTypeError(
            f"arrays of DLPack type code {tensor.code} with {tensor.lanes} lane(s) cannot be "
            f"passed to compiled code"
        )
    dtype = DataType("bool" if base == "bool" else f"{base}{tensor.bits}")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = tuple(n * dtype.nbytes for n in tensor.strides[: tensor.ndim])
    # The capsule stays unconsumed, so that its owner is freed with it after the call.
    return ArrayView(
        (tensor.data or 0) + tensor.byte_offset,
        dtype,
        shape,
        strides,
        bool(flags & _DLPACK_READ_ONLY),
        (value, capsule),
    )


def tensor_in(capsule: Any) -> Any:
    """Return the mutable structure of an unconsumed capsule."""
    return _content(capsule)[0]


def _content(capsule: Any) -> tuple[Any, int]:
    """Return the tensor of a capsule and its flags."""
    name = _capsule_name(capsule)
    pointer = _capsule_pointer(capsule, name)
    if name != b"dltensor_versioned":
        return _DLTensor.from_address(pointer), 0
    versioned = _VersionedTensor.from_address(pointer)
    return versioned.tensor, versioned.flags
