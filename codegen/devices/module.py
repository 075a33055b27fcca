"""Compiled modules for GPUs: functions to call with arrays of a device, and to time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from codegen.devices.array import DeviceArray, GpuDevice
from codegen.devices.compile import DeviceCode, DeviceFunction, assembly_of
from codegen.devices.launches import flat_launches, number_of, temporaries
from codegen.devices.process import DeviceProcess
from codegen.errors import CodegenError
from codegen.runtime.arguments import ArgumentChecker
from codegen.runtime.array_view import ArrayView
from codegen.runtime.ndarray import Device, check_device
from codegen.runtime.timed_loop import Batch
from codegen.runtime.timing import TimedFunctions
from codegen.signature import Parameter, Signature
from codegen.target import Target
from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType


class GpuModule(TimedFunctions["GpuFunction"]):
    """A module compiled for a GPU: `module["main"](a, b, c)` with arrays of `codegen.array`."""

    def __init__(self, code: DeviceCode) -> None:
        super().__init__({f.signature.name: GpuFunction(f, code.target) for f in code.functions})
        self._code = code

    @staticmethod
    def from_object(data: bytes) -> GpuModule:
        """Load the result of `compile_object`; LinkError for something else."""
        return GpuModule(DeviceCode.from_bytes(data))

    @property
    def target(self) -> Target:
        """The target that the module was compiled for."""
        return self._code.target

    @property
    def object_code(self) -> bytes:
        """The module as an archive, which `from_object` loads without a compiler."""
        return self._code.to_bytes()

    @property
    def entry_func(self) -> GpuFunction:
        """The function called `main`, or the only one."""
        names = list(self._functions)
        return self.get_function(names[0] if len(names) == 1 else "main")

    def __call__(self, *args: Any) -> None:
        """Call the entry function."""
        self.entry_func(*args)

    def inspect_device(self) -> str:
        """Return the kernels as text: PTX, assembly of AMDGPU, or the text form of SPIR-V.

        Raises CodegenError for SPIR-V and AMDGPU of a module that was loaded from a file.
        """
        if self.target.kind == "cuda":
            return "\n".join(
                code.decode() for f in self._code.functions for code in f.kernels.values()
            )
        return assembly_of(self._units().values())

    def inspect_llvm(self, optimized_form: bool = False) -> str:
        """Return the LLVM IR of the kernels, as it was written."""
        if optimized_form:
            raise CodegenError("the LLVM IR of a kernel is shown as it was written")
        return "\n".join(unit.text for unit in self._units().values())

    def _units(self) -> Mapping[str, Any]:
        units = {name: unit for f in self._code.functions for name, unit in f.units.items()}
        if not units:
            raise CodegenError(
                "the module was loaded from kernels, its LLVM IR is gone; inspect the module that "
                "codegen.build returned"
            )
        return units

    def _unknown_message(self, name: str) -> str:
        return f"the module has no function {name!r}; it has {list(self._functions)}"

    def _check_device(self, device: Device | None) -> None:
        check_device(device, self.target.kind)

    def __reduce__(self) -> tuple[Callable[[bytes], GpuModule], tuple[bytes]]:
        """Pickle as the archive."""
        return (GpuModule.from_object, (self.object_code,))

    def __repr__(self) -> str:
        functions = ", ".join(str(f.signature) for f in self._functions.values())
        return f"<compiled module for {self.target}: {functions}>"


@dataclass(frozen=True, slots=True)
class PreparedLaunches:
    """A function with arguments that are checked already."""

    function: GpuFunction
    """Keeps the kernels loaded."""
    device: GpuDevice
    starts: list[tuple[Any, ...]]
    """The kernels in order, in the form of the requests of `codegen.devices.worker`."""
    arrays: list[DeviceArray]
    """The arrays that the kernels use, temporaries included."""

    def __call__(self) -> None:
        """Run the function; ExecutionError if a kernel faults or takes too long."""
        self.time(1)

    def time(self, number: int = 1) -> Batch:
        """Run the function `number` times and return the time that the device measured."""
        for array in self.arrays:
            array.check_alive()
        run, timeout = self.device.process.request, self.device.timeout
        return Batch(number, run("run", self.starts, number, timeout=timeout), 0)

    def flush_non_first(self) -> NoReturn:
        """Refuse to drop arrays from caches."""
        raise CodegenError("the caches of a GPU cannot be flushed; leave f_preproc out")


class GpuFunction:
    """A compiled function; call it with arrays of a device (outputs are written) and scalars."""

    def __init__(self, function: DeviceFunction, target: Target) -> None:
        self._function = function
        self._checker = _DeviceArguments(function.signature, target.kind)
        self._default = GpuDevice(target.kind)
        self._loaded: dict[tuple[DeviceProcess, int], dict[str, int]] = {}
        """The numbers of the kernels in the processes of devices, by process and generation."""

    @property
    def signature(self) -> Signature:
        """The interface of the function."""
        return self._function.signature

    @property
    def name(self) -> str:
        """The name in the module."""
        return self.signature.name

    def __call__(self, *args: Any) -> None:
        """Check the arguments and run; the call returns when the results are there.

        Raises IRTypeError or IRValueError for arguments that do not fit, before anything runs;
        ExecutionError if a kernel faults or runs longer than the device's `timeout`.
        """
        self.prepare(*args)()

    def prepare(self, *args: Any) -> PreparedLaunches:
        """Check the arguments once, for many calls."""
        bound = self._checker.bind(args)
        parameters, symbols = self.signature.parameters, self.signature.symbols
        arrays = [a for a in args if isinstance(a, DeviceArray)]
        device = arrays[0].device if arrays else self._default
        for array in arrays:
            if array.device.process is not device.process:
                raise IRValueError(
                    f"{self.name}: an array is on {array.device} and another on {device}; copy one "
                    "by copyto"
                )
        values = {name: bound.slots[len(parameters) + k] for k, (name, _) in enumerate(symbols)} | {
            p.name: slot
            for p, slot in zip(parameters, bound.slots, strict=False)
            if p.kind == "scalar" and p.dtype.is_integral
        }
        arguments: dict[int | str, int | bytes] = {}
        for k, (parameter, arg) in enumerate(zip(parameters, args, strict=True)):
            is_array = parameter.kind == "buffer"
            arguments[k] = arg.number if is_array else _low_bytes(parameter.dtype, bound.slots[k])
        arguments |= {name: _low_bytes(dtype, values[name]) for name, dtype in symbols}
        for step in temporaries(self._function.steps):
            array = device.empty((number_of(step.nbytes, values),), "uint8")
            arrays.append(array)
            arguments[step.name] = array.number
        numbers = self._kernels_in(device.process)
        starts = [
            (numbers[name], *shape, passed)
            for name, *shape, passed in flat_launches(self._function.steps, values, arguments)
        ]
        return PreparedLaunches(self, device, starts, arrays)

    def _kernels_in(self, process: DeviceProcess) -> dict[str, int]:
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

    def __repr__(self) -> str:
        return f"<compiled function {self.signature}>"


def _low_bytes(dtype: DataType, slot: int) -> bytes:
    return slot.to_bytes(8, "little", signed=True)[: dtype.nbytes]


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
