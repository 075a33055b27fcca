"""Runs of graph functions on a GPU, and the memory that they use there.

The arrays of a frame have addresses of the host, as on a CPU. An array that a run uses is also in
the memory of the GPU, and there it is up to date between any two steps: the first run that uses it
copies it, unless it is memory that the call has not written yet, and the steps `ToHost` and
`ToDevice` copy what steps of Python read and may have written. Arena and weights stay on the GPU,
so a call of a function without such steps copies its arguments and its result only, and not even
these if the arguments are arrays of the device.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from codegen.devices.array import DeviceArray, GpuDevice, bytes_of
from codegen.devices.launches import number_of
from codegen.devices.module import GpuModule, Recording
from codegen.devices.worker import Command, Place
from codegen.runtime.arguments import slot_of
from codegen.runtime.ndarray import Device, NDArray, address_of
from codegen.signature import Dim
from codegen.vm import program as p
from codegen.vm.constants import Constants
from codegen.vm.executable import Executable
from codegen.vm.frame import Frame, Runner
from tensorir.nodes.dtype import DataType

_Key: TypeAlias = "tuple[tuple[Place, ...], tuple[tuple[str, int], ...]]"


class Weights:
    """The constants of an executable in the memory of a GPU, copied on first use.

    They are copied again if the process of the GPU has ended. Several threads may ask for them.
    """

    def __init__(self, constants: Constants, device: GpuDevice) -> None:
        self._constants = constants
        self._device = device
        self._lock = threading.Lock()
        self._generation = -1
        self._arrays: list[DeviceArray] = []

    def place(self, pointer: p.Pointer) -> Place:
        """Return the place of a constant."""
        process, constants = self._device.process, self._constants
        with self._lock:
            process.start()
            if self._generation != process.generation:
                arrays = (constants.block, *constants.arrays)
                self._arrays = [self._device.array(np.ravel(x).view(np.uint8)) for x in arrays]
                self._generation = process.generation
        assert isinstance(pointer.offset, int)
        if pointer.is_far:
            return self._arrays[1 + constants.distances.index(pointer.offset)].number, 0
        return self._arrays[0].number, pointer.offset


@dataclass(slots=True)
class _Region:
    """Memory of the host that is also on the GPU."""

    address: int
    array: DeviceArray
    is_written: bool = False
    """True if a run has written to the array since the call began."""


class DeviceMemory:
    """The memory of a frame on a GPU. Its arrays are kept from call to call."""

    def __init__(self, roots: Roots, frame: Frame) -> None:
        self._roots = roots
        self._frame = frame
        self.generation = roots.device.process.generation
        self._arrays: dict[int, DeviceArray] = {}
        """The arrays by slot."""
        self._regions: list[_Region] = []
        """The memory that this call uses on the GPU."""
        self.results: dict[int, DeviceArray] = {}
        """The results of this call that stay on the GPU, and its arguments there, by addresses."""
        self.recorded: dict[DeviceRun, tuple[_Key, Recording, list[DeviceArray]]] = {}
        """What each run records, for which places and sizes, and the temporaries of its kernels."""

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, without weights and the temporaries of kernels."""
        return sum(array.nbytes for array in self._arrays.values())

    def is_of_this_call(self) -> bool:
        """Return True if the call has begun to use the memory, and the process still has it."""
        if self._regions:
            self._roots.device.process.check_alive(self.generation)
        return bool(self._regions)

    def begin(self) -> None:
        """Begin a call: provide memory on the device for the arena and the arrays it creates.

        Nothing is copied, because the call has not written to them yet. Arguments that are on the
        device are used there.
        """
        for slot in self._roots.unwritten:
            self._add(slot)
        self.results = {}
        for array in self._frame.copies:
            owner = getattr(array, "_owner", None)
            if isinstance(owner, DeviceArray):
                self.results[address_of(array)] = owner
                self._regions.append(_Region(address_of(array), owner, is_written=True))

    def give_results(self, registers: Sequence[int]) -> None:
        """Copy results and arguments that the call has changed to where the caller has them."""
        frame, roots = self._frame, self._roots
        for number in registers:
            value, made = frame.registers[number], roots.results.get(number)
            if made is not None and frame.results_stay:
                self._keep(value, made.dtype)
                continue
            for array in _arrays_in([value]):
                if number in roots.copied or address_of(array) not in self.results:
                    self.copy(array, to_host=True)

    def _keep(self, array: NDArray, dtype: str) -> None:
        """Copy a result within the memory of the GPU: the next call writes to the same place."""
        region, device = self._region(address_of(array), array.nbytes), self._roots.device
        assert region is not None
        kept = self.results[address_of(array)] = device.empty(array.shape, dtype)
        if kept.nbytes:
            start = address_of(array) - region.address
            places = (kept.number, 0), (region.array.number, start)
            Recording(device, [(*places, kept.nbytes)]).run()

    def end(self) -> None:
        """End the call: arguments and results of the next one are others."""
        self._regions.clear()

    def place(self, slot: int, *, writes: bool) -> Place:
        """Return the place of the array in a slot, for a run that may write to it.

        The array is copied to the GPU if it is not there.
        """
        address = self._frame.slots[slot]
        region = self._region(address, self._roots.nbytes(slot, self._frame.sizes))
        if region is None:
            region = self._add(slot)
            array = NDArray.at(address, (region.array.nbytes,), np.uint8)
            region.array.copyfrom(array)
        region.is_written |= writes
        return region.array.number, address - region.address

    def copy(self, array: NDArray, *, to_host: bool) -> None:
        """Copy an array to the GPU if it is there, or to the host if a run has written it."""
        region = self._region(address_of(array), array.nbytes)
        if region is None or (to_host and not region.is_written):
            return
        place = region.array.number, address_of(array) - region.address
        process = self._roots.device.process
        (process.read if to_host else process.write)(place, bytes_of(array))

    def _region(self, address: int, nbytes: int) -> _Region | None:
        for region in self._regions:
            end = region.address + region.array.nbytes
            if region.address <= address and address + nbytes <= end:
                return region
        return None

    def _add(self, slot: int) -> _Region:
        nbytes = self._roots.nbytes(slot, self._frame.sizes)
        array = self._arrays.get(slot)
        if array is None or array.nbytes != nbytes:
            array = self._arrays[slot] = self._roots.device.empty((nbytes,), "uint8")
        self._regions.append(_Region(self._frame.slots[slot], array))
        return self._regions[-1]


class Roots:
    """The arrays of the frames of a program by their slots."""

    def __init__(self, program: p.Program, device: GpuDevice) -> None:
        self.device = device
        self.constants_slot = program.constants_slot
        self._known: dict[int, tuple[tuple[Dim, ...], int]] = {}
        """The extents of each array, and the bytes of an element."""
        self._known[program.arena_slot] = (program.arena_bytes,), 1
        made = [*program.results, *program.temporaries]
        self.unwritten = [program.arena_slot, *(array.slot for array in made)]
        """The memory that no one has written to when a call begins."""
        self.results = {array.register: array for array in program.results}
        self.copied = set(p.copied_registers(program.result))
        """The registers whose arrays the host copies to make the result."""
        received = [*program.parameters]
        for step in program.all_steps():
            if isinstance(step, p.Allocate):
                made.append(step.array)
            elif isinstance(step, p.Match):
                received.append(step.pattern)
            elif isinstance(step, (p.CallLibrary, p.CallGraph)) and step.result is not None:
                received.append(step.result)
        for array in (*made, *p.leaves(received)):
            if isinstance(array, (p.Fresh, p.TensorPattern)) and array.slot != p.NONE:
                assert array.shape is not None
                assert array.dtype is not None
                self._known[array.slot] = array.shape, DataType(array.dtype).nbytes

    def nbytes(self, slot: int, sizes: dict[str, int]) -> int:
        """Return the bytes of an array."""
        shape, itemsize = self._known[slot]
        return math.prod(number_of(dim, sizes) for dim in shape) * itemsize

    def memory(self, frame: Frame) -> DeviceMemory:
        """Return the memory of a frame for a run.

        It is new if the process of the GPU has ended since the last call; ExecutionError if that
        happened during this call.
        """
        process = self.device.process
        process.start()
        memory = frame.device_memory
        if memory is not None and memory.is_of_this_call():
            return memory
        if memory is None or memory.generation != process.generation:
            memory = frame.device_memory = DeviceMemory(self, frame)
        memory.begin()
        return memory


@dataclass(slots=True, eq=False)
class DeviceRun:
    """A run of kernels, which stay recorded until an array or a size changes."""

    calls: Sequence[p.KernelCall | p.MemoryCopy]
    module: GpuModule
    weights: Weights
    roots: Roots
    _used: dict[int, bool] = field(default_factory=dict)
    """The slots of arrays, with True for those that are written."""

    def __post_init__(self) -> None:
        for pointer, is_written in self._pointers():
            self._used[pointer.slot] = is_written or self._used.get(pointer.slot, False)
        self._used.pop(self.roots.constants_slot, None)

    def _pointers(self) -> Iterator[tuple[p.Pointer, bool]]:
        for call in self.calls:
            if isinstance(call, p.MemoryCopy):
                yield call.source, False
                yield call.destination, True
                continue
            parameters = self.module[call.function].signature.parameters
            for parameter, argument in zip(parameters, call.arguments, strict=False):
                if isinstance(argument, p.Pointer):
                    yield argument, parameter.written

    def __call__(self, frame: Frame) -> None:
        """Run the kernels; ExecutionError if one faults or takes too long."""
        memory = self.roots.memory(frame)
        places = {s: memory.place(s, writes=written) for s, written in self._used.items()}
        key = tuple(places.values()), tuple(frame.sizes.items())
        known = memory.recorded.get(self)
        if known is None or known[0] != key:
            known = memory.recorded[self] = key, *self._record(places, frame.sizes)
        known[1].run()

    def _record(
        self, places: Mapping[int, Place], sizes: dict[str, int]
    ) -> tuple[Recording, list[DeviceArray]]:
        device = self.roots.device
        commands: list[Command] = []
        scratch: list[DeviceArray] = []
        free: list[DeviceArray] = []

        def allocate(nbytes: int) -> Place:
            found = next((array for array in free if array.nbytes >= nbytes), None)
            if found is None:
                found = device.empty((nbytes,), "uint8")
                scratch.append(found)
            else:
                free.remove(found)
            return found.number, 0

        def place(pointer: p.Pointer) -> Place:
            if pointer.slot == self.roots.constants_slot:
                return self.weights.place(pointer)
            number, start = places[pointer.slot]
            return number, start + number_of(pointer.offset, sizes)

        def slot(argument: p.Pointer | p.Literal | p.Size, dtype: DataType) -> Place | int:
            if isinstance(argument, p.Pointer):
                return place(argument)
            if isinstance(argument, p.Size):
                return slot_of(number_of(argument.value, sizes), dtype)
            return slot_of(argument.value, dtype)

        for call in self.calls:
            if isinstance(call, p.MemoryCopy):
                ends = place(call.destination), place(call.source)
                commands.append((*ends, number_of(call.nbytes, sizes)))
                continue
            free[:] = scratch  # one kernel runs after the other
            function = self.module.get_function(call.function)
            slots = [slot(a, d) for a, d in zip(call.arguments, function.dtypes, strict=True)]
            commands += function.starts(device.process, slots, allocate)
        return Recording(device, commands), scratch


def device_of(executable: Executable, device: Device | None) -> GpuDevice:
    """Return the device that runs an executable for a GPU: the given one, else the first."""
    return device if isinstance(device, GpuDevice) else GpuDevice(executable.module.target.kind)


def device_steps(
    executable: Executable, chosen: GpuDevice
) -> Callable[[p.Run | p.ToHost | p.ToDevice, p.Program], Runner]:
    """Return the link of the steps that use a GPU, with the weights of an executable there."""
    module = executable.module
    assert isinstance(module, GpuModule)
    weights = Weights(executable.constants, chosen)
    roots: dict[str, Roots] = {}

    def linked(step: p.Run | p.ToHost | p.ToDevice, program: p.Program) -> Runner:
        if program.name not in roots:
            roots[program.name] = Roots(program, chosen)
        if isinstance(step, p.Run):
            return DeviceRun(step.calls, module, weights, roots[program.name])
        if isinstance(step, p.ToHost):
            return partial(_copy_to_host, step, roots[program.name])
        return partial(_copy_to_device, step, roots[program.name])

    return linked


def _copy_to_host(step: p.ToHost, roots: Roots, frame: Frame) -> None:
    memory = roots.memory(frame)
    if step.ends:
        memory.give_results(step.registers)
        memory.end()
        return
    for array in _arrays_in([frame.registers[k] for k in step.registers]):
        memory.copy(array, to_host=True)


def _copy_to_device(step: p.ToDevice, roots: Roots, frame: Frame) -> None:
    # Arrays that the host writes first must be copied.
    memory = roots.memory(frame)
    for array in _arrays_in([frame.registers[k] for k in step.registers]):
        memory.copy(array, to_host=False)


def _arrays_in(values: Sequence[Any]) -> Iterator[NDArray]:
    for value in values:
        if isinstance(value, tuple):
            yield from _arrays_in(value)
        elif isinstance(value, NDArray) and value.flags.carray:
            yield value
