"""The process that owns a device: its arrays and its kernels. Run as a program.

    python -P worker.py opencl 0 1 5 6

starts it for device 0 of OpenCL, with optimisation, file descriptor 5 as its end of a pipe, and 6
as a file that both processes map. It imports nothing of
this project, above all no llvmlite: LLVM and the compilers inside of OpenCL runtimes do not work in
one process. What ends this process (a kernel that faults or hangs) costs the arrays of the device,
and nothing else.

A request is a tuple of the name of a method of `Launcher` and its arguments; the answer is a pair
of the result and the text of an error, one of which is None. `write` and `read` are given a number
of bytes instead of the bytes, which are at the front of the file.

Work that is repeated, such as a call of a model, is recorded once, by `record`; running it then
takes one request without arguments of kernels.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from mmap import mmap
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

Place: TypeAlias = tuple[int, int]
"""The number of an array, and an offset in it in bytes."""
Start: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], int, Sequence[Place | bytes]]
"""The number of a kernel, the grid, the block, the bytes of shared memory of a block, and the
arguments: places of arrays, bytes of scalars."""
Copy: TypeAlias = tuple[Place, Place, int]
"""The destination, the source, and the number of bytes."""
Command: TypeAlias = Start | Copy
Enqueue: TypeAlias = Callable[[], Any]
"""Puts a command into the queue of the device; returns the event of its end if there is one."""
ALIGNMENT = 128
"""The alignment of arrays in bytes: the widest type of OpenCL."""
STATIC_SHARED_BYTES = 48 << 10
"""The shared memory that a kernel of CUDA declares; kernels with more have it from the launch."""


class Launcher(ABC):
    """A device: what the host asks of it. Arrays and kernels go by numbers."""

    def __init__(self) -> None:
        self._arrays: dict[int, Any] = {}
        self._kernels: dict[int, Any] = {}
        self._recorded: dict[int, list[Enqueue]] = {}

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
    def write(self, place: Place, data: mmap) -> None:
        """Copy bytes to a place in an array."""

    @abstractmethod
    def read(self, place: Place, data: mmap) -> None:
        """Copy bytes from a place in an array."""

    @abstractmethod
    def load(self, number: int, name: str, binary: bytes) -> None:
        """Load a kernel."""

    def unload(self, number: int) -> None:
        """Drop a kernel."""
        del self._kernels[number]

    def record(self, number: int, commands: Sequence[Command]) -> None:
        """Prepare commands to be run by their number."""
        self._recorded[number] = [
            self._copy(*command) if len(command) == 3 else self._start(command)
            for command in commands
            if len(command) == 3 or 0 not in command[1]
        ]

    def forget(self, number: int) -> None:
        """Drop recorded commands."""
        del self._recorded[number]

    def run(self, number: int, times: int) -> float:
        """Run recorded commands one after the other, all of it several times; return the seconds.

        The seconds are the device's own, from the first start to the last end.
        """
        return self._timed(self._recorded[number] * times)

    @abstractmethod
    def _start(self, start: Start) -> Enqueue:
        """Return the start of a kernel."""

    @abstractmethod
    def _copy(self, destination: Place, source: Place, nbytes: int) -> Enqueue:
        """Return a copy of bytes between arrays, or inside of one."""

    @abstractmethod
    def _timed(self, commands: Sequence[Enqueue]) -> float:
        """Enqueue commands, and wait for the last one; return the seconds they ran."""


class _OpenCL(Launcher):
    """A device of OpenCL that takes SPIR-V.

    Arrays are shared virtual memory, because addresses inside of it may be arguments: a buffer of
    OpenCL would need a sub-buffer for each, whose alignment depends on the device.
    """

    def __init__(self, index: int, optimize: bool) -> None:
        super().__init__()
        import ctypes  # noqa: PLC0415

        import pyopencl as cl  # noqa: PLC0415 - only a device of OpenCL needs it

        self._cl, self._ctypes = cl, ctypes
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
        flags = self._cl.svm_mem_flags.READ_WRITE
        size = max(1, nbytes)
        self._arrays[number] = self._cl.SVMAllocation(self._context, size, ALIGNMENT, flags)

    def free(self, number: int) -> None:
        self._arrays.pop(number).release()

    def _memory(self, place: Place, nbytes: int | None = None) -> Any:
        """Return the memory from a place on, to the end of the array or of a number of bytes."""
        number, offset = place
        array = self._arrays[number]
        size = max(1, array.size - offset if nbytes is None else nbytes)
        return self._cl.SVM((self._ctypes.c_char * size).from_address(array.svm_ptr + offset))

    def write(self, place: Place, data: mmap) -> None:
        self._cl.enqueue_copy(self._queue, self._memory(place, len(data)), data)

    def read(self, place: Place, data: mmap) -> None:
        self._cl.enqueue_copy(self._queue, data, self._memory(place, len(data)))

    def load(self, number: int, name: str, binary: bytes) -> None:
        program = self._cl.Program(self._context, binary).build(self._options)
        self._kernels[number] = program, name

    def _start(self, start: Start) -> Enqueue:
        number, grid, block, _, arguments = start
        kernel = self._cl.Kernel(*self._kernels[number])
        for k, argument in enumerate(arguments):
            kernel.set_arg(k, argument if isinstance(argument, bytes) else self._memory(argument))
        size = tuple(n * m for n, m in zip(grid, block, strict=True))
        enqueue, queue = self._cl.enqueue_nd_range_kernel, self._queue
        return lambda: enqueue(queue, kernel, size, block)

    def _copy(self, destination: Place, source: Place, nbytes: int) -> Enqueue:
        ends = self._memory(destination, nbytes), self._memory(source, nbytes)
        return lambda: self._cl.enqueue_copy(self._queue, *ends, is_blocking=False)

    def _timed(self, commands: Sequence[Enqueue]) -> float:
        events = [enqueue() for enqueue in commands]
        self._queue.finish()
        return (events[-1].profile.end - events[0].profile.start) * 1e-9 if events else 0.0


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

    def _address(self, place: Place) -> int:
        number, offset = place
        return int(self._arrays[number]) + offset

    def write(self, place: Place, data: mmap) -> None:
        self._call("cuMemcpyHtoD", self._address(place), data, len(data))

    def read(self, place: Place, data: mmap) -> None:
        self._call("cuMemcpyDtoH", data, self._address(place), len(data))

    def load(self, number: int, name: str, binary: bytes) -> None:
        keys, values = self._options
        text = binary + b"\0"
        module = self._call("cuModuleLoadDataEx", text, len(keys), keys, values)
        self._modules[number] = module
        self._kernels[number] = self._call("cuModuleGetFunction", module, name.encode())

    def unload(self, number: int) -> None:
        super().unload(number)
        self._call("cuModuleUnload", self._modules.pop(number))

    def _start(self, start: Start) -> Enqueue:
        number, grid, block, shared_bytes, arguments = start
        ctypes, kernel = self._ctypes, self._kernels[number]
        held = [
            ctypes.create_string_buffer(a, len(a))
            if isinstance(a, bytes)
            else ctypes.c_uint64(self._address(a))
            for a in arguments
        ]
        slots = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        allocated = shared_bytes if shared_bytes > STATIC_SHARED_BYTES else 0
        if allocated:
            self._call("cuFuncSetAttribute", kernel, self._most_shared, allocated)

        def enqueue(_: object = held) -> None:  # the slots point to what is held
            place = ctypes.addressof(slots)
            self._call("cuLaunchKernel", kernel, *grid, *block, allocated, 0, place, 0)

        return enqueue

    def _copy(self, destination: Place, source: Place, nbytes: int) -> Enqueue:
        ends = self._address(destination), self._address(source)
        return lambda: self._call("cuMemcpyDtoDAsync", *ends, nbytes, 0)

    def _timed(self, commands: Sequence[Enqueue]) -> float:
        begin, end = self._call("cuEventCreate", 0), self._call("cuEventCreate", 0)
        self._call("cuEventRecord", begin, 0)
        for enqueue in commands:
            enqueue()
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
                place, nbytes = args
                with mmap(shared, nbytes) as data:
                    result = getattr(launcher, name)(place, data)
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
