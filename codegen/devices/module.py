"""Compiled modules for GPUs: functions to call with arrays of a device, and to time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from codegen.devices.array import DeviceArray, GpuDevice
from codegen.devices.compile import DeviceCode, DeviceFunction, assembly_of
from codegen.devices.launches import Argument, flat_launches, number_of, temporaries
from codegen.devices.process import DeviceProcess
from codegen.errors import CodegenError
from codegen.runtime.arguments import ArgumentChecker, BoundArguments
from codegen.runtime.array_view import ArrayView
from codegen.runtime.function import Function, PreparedCall
from codegen.runtime.jit import LoadedCode
from codegen.runtime.module import Module
from codegen.runtime.ndarray import Device, check_device
from codegen.runtime.timed_loop import Batch
from codegen.signature import Parameter, Signature
from codegen.target import Target
from tensorir.errors import IRValueError

if TYPE_CHECKING:
    from codegen.devices.worker import Command, Place, Start


class GpuModule(Module):
    """A module compiled for a GPU: `module["main"](a, b, c)` with arrays of `codegen.array`."""

    def __init__(self, code: DeviceCode) -> None:
        self._device_code = code
        refusal = "its kernels are in the process of a device"
        loaded = LoadedCode(code.info, {}, {}, None, refusal=refusal)
        super().__init__(loaded, {f.signature.name: GpuFunction(f, loaded) for f in code.functions})

    @property
    def object_code(self) -> bytes:
        """The result of `compile_object`, which `from_object` loads without a compiler."""
        return self._device_code.to_bytes()

    def inspect_device(self) -> str:
        """Return the kernels as text: PTX, assembly of AMDGPU, or the text form of SPIR-V.

        Raises CodegenError for SPIR-V and AMDGPU of a module that was loaded from a file.
        """
        if self.target.kind == "cuda":
            return "\n".join(
                code.decode() for f in self._device_code.functions for code in f.kernels.values()
            )
        return assembly_of(self._units().values())

    def inspect_asm(self) -> str:
        """Return `inspect_device`."""
        return self.inspect_device()

    def inspect_llvm(self, optimized_form: bool = False) -> str:
        """Return the LLVM IR of the kernels, as it was written."""
        if optimized_form:
            raise CodegenError("the LLVM IR of a kernel is shown as it was written")
        return "\n".join(unit.text for unit in self._units().values())

    def get_function(self, name: str) -> GpuFunction:
        """Return a function; IRValueError if there is none of that name."""
        function = super().get_function(name)
        assert isinstance(function, GpuFunction)
        return function

    def _units(self) -> Mapping[str, Any]:
        functions = self._device_code.functions
        units = {name: unit for f in functions for name, unit in f.units.items()}
        if not units:
            raise CodegenError(
                "the module was loaded from kernels, its LLVM IR is gone; inspect the module that "
                "codegen.build returned"
            )
        return units

    def _check_device(self, device: Device | None) -> None:
        check_device(device, self.target.kind)


class Recording:
    """Commands that the process of a device keeps, and runs in one request."""

    def __init__(self, device: GpuDevice, commands: Sequence[Command]) -> None:
        self._device = device
        process = device.process
        self._number = process.next_number()
        process.request("record", self._number, commands)
        self._generation = process.generation
        weakref.finalize(self, process.discard, "forget", self._number, self._generation)

    def run(self, times: int = 1) -> float:
        """Run all of it several times; return the seconds that the device measured.

        Raises ExecutionError if a kernel faults or takes too long, or if the process has ended.
        """
        process = self._device.process
        process.check_alive(self._generation)
        return float(process.request("run", self._number, times, timeout=self._device.timeout))


@dataclass(frozen=True, slots=True)
class PreparedLaunches(PreparedCall):
    """A function with arguments that are checked already."""

    recording: Recording
    arrays: list[DeviceArray]
    """The arrays that the kernels use, temporaries included; they are kept."""

    def __call__(self) -> None:
        """Run the function; ExecutionError if a kernel faults or takes too long."""
        self.recording.run()

    def time(self, number: int = 1) -> Batch:
        """Run the function `number` times and return the time that the device measured."""
        return Batch(number, self.recording.run(number), 0)

    def flush_non_first(self) -> NoReturn:
        """Refuse to drop arrays from caches."""
        raise CodegenError("the caches of a GPU cannot be flushed; leave f_preproc out")


class GpuFunction(Function):
    """A compiled function; call it with arrays of a device (outputs are written) and scalars.

    A call returns when the results are there. It raises ExecutionError if a kernel faults or runs
    longer than the device's `timeout`.
    """

    def __init__(self, function: DeviceFunction, code: LoadedCode) -> None:
        super().__init__(code, function.signature)
        self._function = function
        kind = Target(code.info.target).kind
        self._checker = _DeviceArguments(self.signature, kind)
        self._default = GpuDevice(kind)
        parameters, symbols = self.signature.parameters, self.signature.symbols
        self.dtypes = [*(p.dtype for p in parameters), *(dtype for _, dtype in symbols)]
        """The dtypes of the parameters, and of the symbolic extents."""
        self._loaded: dict[tuple[DeviceProcess, int], dict[str, int]] = {}
        """The numbers of the kernels in the processes of devices, by process and generation."""

    def run(self, bound: BoundArguments) -> None:
        """Run on checked arguments."""
        self._prepared(bound)()

    def prepare(self, *args: Any) -> PreparedLaunches:
        """Check the arguments once, for many calls."""
        return self._prepared(self._checker.bind(args))

    def _prepared(self, bound: BoundArguments) -> PreparedLaunches:
        args, parameters = bound.owners, self.signature.parameters
        arrays = [a for a in args if isinstance(a, DeviceArray)]
        device = arrays[0].device if arrays else self._default
        for array in arrays:
            if array.device.process is not device.process:
                raise IRValueError(
                    f"{self.name}: an array is on {array.device} and another on {device}; copy one "
                    "by copyto"
                )
        slots = [
            (arg.number, 0) if parameter.kind == "buffer" else slot
            for parameter, arg, slot in zip(parameters, args, bound.slots, strict=False)
        ]
        slots += bound.slots[len(slots) : len(self.dtypes)]

        def allocate(nbytes: int) -> Place:
            arrays.append(device.empty((nbytes,), "uint8"))
            return arrays[-1].number, 0

        starts = self.starts(device.process, slots, allocate)
        return PreparedLaunches(self, bound, Recording(device, starts), arrays)

    def starts(
        self,
        process: DeviceProcess,
        slots: Sequence[Place | int],
        allocate: Callable[[int], Place],
    ) -> list[Start]:
        """Return the starts of kernels of a call, in the form of the requests to a process.

        `slots` has a place or the bits of a scalar for each parameter, then the symbolic extents.
        `allocate` returns the memory of temporaries, of so many bytes.
        """
        parameters, symbols = self.signature.parameters, self.signature.symbols
        keys: list[tuple[int | str, str]] = [(k, p.name) for k, p in enumerate(parameters)]
        keys += [(name, name) for name, _ in symbols]
        values: dict[str, int] = {}
        arguments: dict[int | str, Argument] = {}
        for (key, name), dtype, slot in zip(keys, self.dtypes, slots, strict=True):
            if isinstance(slot, int):
                arguments[key] = slot.to_bytes(8, "little", signed=True)[: dtype.nbytes]
                values[name] = slot
            else:
                arguments[key] = slot
        steps = self._function.steps
        for step in temporaries(steps):
            arguments[step.name] = allocate(number_of(step.nbytes, values))
        numbers = self.kernels_in(process)
        return [
            (numbers[name], grid, block, shared_bytes, passed)
            for name, grid, block, shared_bytes, passed in flat_launches(steps, values, arguments)
        ]

    def kernels_in(self, process: DeviceProcess) -> dict[str, int]:
        """Return the numbers of the kernels in a process, which unloads them with this function."""
        process.start()
        key = process, process.generation
        numbers = self._loaded.get(key)
        if numbers is None:
            numbers = {}
            for name, binary in self._function.kernels.items():
                numbers[name] = number = process.next_number()
                process.request("load", number, name, binary)
                weakref.finalize(self, process.discard, "unload", number, process.generation)
            self._loaded[key] = numbers
        return numbers


class _DeviceArguments(ArgumentChecker):
    """The checks of arguments, of arrays in the memory of one device."""

    def __init__(self, signature: Signature, kind: str) -> None:
        super().__init__(signature)
        self._kind = kind

    def _view(self, parameter: Parameter, arg: Any) -> ArrayView:
        if not isinstance(arg, DeviceArray):
            self._fail_type(
                parameter,
                f"expected an array of the device, got {type(arg).__name__}; pass "
                f"codegen.array(x, codegen.device({self._kind!r})) and read results by .numpy()",
            )
        if arg.device.kind != self._kind:
            self._fail_value(
                parameter, f"the array is on {arg.device}, the code is for {self._kind}"
            )
        expected = parameter.dtype.element
        if arg.dtype is not expected and arg.dtype != expected.to_numpy().name:
            self._fail_type(parameter, f"expected an array of {expected}, got {arg.dtype}")
        return ArrayView(arg.address, arg.dtype, arg.shape, None, False, arg)
