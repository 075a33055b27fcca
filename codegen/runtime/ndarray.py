"""The arrays of the toolkit: NumPy arrays whose data begin at a multiple of 64 bytes.

Library functions receive `NDArray`s, and models return them. An `NDArray` is a NumPy array, so
NumPy code accepts it, and it supports DLPack in both directions: other libraries get its memory
without a copy and may write to it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from codegen.runtime.array_view import ArrayView, view_of
from tensorir.errors import IRTypeError, IRValueError
from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes.dtype import DataType


@dataclass(frozen=True, repr=False)
class Device:
    """The device that a function runs on, and in whose memory arrays are: the CPU or a GPU."""

    kind: str = "cpu"
    index: int = 0

    @property
    def exist(self) -> bool:
        """True if the device exists."""
        return self.kind == "cpu"

    def sync(self) -> None:
        """Return at once: a call of a function returns when its results are there."""

    def array(self, values: ArrayLike) -> Any:
        """Return a copy of an array in the memory of the device."""
        check_device(self)
        source = np.asarray(values)
        result = aligned_array(source.shape, source.dtype)
        result[...] = source
        return result

    def empty(self, shape: Sequence[int], dtype: str = "float32") -> Any:
        """Return an uninitialised array in the memory of the device."""
        check_device(self)
        return aligned_array(tuple(shape), DataType(dtype).to_numpy())

    def __repr__(self) -> str:
        return f"{self.kind}({self.index})"


def check_device(device: object, kind: str = "cpu") -> None:
    """Check that `device` is a device of a kind, which code is for; None means the default one.

    Raises IRTypeError for other objects, IRValueError for another device.
    """
    check_is_device(device)
    if isinstance(device, Device) and device.kind != kind:
        place = "codegen.cpu()" if kind == "cpu" else f"codegen.device({kind!r})"
        raise IRValueError(f"unknown device {device}; the only device is {place} here")


def check_is_device(device: object) -> None:
    """Check that `device` is a device or None; IRTypeError for other objects."""
    if device is not None and not isinstance(device, Device):
        raise IRTypeError(
            f"a device is codegen.cpu(), got {device!r} of type {type(device).__name__}"
        )


def cpu(index: int = 0) -> Device:
    """Return the CPU as a device, for the signatures that take one."""
    return Device("cpu", index)


_CPU: Final = cpu()
FIRST_ADDRESS: Final = 4096
_Memory: TypeAlias = ctypes.Array[ctypes.c_char]
MEMORY: Final[_Memory] = (ctypes.c_char * (2**63 - 1 - FIRST_ADDRESS)).from_address(FIRST_ADDRESS)
"""All memory except the first page as one buffer: NumPy makes an array at an address from it in a
quarter of a microsecond, while a separate buffer for each array would triple that time.
"""


class ArrayCopies:
    """Copies between arrays of any devices: TVM's methods, which `NDArray` and `DeviceArray` share.

    An array has `shape`, `numpy`, its elements on the host, and a way to replace them.
    """

    __slots__ = ()
    shape: Any

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return a copy as a plain array; later writes to this array do not change it."""
        raise NotImplementedError

    def _elements(self) -> np.ndarray[Any, np.dtype[Any]]:
        return self.numpy()

    def _replace_elements(self, values: np.ndarray[Any, np.dtype[Any]]) -> None:
        raise NotImplementedError

    def asnumpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return `numpy()`; this is its older name."""
        return self.numpy()

    def copyfrom(self, source: ArrayLike) -> Self:
        """Copy elements from an array of exactly this shape, converting them; return this array.

        Raises IRValueError for another shape.
        """
        values = np.asarray(source)
        self._check_shape("copyfrom", values.shape)
        self._replace_elements(values)
        return self

    def copyto(self, target: Any) -> Any:
        """Copy the elements to an array of exactly this shape, or to a new one on a device.

        Returns the array that was written. Raises IRValueError for an array of another shape.
        """
        if isinstance(target, Device):
            return target.array(self._elements())
        if not isinstance(target, (np.ndarray, ArrayCopies)):
            raise IRTypeError(f"copyto takes an array or a device, got {type(target).__name__}")
        self._check_shape("copyto", target.shape)
        if isinstance(target, np.ndarray):
            np.copyto(target, self._elements(), casting="unsafe")
            return target
        return target.copyfrom(self._elements())

    def _check_shape(self, method: str, shape: tuple[int, ...]) -> None:
        if shape != self.shape:
            raise IRValueError(f"{method} takes an array of shape {self.shape}, got shape {shape}")


class NDArray(ArrayCopies, np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array with the methods of TVM's NDArray.

    Slices and reshaped views are NDArrays as well, possibly unaligned. The result of arithmetic is
    a plain array in new memory of NumPy. bfloat16 and fp8 are stored as their bits.
    """

    __slots__ = ("_owner",)
    _owner: object

    @classmethod
    def at(
        cls,
        address: int,
        shape: Sequence[int],
        dtype: Any,
        owner: object = None,
        strides: Sequence[int] | None = None,
    ) -> NDArray:
        """Return memory at an address as an array, which keeps `owner` alive; nothing is copied.

        `strides` are in bytes, None for compact row-major. Raises IRValueError for elements at a
        null pointer. The caller guarantees that there is such an array at `address`.
        """
        if address >= FIRST_ADDRESS:
            found = _new(cls, shape, dtype, MEMORY, address - FIRST_ADDRESS, strides)
        elif 0 in shape:
            found = _new(cls, shape, dtype)
        else:
            raise IRValueError(
                f"an array of shape {tuple(shape)} cannot begin at address {address:#x}, which is "
                "a null pointer"
            )
        found._owner = owner
        return found

    def detach(self) -> None:
        """Replace borrowed memory by a copy; existing views of this array keep the old memory."""
        state = (1, self.shape, self.dtype, False, self.tobytes())
        self.__setstate__(state)  # type: ignore[arg-type]  # NumPy takes no other bool
        self._owner = None

    @property
    def device(self) -> Device:  # type: ignore[override]
        """The device that holds the data: always the CPU."""
        return _CPU

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return a copy as a plain array; later writes to this array do not change it.

        `numpy.asarray(x)` gives a plain array over the same memory.
        """
        return np.array(self, copy=True, subok=False)

    def _elements(self) -> np.ndarray[Any, np.dtype[Any]]:
        return self

    def _replace_elements(self, values: np.ndarray[Any, np.dtype[Any]]) -> None:
        np.copyto(self, values, casting="unsafe")

    def __array_wrap__(
        self,
        array: np.ndarray[Any, Any],
        context: Any = None,
        return_scalar: bool = False,
        /,
    ) -> Any:
        if array is self:  # the array was passed as `out`
            return self
        return array[()] if return_scalar else array

    def __reduce__(self) -> tuple[Callable[..., NDArray], tuple[Any]]:
        """Pickle the elements; the unpickled array is aligned."""
        return array, (np.asarray(self),)


_new: Final[Callable[..., NDArray]] = np.ndarray.__new__


@overload
def empty(shape: Sequence[int], dtype: str = "float32", device: None = None) -> NDArray: ...
@overload
def empty(shape: Sequence[int], dtype: str = "float32", *, device: Device) -> Any: ...
@overload
def empty(shape: Sequence[int], dtype: str, device: Device | None) -> Any: ...
def empty(shape: Sequence[int], dtype: str = "float32", device: Device | None = None) -> Any:
    """Return an uninitialised array whose data begin at a multiple of 64 bytes.

    NumPy's own arrays begin at multiples of 16, so vector loads from them often touch two cache
    lines, which can slow a good kernel down by a third.
    """
    check_is_device(device)
    return (device or _CPU).empty(shape, dtype)


@overload
def array(values: ArrayLike, device: None = None) -> NDArray: ...
@overload
def array(values: ArrayLike, device: Device) -> Any: ...
def array(values: ArrayLike, device: Device | None = None) -> Any:
    """Return a copy of an array whose data begin at a multiple of 64 bytes."""
    check_is_device(device)
    return (device or _CPU).array(values)


def from_dlpack(value: Any) -> NDArray:
    """Return the memory of another library's array as an NDArray of the same layout.

    Nothing is copied, and writing to one writes to the other unless the other is marked read-only.
    `value` has `__dlpack__` or `__array_interface__`; bfloat16 is returned as its bits, which
    `codegen.BFloat16Array` converts to an array of bfloat16. Raises IRTypeError for anything else,
    and for arrays that are not in the memory of the CPU.
    """
    view = view_of(value)
    if view is None:
        raise IRTypeError(
            f"from_dlpack takes an array with __dlpack__, got {type(value).__name__}"
            + ("; pass the array instead of the capsule" if "Capsule" in repr(type(value)) else "")
        )
    return array_over(view)


def array_over(view: ArrayView) -> NDArray:
    """Return the memory of a view as an array, read-only if the view is."""
    found = NDArray.at(view.address, view.shape, view.dtype.to_numpy(), view.owner, view.strides)
    if view.read_only:
        found.flags.writeable = False
    return found


def aligned_array(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray:
    """Return an uninitialised array whose data begin at a multiple of 64 bytes."""
    raw = np.empty(math.prod(shape) * kind.itemsize + ALIGNMENT, np.uint8)
    return _new(NDArray, shape, kind, raw, -address_of(raw) % ALIGNMENT)


_DATA: Final = object.__basicsize__
_pointer_at: Final = ctypes.c_void_p.from_address


def _holds_address_first() -> bool:
    probe = np.zeros(3)
    return bool(_pointer_at(id(probe) + _DATA).value == probe.__array_interface__["data"][0])


def _interface_address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _field_address(array: np.ndarray[Any, Any]) -> int:
    return _pointer_at(id(array) + _DATA).value or 0


address_of: Final = _field_address if _holds_address_first() else _interface_address
"""The address of the elements of a NumPy array.

NumPy's C interface fixes that the address is the first field of an array object; reading it takes a
tenth of the time that `__array_interface__` takes. If the field is elsewhere, `__array_interface__`
is used.
"""
