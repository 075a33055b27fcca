"""Devices and the arrays in their memory."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from codegen.devices.process import DeviceProcess
from codegen.errors import LinkError
from codegen.runtime.array_view import view_of
from codegen.runtime.ndarray import ArrayCopies, Device
from codegen.target import Target, as_target
from tensorir.nodes.dtype import DataType

_SPACING: Final = 36
"""Arrays count as so many powers of two bytes apart, which tells whether two share memory."""


@dataclass(frozen=True, repr=False)
class GpuDevice(Device):
    """A GPU, or a CPU that runs device programs of OpenCL, owned by a separate process.

    The process starts when the device is first used. If a kernel faults or runs longer than
    `timeout` seconds, the process ends; the arrays of the device are lost, and its next use starts
    another one.
    """

    timeout: float = 60.0
    """Seconds that a call may take."""
    optimize: bool = True
    """False to switch the optimiser of the device's own compiler off. Intel's runtime for CPUs then
    runs the threads of a block one after the other, which shows missing barriers."""

    @property
    def process(self) -> DeviceProcess:
        """The process that owns the device."""
        return _process(self.kind, self.index, self.optimize)

    @property
    def exist(self) -> bool:
        """True if the device is there."""
        try:
            self.process.start()
        except LinkError:
            return False
        return True

    @property
    def device_name(self) -> str:
        """The name of the device; LinkError if it is not there."""
        self.process.start()
        return self.process.name

    def array(self, values: ArrayLike) -> DeviceArray:
        """Return a copy of an array in the memory of the device."""
        view = view_of(np.asarray(values))
        assert view is not None
        result = self.empty(view.shape, str(view.dtype))
        return result.copyfrom(values)

    def empty(self, shape: Sequence[int], dtype: str = "float32") -> DeviceArray:
        """Return an uninitialised array in the memory of the device."""
        return DeviceArray(self, tuple(map(int, shape)), DataType(dtype))


@cache
def _process(kind: str, index: int, optimize: bool) -> DeviceProcess:
    return DeviceProcess(kind, index, optimize)


def device(
    target: str | Mapping[str, Any] | Target | None = None,
    index: int = 0,
    *,
    timeout: float = 60.0,
    optimize: bool = True,
) -> Device:
    """Return the device that code for a target runs on: the CPU, or a GPU by its number.

    `timeout` and `optimize` are those of `GpuDevice`. Raises LinkError if no runtime for the target
    is installed or there is no such device.
    """
    chosen = as_target(target)
    if chosen.gpu is None:
        return Device("cpu", index)
    found = GpuDevice(chosen.kind, index, timeout, optimize)
    found.process.start()
    return found


class DeviceArray(ArrayCopies):
    """An array in the memory of a device, compact and row-major; `numpy()` copies it to the host.

    bfloat16 and fp8 are held as their bits.
    """

    shape: tuple[int, ...]

    def __init__(self, device: GpuDevice, shape: tuple[int, ...], dtype: DataType) -> None:
        self.device = device
        self.shape = shape
        self.dtype = dtype
        process = device.process
        self._number = process.next_number()
        process.request("allocate", self._number, self.nbytes)
        self._generation = process.generation
        weakref.finalize(self, process.discard, "free", self._number, self._generation)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * self.dtype.nbytes

    @property
    def number(self) -> int:
        """The number of the array in the process of the device; ExecutionError if it is lost."""
        self.device.process.check_alive(self._generation)
        return self._number

    @property
    def address(self) -> int:
        """An address that differs from those of all other arrays by more than their sizes."""
        return self._number << _SPACING

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the elements as an array of NumPy."""
        result = np.empty(self.shape, self.dtype.to_numpy())
        self.device.process.read((self.number, 0), bytes_of(result))
        return result

    def _replace_elements(self, values: np.ndarray[Any, np.dtype[Any]]) -> None:
        data = np.ascontiguousarray(values, self.dtype.to_numpy())
        self.device.process.write((self.number, 0), bytes_of(data))

    def __repr__(self) -> str:
        return f"<array of {self.dtype}{list(self.shape)} on {self.device}>"


def bytes_of(values: np.ndarray[Any, np.dtype[Any]]) -> memoryview:
    """Return the bytes of a contiguous array."""
    return memoryview(values.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
