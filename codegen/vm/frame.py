"""Frames: the memory of one call of a graph function, kept for the next one.

Calls of graph functions from graph functions, and branches, have an explicit stack: Python's own
would end a function that calls itself after some hundred rounds.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np

from codegen.errors import ExecutionError
from codegen.runtime.guard import guarded_pages
from codegen.runtime.ndarray import NDArray, address_of, array
from codegen.signature import Dim, dim_text, evaluate_dim
from codegen.vm import program as p
from codegen.vm.constants import Constants
from tensorir.errors import IRValueError
from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes.dtype import DataType

if TYPE_CHECKING:
    from codegen.vm.device_memory import DeviceMemory
    from codegen.vm.graph_function import GraphFunction


Allocator: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], NDArray]


def allocated(
    allocate: Allocator, shape: tuple[int, ...], dtype: np.dtype[Any], what: str
) -> NDArray:
    """Return new memory for `what`; ExecutionError if the allocation fails."""
    try:
        return allocate(shape, dtype)
    except (MemoryError, ValueError, OverflowError, OSError) as problem:
        raise ExecutionError(
            f"{what}: {math.prod(shape) * dtype.itemsize:,} bytes cannot be allocated ({problem})"
        ) from problem


def guarded_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray:
    """Return an array that ends at inaccessible memory."""
    pages, start = guarded_pages(math.prod(shape) * dtype.itemsize, "end")
    return NDArray.at(start, shape, dtype, pages)


class Frame:
    """Slots, registers and memory of a call."""

    __slots__ = (
        "_references",
        "_shared",
        "address",
        "arena",
        "caller",
        "copies",
        "depth",
        "device_memory",
        "is_quick",
        "lent",
        "name",
        "prepared_for",
        "registers",
        "results_stay",
        "sizes",
        "slots",
        "temporaries",
    )  # fmt: skip

    def __init__(self, program: p.Program, constants: Constants, allocate: Allocator) -> None:
        self.name = program.name
        self.slots = (ctypes.c_int64 * program.slots)()
        self.address = ctypes.addressof(self.slots)
        self.registers: list[Any] = [None] * program.registers
        self.sizes: dict[str, int] = {}
        """The known sizes of this call."""
        self.prepared_for: dict[str, int] | None = None
        """The sizes of parameters that temporaries and prepared registers belong to."""
        self.is_quick = False
        """True if the arguments are used without conversion, so that no register holds them."""
        self.copies: list[NDArray] = []
        """Converted arguments of this call."""
        self.depth = 0
        self.device_memory: DeviceMemory | None = None
        """The memory of the frame on a GPU, made by the first run there."""
        self.results_stay = False
        """True if the results of this call stay on the GPU, where some of its arguments are."""
        self.caller: Frame | None = None
        self.temporaries: list[NDArray] = []
        nbytes = max(program.arena_bytes, ALIGNMENT)
        what = f"{program.name}: the temporaries of a call"
        self.arena = allocated(allocate, (nbytes,), np.dtype(np.uint8), what)
        self.slots[program.arena_slot] = address_of(self.arena)
        self.slots[program.constants_slot] = address_of(constants.block)
        self._shared = (self.arena, constants)
        """The memory that views keep alive if a library function keeps them."""
        self.lent: list[NDArray | np.ndarray[Any, Any]] = []
        """Arrays over memory of the frame that library functions may receive."""
        self._references: list[int] = []
        """The number of references to each array that the frame itself holds."""

    def prepare(self, program: p.Program, sizes: dict[str, int], allocate: Allocator) -> None:
        """Make the parts that depend on the sizes of the parameters: temporaries, views, shapes."""
        self.temporaries = [self.place(x, sizes, allocate) for x in program.temporaries]
        for register, operand in program.prepared:
            self.registers[register] = self.evaluate(operand, sizes)
        self.prepared_for = dict(sizes)
        self.lent = [self.registers[r] for r, x in program.prepared if isinstance(x, p.View)]
        self.lent += self.temporaries
        # NumPy's views of an array refer to the plain array that owns the memory.
        self.lent += [x.base for x in self.temporaries if isinstance(x.base, np.ndarray)]
        self._references = [*map(sys.getrefcount, self.lent)]

    @property
    def nbytes(self) -> int:
        """The bytes of arena and temporaries."""
        return self.arena.nbytes + sum(array.nbytes for array in self.temporaries)

    def is_held(self) -> bool:
        """Return True if a library function kept an array over memory of the frame, or a view."""
        return [*map(sys.getrefcount, self.lent)] != self._references

    def shape_of(self, array: p.Fresh | p.TensorPattern, sizes: dict[str, int]) -> tuple[int, ...]:
        """Return the shape of an array."""
        return self._numbers(array.shape or (), sizes)

    def place(self, array: p.Fresh, sizes: dict[str, int], allocate: Allocator) -> NDArray:
        """Allocate an array and put it into its slot and register.

        Raises IRValueError for a negative extent, ExecutionError if memory runs out.
        """
        shape = self._numbers(array.shape, sizes)
        if min(shape, default=0) < 0:
            extents = ", ".join(map(dim_text, array.shape))
            raise IRValueError(
                f"{self.name}: {array.name} of shape ({extents}) would have a negative extent: "
                f"{shape}"
            )
        what = f"{self.name}: {array.name}, {array.dtype} of shape {shape}"
        made = allocated(allocate, shape, DataType(array.dtype).to_numpy(), what)
        self.slots[array.slot] = address_of(made)
        self.registers[array.register] = made
        return made

    def evaluate(self, operand: p.Operand, sizes: dict[str, int]) -> Any:
        """Return the current value of an operand."""
        if isinstance(operand, p.Register):
            return self.registers[operand.number]
        if isinstance(operand, p.View):
            shape = self._numbers(operand.shape, sizes)
            address = self.slots[operand.slot] + self._numbers((operand.offset,), sizes)[0]
            if operand.is_far:
                distance = ctypes.c_int64.from_address(address).value
                address = self.slots[operand.slot] + distance
            dtype = DataType(operand.dtype).to_numpy()
            owner = self._shared if operand.memory == p.NONE else self.registers[operand.memory]
            return NDArray.at(address, shape, dtype, owner)
        if isinstance(operand, p.Pack):
            return tuple(self.evaluate(part, sizes) for part in operand.elements)
        if isinstance(operand, p.Literal):
            return operand.value
        if isinstance(operand, p.Shape):
            return self._numbers(operand.extents, sizes)
        if isinstance(operand, p.Size):
            return self._numbers((operand.value,), sizes)[0]
        return copied(self.registers[operand.number])

    def _numbers(self, dims: tuple[Dim, ...], sizes: dict[str, int]) -> tuple[int, ...]:
        try:
            # A program defines sizes before it uses them.
            return tuple(evaluate_dim(dim, sizes) for dim in dims)  # type: ignore[misc]
        except IRValueError as problem:
            extents = ", ".join(map(dim_text, dims))
            raise IRValueError(
                f"{self.name}: the extents ({extents}) cannot be computed for {sizes}: {problem}"
            ) from problem


def copied(value: Any) -> Any:
    """Return a value with its arrays copied."""
    if isinstance(value, tuple):
        return tuple(copied(part) for part in value)
    if isinstance(value, np.ndarray):
        return array(value)
    return value


MAX_DEPTH: Final = 1000
"""Calls of graph functions by way of Python, one inside the other; each has a frame."""

Runner: TypeAlias = Callable[[Frame], object]


@dataclass(frozen=True, slots=True)
class FrameCall:
    """A call of a graph function with a separate frame."""

    functions: Mapping[str, GraphFunction]
    name: str
    arguments: Sequence[int]
    enter: Callable[[Frame, Any], None] | None
    """Checks the result and puts it into the caller's frame; None if it is in `outputs`."""
    outputs: Sequence[int] = ()

    @property
    def callee(self) -> GraphFunction:
        """The function, which may be linked later than this call."""
        return self.functions[self.name]

    def begin(self, frame: Frame) -> Frame:
        """Return the frame of the callee with its arguments; ExecutionError beyond `MAX_DEPTH`."""
        if frame.depth >= MAX_DEPTH:
            _too_deep(frame, self.name)
        registers = frame.registers
        return self.callee.entered(
            [registers[k] for k in self.arguments], frame, [registers[k] for k in self.outputs]
        )

    def end(self, frame: Frame, inner: Frame) -> None:
        """Move the result from the frame of the callee to the caller."""
        if self.enter is not None:
            self.enter(frame, self.callee.finished(inner))
        else:
            self.callee.finished_into(inner, [frame.registers[k] for k in self.outputs])

    def __call__(self, frame: Frame) -> None:
        """Run the call on Python's stack."""
        self.end(frame, self.callee.run(self.begin(frame)))


@dataclass(frozen=True, slots=True)
class BranchChoice:
    """A branch: one of two lists of steps."""

    condition: int
    then: Sequence[Runner]
    otherwise: Sequence[Runner]

    def chosen(self, frame: Frame) -> Sequence[Runner]:
        """Return the steps to run."""
        return self.then if frame.registers[self.condition] else self.otherwise

    def __call__(self, frame: Frame) -> None:
        """Run the chosen steps."""
        run_steps(self.chosen(frame), frame)


def needs_stack(steps: Sequence[Runner]) -> bool:
    """Return True if `run_steps` is needed to run these steps."""
    return any(isinstance(step, (FrameCall, BranchChoice)) for step in steps)


def run_steps(steps: Sequence[Runner], frame: Frame) -> None:
    """Run steps on a frame, with an explicit stack for the functions that they call."""
    stack: list[tuple[Frame, Iterator[Runner], FrameCall | None]] = []
    rest = iter(steps)
    while True:
        for step in rest:
            if type(step) is FrameCall:
                stack.append((frame, rest, step))
                frame = step.begin(frame)
                rest = iter(step.callee.steps)
                break
            if type(step) is BranchChoice:
                stack.append((frame, rest, None))
                rest = iter(step.chosen(frame))
                break
            step(frame)
        else:
            if not stack:
                return
            inner = frame
            frame, rest, call = stack.pop()
            if call is not None:
                call.end(frame, inner)


def _too_deep(caller: Frame, name: str) -> NoReturn:
    chain = [name]
    frame: Frame | None = caller
    while frame is not None:
        chain.append(frame.name)
        frame = frame.caller
    shown = " <- ".join([*chain[:4], "...", chain[-1]])
    raise ExecutionError(
        f"{name} was called at depth {MAX_DEPTH}: {shown}; end the recursion by an `if` at a "
        f"smaller depth, or write it as a loop of the calling program"
    )
