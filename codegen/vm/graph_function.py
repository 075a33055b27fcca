"""Callable graph functions: arguments are put into a frame, steps run, the result is taken out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from codegen.runtime.array_view import is_negated, view_of
from codegen.runtime.bfloat16_array import BFloat16Array
from codegen.runtime.ndarray import NDArray, address_of, aligned_array
from codegen.runtime.overlap import Span, overlap
from codegen.runtime.timed_loop import Batch, flush_views, time_calls
from codegen.vm import program as p
from codegen.vm.constants import Constants
from codegen.vm.frame import Allocator, Frame, Runner, copied, guarded_array, needs_stack, run_steps
from codegen.vm.matching import Matcher, as_array, is_on_device
from tensorir.errors import IRTypeError, IRValueError
from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes.dtype import DataType

if TYPE_CHECKING:
    from codegen.devices.array import DeviceArray, GpuDevice


class GraphFunction:
    """A graph function of a virtual machine: `vm["main"](x)`.

    Arguments are arrays (NumPy's, or anything with `__dlpack__` or `__array_interface__`), tuples
    of them, shapes and numbers, as the parameters say; nested lists of numbers and single ones
    become arrays of the parameter's dtype. An array that is not contiguous, or whose negation torch
    defers, is copied; it is an error if the function writes to it, or if an array that it writes
    shares memory with another argument. The result has new memory: an `NDArray`, a `BFloat16Array`
    for bfloat16, or nested tuples of them. Several threads may call it, and library functions that
    it calls may call it again: each call has a separate frame, which later calls reuse. The `state`
    is common to all calls: calls of a function with state must not overlap.

    A function that runs on a GPU takes arrays of that `device`, too, without copying them, and then
    its results are arrays of the device. Its state is on the device.
    """

    def __init__(
        self,
        program: p.Program,
        constants: Constants,
        link: Link,
        guard_pages: bool = False,
        device: GpuDevice | None = None,
    ) -> None:
        self.program = program
        self.device = device
        self._constants = constants
        self._guard_pages = guard_pages
        self.allocate: Allocator = guarded_array if guard_pages else aligned_array
        self._free: list[Frame] = []
        self._has_sizes = bool(program.sizes)
        is_quick = not guard_pages and not self._has_sizes
        used = p.registers_read(program)
        self._quick = _quick_checks(program, used) if is_quick else None
        self._fresh = [_fresh_array(array) for array in program.results] if is_quick else None
        prepared = {register for register, _ in program.prepared}
        prepared |= {array.register for array in program.temporaries}
        self._transient = [k for k in range(program.registers) if k not in prepared]
        arguments = {
            x.register for x in p.leaves(program.parameters) if x.register not in used
        }  # entered only where an argument has to be converted
        self._often_transient = [k for k in self._transient if k not in arguments]
        arrays = {array.register: array for array in program.results}
        self._leaves = [
            arrays.get(part.number) if isinstance(part, p.Register) else None
            for part in p.parts_of(program.result)
        ]
        """The memory of each part of the result, None for a part without separate memory."""
        self._beside_written = _beside_written(program)
        self.link = link
        self.state: dict[str, NDArray | DeviceArray] = {}
        """The arrays of parameters that are kept from call to call, by name. They may be read,
        written, and replaced by other arrays, such as those of another function."""
        self.reset_state()
        self.steps = [link(step, self) for step in program.steps]
        self._needs_stack = needs_stack(self.steps)

    @property
    def name(self) -> str:
        """The name in the module."""
        return self.program.name

    def reset_state(self) -> None:
        """Give the state new arrays with its first contents."""
        program = self.program
        if program.state:
            frame = Frame(program, self._constants, self.allocate)
            kept = program.parameters[len(program.arguments) :]
            for pattern, first in zip(kept, program.state, strict=True):
                value = copied(frame.evaluate(first, {}))
                if self.device is not None:
                    assert isinstance(pattern, p.TensorPattern)
                    value = self._put(value, pattern.dtype or str(value.dtype))
                self.state[pattern.name] = value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Check the arguments, given by position or by name, run, return the result.

        Raises IRTypeError or IRValueError for arguments that do not fit, before anything runs;
        LibraryFunctionError for an error in a library function; ExecutionError if memory runs
        out or calls are nested too deeply; AssertionFailedError for an assertion of a kernel.
        """
        if kwargs:
            args = self.positional(args, kwargs)
        frame = self._frame_of_call(args)
        if self.device is None or not _any_on_device(args):
            return self._result_for_user(self.finished(self.run(frame)))
        frame.results_stay = True
        memory = self.run(frame).device_memory
        assert memory is not None
        kept = memory.results
        return self._on_device(self._result_for_user(self.finished(frame)), kept)

    def _on_device(self, value: Any, kept: Mapping[int, DeviceArray]) -> Any:
        """Return a result with arrays of the device: `kept` ones by addresses, copies of others."""
        if isinstance(value, tuple):
            return tuple(self._on_device(part, kept) for part in value)
        bits = value.bits if isinstance(value, BFloat16Array) else value
        if not isinstance(bits, NDArray):
            return value
        found = kept.get(address_of(bits))
        return self._put(bits, str(value.dtype)) if found is None else found

    def _put(self, array: NDArray, dtype: str) -> DeviceArray:
        assert self.device is not None
        return self.device.empty(array.shape, dtype).copyfrom(array)

    def _frame_of_call(self, args: Sequence[Any]) -> Frame:
        """Return a frame for a call of the user, with the state."""
        frame = self.entered((*args, *self.state.values()) if self.state else args, None)
        if self._beside_written:
            self._check_overlap(frame)
        return frame

    def _check_overlap(self, frame: Frame) -> None:
        """Raise IRValueError if an array that is written shares memory with another argument."""
        spans = []
        for array, itemsize in self._beside_written:
            start = frame.slots[array.slot]
            end = start + math.prod(frame.shape_of(array, frame.sizes)) * itemsize
            spans.append(Span(start, end, array.written, array.name))
        found = overlap(spans)
        if found is not None:
            raise IRValueError(
                f"{self.name}: {found} share memory, and the function writes to one of them; "
                "pass a copy"
            )

    def positional(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return all arguments in the order of the parameters.

        Raises IRTypeError for missing, repeated and unknown arguments.
        """
        names = [pattern.name for pattern in self.program.arguments]
        problems = [
            f"{what} {', '.join(found)}"
            for what, found in (
                ("no parameter is called", [name for name in kwargs if name not in names]),
                ("given twice:", [name for name in names[: len(args)] if name in kwargs]),
                ("missing:", [name for name in names[len(args) :] if name not in kwargs]),
            )
            if found
        ]
        if problems or len(args) > len(names):
            raise IRTypeError(
                f"{self.name} takes {len(names)} argument(s) ({', '.join(names)}), got {len(args)} "
                f"by position and {len(kwargs)} by name"
                + "".join(f"; {problem}" for problem in problems)
            )
        return (*args, *(kwargs[name] for name in names[len(args) :]))

    def prepare(self, *args: Any) -> PreparedRun:
        """Check the arguments once, for many runs on the same frame."""
        return PreparedRun(self, self._frame_of_call(args), args)

    def run(self, frame: Frame) -> Frame:
        """Run the steps on a frame that holds arguments; return it."""
        try:
            if self._needs_stack:
                run_steps(self.steps, frame)
                return frame
            for step in self.steps:
                step(frame)
        except BaseException:
            if frame.device_memory is not None:
                frame.device_memory.end()
            raise
        return frame

    def entered(
        self, args: Sequence[Any], caller: Frame | None, outputs: Sequence[NDArray] = ()
    ) -> Frame:
        """Return a frame with the arguments and with memory for the results.

        `outputs` are arrays of the caller that receive the tensors of the result.
        """
        try:
            frame = self._free.pop()
        except IndexError:
            frame = Frame(self.program, self._constants, self.allocate)
            if not self._has_sizes:
                frame.prepare(self.program, {}, self.allocate)
        if caller is None:
            frame.depth = 0
        else:
            frame.depth, frame.caller = caller.depth + 1, caller
        frame.is_quick = self._enter_quickly(frame, args)
        if not frame.is_quick:
            self._enter(frame, args)
        if outputs:
            self._enter_outputs(frame, outputs)
            return frame
        if self._fresh is None:
            for array in self.program.results:
                frame.place(array, frame.sizes, self.allocate)
            return frame
        slots, registers = frame.slots, frame.registers
        try:
            for slot, register, nbytes, shape, dtype in self._fresh:
                raw = _empty(nbytes, _BYTE)
                address = address_of(raw)
                start = -address & _ALIGN_MASK
                slots[slot] = address + start
                registers[register] = _new(NDArray, shape, dtype, raw, start)
        except (MemoryError, ValueError):
            for array in self.program.results:
                frame.place(
                    array, frame.sizes, self.allocate
                )  # raises an error that names the array
        return frame

    def _enter_outputs(self, frame: Frame, outputs: Sequence[NDArray]) -> None:
        """Use given arrays as the memory of results."""
        for array, output in zip(self._leaves, outputs, strict=True):
            if array is None:
                continue
            self._check_output(frame.shape_of(array, frame.sizes), output)
            frame.slots[array.slot] = address_of(output)
            frame.registers[array.register] = output

    def _enter_quickly(self, frame: Frame, args: Sequence[Any]) -> bool:
        """Enter arrays of exactly the expected shape, dtype and layout; return False for others."""
        quick = self._quick
        if quick is None or len(args) != len(quick):
            return False
        slots, registers = frame.slots, frame.registers
        for (shape, dtype, slot, register), arg in zip(quick, args, strict=True):
            kind = type(arg)
            if (
                (kind is _ARRAY or kind is NDArray)
                and arg.dtype is dtype
                and arg.shape == shape
                and arg.flags.carray
            ):
                slots[slot] = address_of(arg)
                if register >= 0:
                    registers[register] = arg if kind is NDArray else arg.view(NDArray)
            else:
                return False
        return True

    def _enter(self, frame: Frame, args: Sequence[Any]) -> None:
        program = self.program
        if len(args) != len(program.parameters):
            names = ", ".join(x.name for x in program.arguments)
            raise IRTypeError(
                f"{self.name} takes {len(program.arguments)} argument(s) ({names}), "
                f"got {len(args) - len(program.state)}"
            )
        sizes: dict[str, int] = {}
        matcher = Matcher("", frame.slots, frame.registers, sizes, frame.copies, self.device)
        for k, (pattern, arg) in enumerate(zip(program.parameters, args, strict=True)):
            matcher.place = f"{self.name}: argument {k + 1} "
            is_copied = self._guard_pages and not _is_written(pattern)
            matcher.match(pattern, self._guarded(arg) if is_copied else arg)
        matcher.finish(program.sizes)
        if not self._has_sizes:
            return
        frame.sizes = sizes
        if frame.prepared_for != sizes:
            frame.prepare(program, sizes, self.allocate)

    def _guarded(self, arg: Any) -> Any:
        if isinstance(arg, (tuple, list)):
            return tuple(self._guarded(part) for part in arg)
        if isinstance(arg, (np.generic, int, float)) or is_negated(arg):
            return arg
        array = as_array(arg)
        if array is None or not array.flags.carray:
            return arg
        made = guarded_array(array.shape, array.dtype)
        made[...] = array
        return made

    def finished(self, frame: Frame) -> Any:
        """Take the result out of a frame, and keep the frame for another call.

        If a library function kept an array over memory of the frame, the frame is not used again,
        so that the array does not change.
        """
        registers = frame.registers
        result = self.program.result
        if type(result) is p.Register:
            value = registers[result.number]
        else:
            value = frame.evaluate(result, frame.sizes)
        self._leave(frame)
        return value

    def finished_into(self, frame: Frame, outputs: Sequence[NDArray]) -> None:
        """Copy the parts of the result that are not yet in the arrays given to `entered`."""
        parts = p.parts_of(self.program.result)
        for array, part, output in zip(self._leaves, parts, outputs, strict=True):
            if array is None:
                held = part.number if isinstance(part, p.CopyOf) else None
                source = frame.evaluate(part if held is None else p.Register(held), frame.sizes)
                self._check_output(source.shape, output)
                np.copyto(output, source)
        self._leave(frame)

    def _check_output(self, shape: tuple[int, ...], output: NDArray) -> None:
        if shape != output.shape:
            raise IRValueError(
                f"{self.name}: the result has shape {shape}, the output array {output.shape}"
            )

    def _leave(self, frame: Frame) -> None:
        registers = frame.registers
        for register in self._often_transient if frame.is_quick else self._transient:
            registers[register] = None
        frame.caller = None
        if frame.copies:
            frame.copies.clear()
            frame.results_stay = False
        if not (frame.lent and frame.is_held()):
            self._free.append(frame)

    def result_of(self, frame: Frame) -> Any:
        """Return a copy of the result in a frame."""
        return self._result_for_user(copied(frame.evaluate(self.program.result, frame.sizes)))

    def _result_for_user(self, value: Any) -> Any:
        """Return the result for the user, with bits of bfloat16 as bfloat16 arrays."""
        kinds = self.program.bfloat16
        return value if kinds is False else _as_bfloat16(value, kinds)

    def held_bytes(self) -> int:
        """Return the bytes of arenas and temporaries that are kept for later calls."""
        return sum(frame.nbytes for frame in self._free)

    def native_entry(self) -> int | None:
        """Return the address of the machine code if the function is one run of it."""
        return getattr(self.steps[0], "entry", None) if len(self.steps) == 1 else None

    def __repr__(self) -> str:
        names = ", ".join(x.name for x in self.program.parameters)
        return f"<graph function {self.name}({names})>"


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A graph function with checked arguments, to run and time; results go to the same memory."""

    _function: GraphFunction
    _frame: Frame
    _args: Sequence[Any]
    """Their addresses are in the slots."""

    def __call__(self) -> Any:
        """Run the function; return a copy of the result."""
        self._function.run(self._frame)
        return self._function.result_of(self._frame)

    def time(self, number: int = 1) -> Batch:
        """Run `number` times and time all runs together.

        One run of machine code is timed in a compiled loop; other functions in a loop in Python,
        whose own time counts.
        """
        function, frame = self._function, self._frame
        entry = function.native_entry()
        if entry is not None:
            batch = time_calls(entry, frame.slots, number)
            if batch.status:
                function.run(frame)  # raises the error of the status
            return batch
        start = time.perf_counter()
        for _ in range(number):
            function.run(frame)
        return Batch(number, time.perf_counter() - start, 0)

    def flush_non_first(self) -> None:
        """Drop the argument arrays, except the first, from all caches (x86 only)."""
        flush_views(map(view_of, self._args[1:]))


_ARRAY: Final = np.ndarray
_BYTE: Final = np.dtype(np.uint8)
_ALIGN_MASK: Final = ALIGNMENT - 1
_empty: Final = np.empty
_new: Final[Callable[..., NDArray]] = np.ndarray.__new__
Link: TypeAlias = Callable[[p.Step, GraphFunction], Runner]
"""Turns a step of a function into a callable; see `codegen.vm.steps.linked_functions`."""
_Quick = tuple[tuple[int, ...], "np.dtype[Any]", int, int]
_Fresh = tuple[int, int, int, tuple[int, ...], "np.dtype[Any]"]


def _fresh_array(array: p.Fresh) -> _Fresh:
    """Return slot, register, bytes with room to align, shape and dtype of a result."""
    dtype = DataType(array.dtype).to_numpy()
    shape: Any = array.shape
    return array.slot, array.register, math.prod(shape) * dtype.itemsize + ALIGNMENT, shape, dtype


def _quick_checks(program: p.Program, used: set[int]) -> list[_Quick] | None:
    """Return shape, dtype, slot and register of each parameter, if all are static tensors.

    The register is -1 where nothing reads it.
    """
    checks: list[_Quick] = []
    for pattern in program.parameters:
        if (
            not isinstance(pattern, p.TensorPattern)
            or pattern.shape is None
            or pattern.dtype is None
            or not all(isinstance(n, int) for n in pattern.shape)
        ):
            return None
        register = pattern.register if pattern.register in used else p.NONE
        dtype = DataType(pattern.dtype).to_numpy()
        checks.append((pattern.shape, dtype, pattern.slot, register))  # type: ignore[arg-type]
    return checks


def _beside_written(program: p.Program) -> list[tuple[p.TensorPattern, int]]:
    """Return the array parameters with the bytes of an element; none if no array is written."""
    arrays = [
        (x, DataType(x.dtype).nbytes)
        for x in p.leaves(program.parameters)
        if isinstance(x, p.TensorPattern) and x.slot != p.NONE and x.dtype is not None
    ]
    return arrays if any(x.written for x, _ in arrays) else []


def _any_on_device(args: Sequence[Any]) -> bool:
    """Return True if an argument, or a part of one, is in the memory of a GPU."""
    return any(
        _any_on_device(arg) if isinstance(arg, (tuple, list)) else is_on_device(arg) for arg in args
    )


def _is_written(pattern: p.Pattern) -> bool:
    return any(isinstance(x, p.TensorPattern) and x.written for x in p.leaves([pattern]))


def _as_bfloat16(value: Any, kinds: p.Kinds) -> Any:
    if isinstance(kinds, tuple):
        return tuple(_as_bfloat16(part, kind) for part, kind in zip(value, kinds, strict=True))
    return BFloat16Array(value) if kinds else value
