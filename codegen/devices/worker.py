"""The process that owns a device: its arrays and its kernels. Run as a program, not imported.

    python -P worker.py opencl 0 1 5 6

starts it for device 0 of OpenCL, with optimisation, file descriptor 5 as its end of a pipe, and 6
as a file that both processes map. It imports nothing of
this project, above all no llvmlite: LLVM and the compilers inside of OpenCL runtimes do not work in
one process. What ends this process (a kernel that faults or hangs) costs the arrays of the device,
and nothing else.

A request is a tuple of the name of a method of `Launcher` and its arguments; the answer is a pair
of the result and the text of an error, one of which is None. `write` and `read` are given a number
of bytes instead of the bytes, which are at the front of the file.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from mmap import mmap
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

Start: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], int, Sequence[int | bytes]]
"""The number of a kernel, the grid, the block, the bytes of shared memory of a block, and the
arguments: numbers of arrays, bytes of scalars."""
STATIC_SHARED_BYTES = 48 << 10
"""The shared memory that a kernel of CUDA declares; kernels with more have it from the launch."""


class Launcher(ABC):
    """A device: what the host asks of it. Arrays and kernels go by numbers."""

    def __init__(self) -> None:
        self._arrays: dict[int, Any] = {}
        self._kernels: dict[int, Any] = {}

    @abstractmethod
    def describe(self) -> str:
        """Return the name of the device."""

    @abstractmethod
    def allocate(self, number: int, nbytes: int) -> None:
        """Make an array."""

    @abstractmethod
    def free(self, number: int) -> None:
        """Drop an array."""

    @abstractmethod
    def write(self, number: int, data: mmap) -> None:
        """Copy bytes to the front of an array."""

    @abstractmethod
    def read(self, number: int, data: mmap) -> None:
        """Copy bytes from the front of an array."""

    @abstractmethod
    def load(self, number: int, name: str, binary: bytes) -> None:
        """Load a kernel."""

    def unload(self, number: int) -> None:
        """Drop a kernel."""
        del self._kernels[number]

    @abstractmethod
    def run(self, starts: Sequence[Start], times: int) -> float:
        """Start kernels one after the other, all of it several times; return the seconds it took.

        The seconds are the device's own, from the first start to the last end.
        """


class _OpenCL(Launcher):
    """A device of OpenCL that takes SPIR-V."""

    def __init__(self, index: int, optimize: bool) -> None:
        super().__init__()
        import pyopencl as cl  # noqa: PLC0415 - only a device of OpenCL needs it

        self._cl = cl
        self._options = [] if optimize else ["-cl-opt-disable"]
        devices = [d for platform in cl.get_platforms() for d in platform.get_devices()]
        if index >= len(devices):
            raise IndexError(f"device {index} does not exist, OpenCL has {len(devices)}")
        self._device = devices[index]
        self._context = cl.Context([self._device])
        profile = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(self._context, properties=profile)

    def describe(self) -> str:
        return str(self._device.name)

    def allocate(self, number: int, nbytes: int) -> None:
        flags = self._cl.mem_flags.READ_WRITE
        self._arrays[number] = self._cl.Buffer(self._context, flags, max(1, nbytes))

    def free(self, number: int) -> None:
        self._arrays.pop(number).release()

    def write(self, number: int, data: mmap) -> None:
        self._cl.enqueue_copy(self._queue, self._arrays[number], data)

    def read(self, number: int, data: mmap) -> None:
        self._cl.enqueue_copy(self._queue, data, self._arrays[number])

    def load(self, number: int, name: str, binary: bytes) -> None:
        program = self._cl.Program(self._context, binary).build(self._options)
        self._kernels[number] = self._cl.Kernel(program, name)

    def run(self, starts: Sequence[Start], times: int) -> float:
        first: Any = None
        last: Any = None
        for _ in range(times):
            for number, grid, block, _, arguments in starts:
                if 0 in grid:
                    continue
                kernel = self._kernels[number]
                for k, argument in enumerate(arguments):
                    value = self._arrays[argument] if isinstance(argument, int) else argument
                    kernel.set_arg(k, value)
                size = tuple(n * m for n, m in zip(grid, block, strict=True))
                last = self._cl.enqueue_nd_range_kernel(self._queue, kernel, size, block)
                first = first or last
        self._queue.finish()
        return 0.0 if last is None else (last.profile.end - first.profile.start) * 1e-9


class _Cuda(Launcher):
    """A device of CUDA, through its driver.

    Written after the documentation of cuda-bindings 13; it has not run on a device yet.
    """

    def __init__(self, index: int, optimize: bool) -> None:
        super().__init__()
        import ctypes  # noqa: PLC0415

        from cuda.bindings import driver  # noqa: PLC0415 - only a device of CUDA needs it

        self._ctypes, self._driver = ctypes, driver
        self._modules: dict[int, Any] = {}
        self._call("cuInit", 0)
        count = self._call("cuDeviceGetCount")
        if index >= count:
            raise IndexError(f"device {index} does not exist, CUDA has {count}")
        self._device = self._call("cuDeviceGet", index)
        context = self._call("cuDevicePrimaryCtxRetain", self._device)
        self._call("cuCtxSetCurrent", context)
        attributes = driver.CUfunction_attribute
        self._most_shared = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        option = driver.CUjit_option.CU_JIT_OPTIMIZATION_LEVEL
        self._options = ([], []) if optimize else ([option], [0])

    def _call(self, name: str, *args: Any) -> Any:
        """Call a function of the driver; RuntimeError with its name for an error."""
        status, *results = getattr(self._driver, name)(*args)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            _, text = self._driver.cuGetErrorString(status)
            is_old = status == self._driver.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            remedy = "; the driver is too old for this code, update it" if is_old else ""
            raise RuntimeError(f"{name}: {(text or b'').decode()}{remedy}")
        return results[0] if len(results) == 1 else results

    def describe(self) -> str:
        return bytes(self._call("cuDeviceGetName", 256, self._device)).split(b"\0")[0].decode()

    def allocate(self, number: int, nbytes: int) -> None:
        self._arrays[number] = self._call("cuMemAlloc", max(1, nbytes))

    def free(self, number: int) -> None:
        self._call("cuMemFree", self._arrays.pop(number))

    def write(self, number: int, data: mmap) -> None:
        self._call("cuMemcpyHtoD", self._arrays[number], data, len(data))

    def read(self, number: int, data: mmap) -> None:
        self._call("cuMemcpyDtoH", data, self._arrays[number], len(data))

    def load(self, number: int, name: str, binary: bytes) -> None:
        keys, values = self._options
        text = binary + b"\0"
        module = self._call("cuModuleLoadDataEx", text, len(keys), keys, values)
        self._modules[number] = module
        self._kernels[number] = self._call("cuModuleGetFunction", module, name.encode())

    def unload(self, number: int) -> None:
        super().unload(number)
        self._call("cuModuleUnload", self._modules.pop(number))

    def run(self, starts: Sequence[Start], times: int) -> float:
        ctypes = self._ctypes
        begin, end = self._call("cuEventCreate", 0), self._call("cuEventCreate", 0)
        self._call("cuEventRecord", begin, 0)
        for _ in range(times):
            for number, grid, block, shared_bytes, arguments in starts:
                if 0 in grid:
                    continue
                held = [
                    ctypes.c_uint64(int(self._arrays[a]))
                    if isinstance(a, int)
                    else ctypes.create_string_buffer(a, len(a))
                    for a in arguments
                ]
                slots = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
                kernel, place = self._kernels[number], ctypes.addressof(slots)
                allocated = shared_bytes if shared_bytes > STATIC_SHARED_BYTES else 0
                if allocated:
                    self._call("cuFuncSetAttribute", kernel, self._most_shared, allocated)
                self._call("cuLaunchKernel", kernel, *grid, *block, allocated, 0, place, 0)
        self._call("cuEventRecord", end, 0)
        self._call("cuEventSynchronize", end)
        seconds = self._call("cuEventElapsedTime", begin, end) * 1e-3
        self._call("cuEventDestroy", begin)
        self._call("cuEventDestroy", end)
        return float(seconds)


def serve(kind: str, index: int, optimize: bool, connection: Connection, shared: int) -> None:
    """Answer requests until the other side closes the pipe."""
    launcher: Launcher
    try:
        launcher = (_OpenCL if kind == "opencl" else _Cuda)(index, optimize)
    except Exception as problem:  # noqa: BLE001 - the other process raises it
        connection.send((None, f"{type(problem).__name__}: {problem}"))
        return
    connection.send((launcher.describe(), None))
    while True:
        try:
            name, *args = connection.recv()
        except EOFError:
            return
        try:
            if name in ("write", "read"):
                number, nbytes = args
                with mmap(shared, nbytes) as data:
                    result = getattr(launcher, name)(number, data)
            else:
                result = getattr(launcher, name)(*args)
        except Exception as problem:  # noqa: BLE001 - the other process raises it
            connection.send((None, f"{type(problem).__name__}: {problem}"))
        else:
            connection.send((result, None))


if __name__ == "__main__":
    # What runtimes print must not go where a program of the user prints.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    index, optimize, pipe, file = map(int, sys.argv[2:])
    serve(sys.argv[1], index, bool(optimize), Connection(pipe), file)
