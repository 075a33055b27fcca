"""The steps of a call of a compiled graph function, as data that travels with the machine code.

A call works on a *frame*: slots (64-bit integers that machine code reads: addresses of arrays, then
sizes) and registers (Python values: arrays that library functions are given, tuples, shapes). Steps
are runs of machine code, and operations of Python between them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final, TypeAlias

from codegen.errors import LinkError
from codegen.signature import Dim

FORMAT_VERSION: Final = 4
NONE: Final = -1
"""The number of no register or slot."""


# ---------------------------------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class Register:
    """The value of a register."""

    number: int


@dataclass(frozen=True, slots=True)
class CopyOf:
    """The value of a register with its arrays copied."""

    number: int


@dataclass(frozen=True, slots=True)
class View:
    """The array of this shape at `offset` bytes behind the address in a slot.

    The memory belongs to the array in a register, or to the frame. For a far constant, the eight
    bytes at `offset` are its distance from the address in the slot.
    """

    slot: int
    offset: Dim
    shape: tuple[Dim, ...]
    dtype: str
    memory: int = NONE
    is_far: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string or None."""

    value: int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """A tuple of integers."""

    extents: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """An integer that depends on sizes."""

    value: Dim


@dataclass(frozen=True, slots=True)
class Pack:
    """A tuple of values."""

    elements: tuple[Operand, ...]


Kinds: TypeAlias = "bool | tuple[Kinds, ...]"
"""A property of a value; for a tuple one of each element, or one of all elements."""
Operand: TypeAlias = Register | CopyOf | View | Literal | Shape | Size | Pack


# ---------------------------------------------------------------------------------------- patterns


@dataclass(frozen=True, slots=True)
class TensorPattern:
    """An array; `shape` and `dtype` are None where any will do, `ndim` then is -1 for any.

    Its address goes to `slot`, the array itself to `register`. A size without a value gets it from
    the shape. It has to be writable if it is `written`.
    """

    name: str
    shape: tuple[Dim, ...] | None
    ndim: int
    dtype: str | None
    register: int = NONE
    slot: int = NONE
    written: bool = False


@dataclass(frozen=True, slots=True)
class TuplePattern:
    """A tuple or list of values."""

    name: str
    elements: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class ShapePattern:
    """A tuple of integers; `ndim` is -1 for any number of them."""

    name: str
    extents: tuple[Dim, ...] | None
    ndim: int
    register: int = NONE


@dataclass(frozen=True, slots=True)
class ScalarPattern:
    """A Python number; `value` is the size that it defines or must equal."""

    name: str
    dtype: str
    value: Dim | None
    register: int = NONE


@dataclass(frozen=True, slots=True)
class AnyPattern:
    """Any value."""

    name: str
    register: int = NONE


Leaf: TypeAlias = TensorPattern | ShapePattern | ScalarPattern | AnyPattern
"""Tuples are taken apart: no register holds one."""
Pattern: TypeAlias = Leaf | TuplePattern


# -------------------------------------------------------------------------------- calls of a device


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address `offset` bytes behind that in a slot; `is_far` is that of `View`."""

    slot: int
    offset: Dim
    is_far: bool = False


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A tensor function that a GPU runs, with its arguments and symbolic extents."""

    function: str
    arguments: tuple[Pointer | Literal | Size, ...]


@dataclass(frozen=True, slots=True)
class MemoryCopy:
    """A copy of bytes in the memory of a GPU."""

    source: Pointer
    destination: Pointer
    nbytes: Dim


# ------------------------------------------------------------------------------------------- steps


@dataclass(frozen=True, slots=True)
class Fresh:
    """A new array for each call: its slot, its register, its struct info.

    `name` is that of the value, for messages.
    """

    slot: int
    register: int
    shape: tuple[Dim, ...]
    dtype: str
    name: str


@dataclass(frozen=True, slots=True)
class Run:
    """Machine code: calls `symbol` on the slots."""

    symbol: str
    function: str = ""
    """The function of the graph that it calls, where it is a single call; for profiles."""
    binding: str = ""
    operands: str = ""
    """Shapes of the arguments."""
    calls: tuple[KernelCall | MemoryCopy, ...] = ()
    """On a GPU: what runs in place of `symbol`, in order."""


@dataclass(frozen=True, slots=True)
class ToHost:
    """Copies arrays in registers from the memory of a GPU, if runs have written them there.

    Once in a call, as its last step, it `ends` the use of the memory of the GPU by the call.
    """

    registers: tuple[int, ...]
    ends: bool = False


@dataclass(frozen=True, slots=True)
class ToDevice:
    """Copies arrays in registers to the memory of a GPU, if they are there, too."""

    registers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CallLibrary:
    """A library function on the values of registers; what it returns has to match `result`.

    `graphs` are graph functions by their positions among the arguments; the registers are those of
    the others.
    """

    function: str
    arguments: tuple[int, ...]
    result: Pattern | None
    binding: str
    graphs: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CallGraph:
    """A graph function with a separate frame.

    Its result has to match `result`; where that is None, it is written to the arrays in registers
    `outputs`.
    """

    function: str
    arguments: tuple[int, ...]
    result: Pattern | None
    binding: str
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch: one of two lists of steps, by a register that holds a scalar."""

    condition: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """A check of a value against what is known of it, which may give sizes their values."""

    value: int
    pattern: Pattern
    binding: str


@dataclass(frozen=True, slots=True)
class Allocate:
    """An allocation whose size becomes known during a call."""

    array: Fresh


@dataclass(frozen=True, slots=True)
class Assemble:
    """A value that consists of other values."""

    register: int
    value: Operand


Step: TypeAlias = (
    Run | ToHost | ToDevice | CallLibrary | CallGraph | Branch | Match | Allocate | Assemble
)


@dataclass(frozen=True, slots=True)
class Program:
    """A graph function, ready to run.

    `is_native` is True if it is one run of machine code over tensors of fixed shapes. `prepared`
    are registers that depend on the frame and the sizes of the parameters only, `temporaries`
    arrays of the frame whose extents are known once the parameters are.
    """

    name: str
    parameters: tuple[Pattern, ...]
    results: tuple[Fresh, ...]
    temporaries: tuple[Fresh, ...]
    prepared: tuple[tuple[int, Operand], ...]
    steps: tuple[Step, ...]
    result: Operand
    sizes: tuple[tuple[str, int], ...]
    """The slot of each size, by its name."""
    slots: int
    registers: int
    arena_slot: int
    arena_bytes: int
    constants_slot: int
    is_native: bool
    bfloat16: Kinds = False
    """The parts of the result that are of bfloat16."""
    state: tuple[View, ...] = ()
    """The first contents of the last parameters, which are kept from call to call."""

    @property
    def arguments(self) -> tuple[Pattern, ...]:
        """The parameters that a caller passes."""
        return self.parameters[: len(self.parameters) - len(self.state)]

    def all_steps(self) -> Iterator[Step]:
        """Yield the steps, also those of branches."""
        return _nested(self.steps)


def leaves(patterns: Iterable[Pattern]) -> list[Leaf]:
    """Return patterns with those inside tuples in their place."""
    found: list[Leaf] = []
    for pattern in patterns:
        found += leaves(pattern.elements) if isinstance(pattern, TuplePattern) else [pattern]
    return found


def as_written(pattern: Pattern) -> Pattern:
    """Return a pattern whose arrays have to be writable."""
    if isinstance(pattern, TuplePattern):
        return TuplePattern(pattern.name, tuple(map(as_written, pattern.elements)))
    return replace(pattern, written=True) if isinstance(pattern, TensorPattern) else pattern


def parts_of(operand: Operand) -> list[Operand]:
    """Return an operand, or the operands that a tuple packs."""
    if isinstance(operand, Pack):
        return [leaf for part in operand.elements for leaf in parts_of(part)]
    return [operand]


def registers_read(program: Program) -> set[int]:
    """Return the registers that steps, operands and the result read."""
    found = set(_in_operand(program.result))
    for _, operand in program.prepared:
        found.update(_in_operand(operand))
    for step in program.all_steps():
        if isinstance(step, (ToHost, ToDevice)):
            found.update(step.registers)
        elif isinstance(step, Match):
            found.add(step.value)
        elif isinstance(step, Assemble):
            found.update(_in_operand(step.value))
        else:
            found.update(registers_of(step))
    return found


def registers_of(step: Step) -> tuple[int, ...]:
    """Return the registers whose arrays a step of Python reads; it may write to those of calls."""
    if isinstance(step, CallLibrary):
        return step.arguments
    if isinstance(step, CallGraph):
        return (*step.arguments, *step.outputs)
    if isinstance(step, Branch):
        return (step.condition,)
    if isinstance(step, Assemble):
        return copied_registers(step.value)
    return ()


def copied_registers(operand: Operand) -> tuple[int, ...]:
    """Return the registers whose arrays are copied to make a value."""
    return tuple(x.number for x in parts_of(operand) if isinstance(x, CopyOf))


def _in_operand(operand: Operand) -> list[int]:
    parts = parts_of(operand)
    found = [x.number for x in parts if isinstance(x, (Register, CopyOf))]
    return found + [x.memory for x in parts if isinstance(x, View) and x.memory != NONE]


def _nested(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Branch):
            yield from _nested(step.then)
            yield from _nested(step.otherwise)


@dataclass(frozen=True, slots=True)
class Description:
    """All graph functions of an executable."""

    programs: tuple[Program, ...]
    constant_bytes: int

    def to_json(self) -> str:
        """Return the description as JSON."""
        data = {"version": FORMAT_VERSION, "content": _to_data(self)}
        return json.dumps(data, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Description:
        """Read a description; LinkError if it is of another version."""
        data = json.loads(text)
        if data.get("version") != FORMAT_VERSION:
            raise LinkError(
                f"the executable has format {data.get('version')} of graph functions, this release "
                f"reads {FORMAT_VERSION}; build it again"
            )
        found = _from_data(data["content"])
        assert isinstance(found, Description)
        return found


_CLASSES: Final[dict[str, Any]] = {
    name: kind for name, kind in dict(globals()).items() if is_dataclass(kind)
}
"""The classes of this module by name, for JSON."""


def _to_data(value: Any) -> Any:
    if is_dataclass(value):
        return {"is": type(value).__name__} | {
            f.name: _to_data(getattr(value, f.name)) for f in fields(value)
        }
    if isinstance(value, tuple):
        return [_to_data(part) for part in value]
    return value


def _from_data(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_from_data(part) for part in data)
    if isinstance(data, dict):
        return _CLASSES[data["is"]](**{k: _from_data(v) for k, v in data.items() if k != "is"})
    return data
