"""The functions of a library by which C runs graph functions: the steps of programs as tensor code.

A call from C works on a frame like a call from Python (`codegen.vm.frame`), but the frame is an
array of 64-bit words, and machine code runs the steps. Words hold the slots, the registers and the
memory of the call:

- A register is a tensor of C (`TENSOR`): address, dtype and rank, extents. A shape is a tensor
  with address 0. The address of a number is that of its own extents. The parts of a tuple have
  registers; which ones is known when the code is written.
- A block is an address and a number of bytes. It grows when a call needs more, and stays for the
  next call.

Each program becomes functions in script text, which are lowered and compiled like any other. A
failed check returns the status of its message; the memory stays in the frame until `free` gets it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from json import dumps, loads
from string import Template
from typing import Final, NamedTuple

from codegen.errors import CodegenError
from codegen.signature import Dim, Signature, dim_text
from codegen.vm import program as p
from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes.dtype import DataType
from tensorir.relax.library.loop import LOOP

RANK: Final = 8
"""The maximum rank of a tensor of C."""
TENSOR: Final = 2 + RANK
"""The words of a tensor of C: `void* data; int32_t dtype; int32_t ndim; int64_t shape[8];`."""
DTYPES: Final = {
    "int8": 0x001, "int16": 0x002, "int32": 0x004, "int64": 0x008,
    "uint8": 0x101, "uint16": 0x102, "uint32": 0x104, "uint64": 0x108,
    "float16": 0x202, "float32": 0x204, "float64": 0x208, "bfloat16": 0x402, "bool": 0x601,
    "e4m3_float8": 0xA01, "e5m2_float8": 0xC01,
}  # fmt: skip
"""Numbers of dtypes for C: the type code of DLPack times 256, plus the bytes of an element."""
_BOUNDLESS: Final = 2**63 - 1
_MOST_ELEMENTS: Final = 2**48
"""The elements of an array of a symbolic size; the bytes of more might not fit a word."""


class Described(NamedTuple):
    """The known properties of a value; None, and -1 for the rank, are unknown ones."""

    kind: str
    """`tensor`, `shape` or `number`."""
    dtype: str | None
    ndim: int
    shape: tuple[Dim, ...] | None


def of_pattern(pattern: p.Leaf) -> Described:
    """Return the known properties of a value that fits a pattern."""
    if isinstance(pattern, p.TensorPattern):
        return Described("tensor", pattern.dtype, pattern.ndim, pattern.shape)
    if isinstance(pattern, p.ShapePattern):
        return Described("shape", "int64", pattern.ndim, pattern.extents)
    if isinstance(pattern, p.ScalarPattern):
        return Described("number", pattern.dtype, 0, ())
    return Described("tensor", None, -1, None)


def entries_of(programs: Iterable[p.Program], runs: Mapping[str, Signature]) -> dict[str, Entry]:
    """Return the entries of programs, which call `runs`.

    Raises CodegenError for a tensor that C cannot have.
    """
    entries: dict[str, Entry] = {}
    names = {name: f"run{k}" for k, name in enumerate(runs)}
    for k, program in enumerate(programs):
        entries[program.name] = Entry(program, f"graph{k}", entries, names, runs)
    for entry in entries.values():
        entry.write()
    return entries


def entries_text(entries: Iterable[Entry], runs: Mapping[str, Signature]) -> str:
    """Return a module in script text with the entries of programs, which call `runs`."""
    parts = [filled("memory.txt")]
    for k, (name, signature) in enumerate(runs.items()):
        params = ", ".join(f"p{place}: T.{dtype}" for place, dtype in enumerate(signature.passed))
        parts.append(f"    @T.prim_func(name={dumps(name)}, private=True)")
        parts.append(f"    def run{k}({params}):\n        T.evaluate(0)\n")
    return "\n".join([*parts, *(entry.text() for entry in entries)])


def filled(template: str, **values: object) -> str:
    """Return a text of the folder `templates` with values in the places of their `$names`."""
    text = files("codegen.vm").joinpath("templates", template).read_text(encoding="utf-8")
    return Template(text).substitute(values)


class Entry:
    """The functions of one program, which call those of other `entries`."""

    def __init__(
        self,
        program: p.Program,
        name: str,
        entries: Mapping[str, Entry],
        names: Mapping[str, str],
        runs: Mapping[str, Signature],
    ) -> None:
        self.program = program
        self.name = name
        self._entries, self._names, self._runs = entries, names, runs
        self.inputs = p.leaves(program.parameters)
        self.results = p.parts_of(program.result)
        self.outputs: list[Described] = []
        """The known properties of the results."""
        self._described: dict[int, Described] = {}
        """The known properties of the values of registers."""
        self._read = p.registers_read(program)
        self._slots = dict(program.sizes)
        self._words = program.slots
        self._places: dict[int, int] = {}
        """The words at which registers begin."""
        self._owned: list[int] = []
        """The words with addresses that the frame frees."""
        self._frames: list[tuple[int, Entry]] = []
        """The blocks with the frames of called graph functions."""
        self._known: dict[int, p.Literal | p.Pack] = {}
        """The registers that hold texts and tuples."""
        self._defined: set[str] = set()
        self._waiting: list[tuple[Dim, str, str]] = []
        self._lines: list[str] = []
        self._indent = " " * 8

    # ----------------------------------------------------------------------------------------- text

    def text(self) -> str:
        """Return the functions of the program in script text."""
        drops = [f"Module.{entry.name}_free({_at(word)})" for word, entry in self._frames]
        drops += [f"Module.release({_at(word)})" for word in self._owned]
        return filled(
            "graph.txt",
            name=self.name,
            graph=dumps(self.program.name)[1:-1],
            words=self._words,
            inputs=max(1, len(self.inputs)) * TENSOR,
            outputs=max(1, len(self.results)) * TENSOR,
            steps="\n".join(self._lines),
            drops="\n".join(f"        {line}" for line in drops),
        )

    def _add_lines(self, *lines: str) -> None:
        self._lines += [self._indent + line for line in lines]

    @contextmanager
    def _nested_under(self, head: str) -> Iterator[None]:
        self._add_lines(head)
        outer, self._indent = self._indent, self._indent + "    "
        self._add_lines("T.evaluate(0)")
        yield
        self._indent = outer

    def _check(self, condition: str, message: str) -> None:
        self._add_lines(f"assert {condition}, {dumps(f'{self.program.name}: {message}')}")

    def _reserve_words(self, words: int) -> int:
        self._words += words
        return self._words - words

    def _block(self, nbytes: str) -> int:
        """Return a new block of at least so many bytes, which the frame frees."""
        self._owned.append(self._reserve_words(2))
        self._add_lines(f"Module.reserve({_at(self._owned[-1])}, {nbytes})")
        return self._owned[-1]

    # -------------------------------------------------------------------------------------- values

    def _dim(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return _int(dim)
        if isinstance(dim, str):
            return f"frame[{self._slots[dim]}]"
        left, right = self._dim(dim[1]), self._dim(dim[2])
        if dim[0].isalpha():
            return f"T.{dim[0]}({left}, {right})"
        return f"({left} {dim[0]} {right})"

    def _is_defined(self, dim: Dim) -> bool:
        if isinstance(dim, tuple):
            return self._is_defined(dim[1]) and self._is_defined(dim[2])
        return isinstance(dim, int) or dim in self._defined

    def _place(self, register: int) -> int:
        """Return the first word of a register."""
        if register not in self._places:
            self._places[register] = self._reserve_words(TENSOR)
        return self._places[register]

    def _set(
        self, at: int, data: str, dtype: str, shape: tuple[Dim, ...], kind: str = "tensor"
    ) -> Described:
        head = _head(dtype, len(shape))
        extents = [f"frame[{at + 2 + k}] = {self._dim(n)}" for k, n in enumerate(shape)]
        self._add_lines(f"frame[{at}] = {data}", f"frame[{at + 1}] = {head}", *extents)
        return Described(kind, dtype, len(shape), shape)

    def _set_number(self, at: int, value: str, dtype: str = "int64") -> Described:
        self._add_lines(f"frame[{at + 2}] = {value}")
        return self._set(at, f'T.reinterpret("int64", {_at(at + 2)})', dtype, (), "number")

    def _number(self, buffer: str, at: int) -> str:
        """Return the word with the integer in a tensor without dimensions."""
        word = self._reserve_words(1)
        bits = f"(T.int64(64) - T.int64(8) * T.bitwise_and({buffer}[{at + 1}], T.int64(255)))"
        nbytes = f"T.bitwise_and({buffer}[{at + 1}], T.int64(255))"
        self._add_lines(
            f"frame[{word}] = T.int64(0)",
            _memcpy(_at(word), _pointer(f"{buffer}[{at}]"), nbytes),
            f"frame[{word}] = T.shift_right(T.shift_left(frame[{word}], {bits}), {bits})",
        )
        return f"frame[{word}]"

    def _parts(self, register: int) -> list[int]:
        """Return a register, or those of the parts of a tuple."""
        known = self._known.get(register)
        if not isinstance(known, p.Pack):
            return [register]
        parts = [part.number for part in known.elements if isinstance(part, p.Register)]
        return [leaf for part in parts for leaf in self._parts(part)]

    def _assemble(self, register: int, operand: p.Operand) -> None:
        is_text = isinstance(operand, p.Literal) and not isinstance(operand.value, (int, float))
        if isinstance(operand, (p.Pack, p.Literal)) and (is_text or isinstance(operand, p.Pack)):
            self._known[register] = operand
        elif register in self._read:
            new = self._evaluate(operand, self._place(register))
            old = self._described.get(register, new)  # the other branch has made it, too
            self._described[register] = Described(
                new.kind,
                new.dtype if new.dtype == old.dtype else None,
                new.ndim if new.ndim == old.ndim else -1,
                new.shape if new.shape == old.shape else None,
            )

    def _evaluate(self, operand: p.Operand, at: int) -> Described:
        """Write the value of an operand into the tensor at a word; return its known properties."""
        if isinstance(operand, p.Register):
            self._add_lines(_memcpy(_at(at), _at(self._place(operand.number)), _int(8 * TENSOR)))
            return self._described[operand.number]
        if isinstance(operand, p.CopyOf):
            self._owned.append(self._reserve_words(1))
            word = self._owned[-1]
            self._add_lines(f"Module.release({_at(word)})")
            self._add_lines(
                f"Module.copy({_at(word)}, {_at(self._place(operand.number))}, {_at(at)})"
            )
            return self._described[operand.number]
        if isinstance(operand, p.View):
            data = f"(frame[{operand.slot}] + {self._dim(operand.offset)})"
            if operand.is_far:
                distance = self._reserve_words(1)
                self._add_lines(_memcpy(_at(distance), _pointer(data), _int(8)))
                data = f"frame[{operand.slot}] + frame[{distance}]"
            return self._set(at, data, operand.dtype, operand.shape)
        if isinstance(operand, p.Shape):
            return self._set(at, _int(0), "int64", operand.extents, "shape")
        if isinstance(operand, p.Size):
            return self._set_number(at, self._dim(operand.value))
        assert isinstance(operand, p.Literal)
        if isinstance(operand.value, float):
            (bits,) = struct.unpack("<q", struct.pack("<d", operand.value))
            return self._set_number(at, _int(bits), "float64")
        assert isinstance(operand.value, int)
        return self._set_number(at, _int(operand.value))

    # ------------------------------------------------------------------------------------- patterns

    def _enter(self, pattern: p.Leaf, buffer: str, at: int, what: str) -> None:
        """Check a tensor at a word, define sizes by it, and put it into slot and register."""
        head, value = f"{buffer}[{at + 1}]", of_pattern(pattern)
        ndim = value.ndim if value.shape is None else len(value.shape)
        if value.kind == "number" and DataType(str(value.dtype)).is_integral:
            rank = f"T.shift_right({head}, {_int(32)}) == {_int(0)}"
            kind = f"T.bitwise_and({head}, {_int(0x700)}) != {_int(0x200)}"
            self._check(f"{rank} and {kind}", f"{what} has to be an integer without dimensions")
        elif value.dtype is not None and ndim >= 0:
            wanted = f"{value.dtype} with {ndim} dimensions"
            expected = _head(value.dtype, ndim)
            self._check(f"{head} == {expected}", f"{what} has to be {wanted}")
        elif value.dtype is not None:
            low = f"T.bitwise_and({head}, {_int(0xFFFFFFFF)})"
            self._check(f"{low} == {_int(DTYPES[value.dtype])}", f"{what} has to be {value.dtype}")
        elif ndim >= 0:
            rank = f"T.shift_right({head}, {_int(32)})"
            self._check(f"{rank} == {_int(ndim)}", f"{what} has to have {ndim} dimensions")
        for axis, dim in enumerate(value.shape or ()):
            wanted = f"extent {axis} of {what} has to be {dim_text(dim)}"
            self._extent(dim, f"{buffer}[{at + 2 + axis}]", wanted)
        if isinstance(pattern, p.ScalarPattern) and pattern.value is not None:
            wanted = f"{what} has to be {dim_text(pattern.value)}"
            self._extent(pattern.value, self._number(buffer, at), wanted)
        if isinstance(pattern, p.TensorPattern) and pattern.slot != p.NONE:
            self._add_lines(f"frame[{pattern.slot}] = {buffer}[{at}]")
        if pattern.register in self._read:
            source = f"T.address_of({buffer}[{at}])"
            self._add_lines(_memcpy(_at(self._place(pattern.register)), source, _int(8 * TENSOR)))
            self._described[pattern.register] = value

    def _extent(self, dim: Dim, actual: str, message: str) -> None:
        if isinstance(dim, str) and dim not in self._defined:
            self._check(f"{actual} >= {_int(0)}", f"{message}, at least 0")
            self._add_lines(f"frame[{self._slots[dim]}] = {actual}")
            self._defined.add(dim)
        elif self._is_defined(dim):
            self._check(f"{actual} == {self._dim(dim)}", message)
        else:
            self._waiting.append((dim, actual, message))

    def _finish(self) -> None:
        """Check the extents whose sizes a later argument defines."""
        for dim, actual, message in self._waiting:
            self._check(f"{actual} == {self._dim(dim)}", message)
        self._waiting.clear()

    # ---------------------------------------------------------------------------------------- calls

    def write(self) -> None:
        """Write the lines of the function that runs the steps."""
        program = self.program
        for k, leaf in enumerate(self.inputs):
            if not isinstance(leaf, p.ShapePattern):
                is_number = isinstance(leaf, p.ScalarPattern)
                there = f"inputs[{k * TENSOR}] != {_int(0)}"
                ignored = "" if is_number else f" or run == {_int(0)}"
                self._check(there + ignored, f"inputs[{k}].data is NULL")
            self._enter(leaf, "inputs", k * TENSOR, f"inputs[{k}] ({leaf.name})")
        self._finish()
        checks, self._lines, defined = self._lines, [], set(self._defined)
        results = {x.number: k for k, x in enumerate(self.results) if isinstance(x, p.Register)}
        with self._nested_under(f"if run != {_int(0)}:"):
            arena = self._block(_int(max(program.arena_bytes, ALIGNMENT)))
            address = 'T.call_extern("handle", "__tensorir_constants_address")'
            self._add_lines(
                f"frame[{program.arena_slot}] = frame[{arena}]",
                f'frame[{program.constants_slot}] = T.reinterpret("int64", {address})',
            )
            for array in program.results:
                word = f"outputs[{results[array.register] * TENSOR}]"
                self._add_lines(f"Module.place(T.address_of({word}), {self._nbytes(array)})")
                self._hold(array, word)
            for array in program.temporaries:
                self._allocate(array)
            for register, operand in program.prepared:
                self._assemble(register, operand)
            self._steps(program.steps)
            fresh = {array.register for array in program.results}
            for k, part in enumerate(self.results):
                if isinstance(part, p.Register) and part.number in fresh:
                    self.outputs.append(self._described[part.number])
                    continue
                if isinstance(part, (p.Register, p.CopyOf)):
                    at, known = self._place(part.number), self._described[part.number]
                else:
                    at = self._reserve_words(TENSOR)
                    known = self._evaluate(part, at)
                word = f"T.address_of(outputs[{k * TENSOR}])"
                self._add_lines(f"Module.copy({word}, {_at(at)}, {word})")
                self.outputs.append(known)
        steps, self._lines, self._defined = self._lines, [], defined
        for k, known in enumerate(self.outputs):
            self._write_known_extents(k, known)
        self._lines = checks + self._lines + steps

    def _write_known_extents(self, k: int, known: Described) -> None:
        """Write the known extents of an output before anything runs, -1 for the others."""
        at = k * TENSOR
        ndim = known.ndim if known.shape is None else len(known.shape)
        self._add_lines(f"outputs[{at + 1}] = {_head(known.dtype, ndim)}")
        is_late = known.shape is None
        for axis, dim in enumerate([None] * ndim if known.shape is None else known.shape):
            is_defined = dim is not None and self._is_defined(dim)
            extent = self._dim(dim) if dim is not None and is_defined else _int(-1)
            if isinstance(dim, tuple) and is_defined:
                wanted = f"extent {axis} of outputs[{k}], {dim_text(dim)}, has to be at least 0"
                self._check(f"{extent} >= {_int(0)}", wanted)
            is_late = is_late or not is_defined
            self._add_lines(f"outputs[{at + 2 + axis}] = {extent}")
        if is_late:
            message = f"outputs[{k}].data has to be NULL: its extents become known in the call"
            absent = f"outputs[{at}] == {_int(0)}"
            self._check(f"{absent} or run == {_int(0)}", message)

    def _nbytes(self, array: p.Fresh) -> str:
        for dim in array.shape:
            if isinstance(dim, tuple):
                wanted = f"an extent of {array.name}, {dim_text(dim)}, has to be at least 0"
                self._check(f"{self._dim(dim)} >= {_int(0)}", wanted)
        extents = [self._dim(dim) for dim in array.shape]
        if not all(isinstance(dim, int) for dim in array.shape):
            count = " * ".join(f'T.Cast("float64", {extent})' for extent in extents)
            self._check(f"{count} < T.float64({_MOST_ELEMENTS})", f"{array.name} is too large")
        return " * ".join([*extents, _int(DataType(array.dtype).nbytes)])

    def _allocate(self, array: p.Fresh) -> None:
        block = self._block(f"T.max({self._nbytes(array)}, {_int(ALIGNMENT)})")
        self._hold(array, f"frame[{block}]")

    def _hold(self, array: p.Fresh, data: str) -> None:
        self._add_lines(f"frame[{array.slot}] = {data}")
        if array.register in self._read:
            place = self._place(array.register)
            self._described[array.register] = self._set(place, data, array.dtype, array.shape)

    def _steps(self, steps: Iterable[p.Step]) -> None:
        for step in steps:
            if isinstance(step, p.Run):
                passed = self._runs[step.symbol].passed
                words = [
                    _pointer(f"frame[{k}]") if dtype.is_handle else f'T.Cast("{dtype}", frame[{k}])'
                    for k, dtype in enumerate(passed)
                ]
                self._add_lines(f"Module.{self._names[step.symbol]}({', '.join(words)})")
            elif isinstance(step, p.Allocate):
                self._allocate(step.array)
            elif isinstance(step, p.Assemble):
                self._assemble(step.register, step.value)
            elif isinstance(step, p.Branch):
                condition = self._number("frame", self._place(step.condition))
                with self._nested_under(f"if {condition} != {_int(0)}:"):
                    self._steps(step.then)
                with self._nested_under("else:"):
                    self._steps(step.otherwise)
            elif isinstance(step, p.Match):
                places = [self._place(part) for part in self._parts(step.value)]
                self._receive(step.pattern, places, step.binding)
            elif isinstance(step, p.CallGraph):
                self._call(step)
            else:
                assert isinstance(step, p.CallLibrary)
                self._loop(step)

    def _receive(self, pattern: p.Pattern, places: Sequence[int], binding: str) -> None:
        """Check the value of a step, and put its parts into slots and registers."""
        of_step = binding.removeprefix(f"{self.program.name}: ")
        for leaf, at in zip(p.leaves([pattern]), places, strict=True):
            self._enter(leaf, "frame", at, f"{leaf.name} in the value of {of_step}")
        self._finish()

    def _arguments(self, registers: Iterable[int], first: int = 0) -> int:
        """Return where copies of registers begin, one behind the other, after `first` tensors."""
        sources = [self._place(part) for register in registers for part in self._parts(register)]
        start = self._reserve_words(TENSOR * max(1, first + len(sources)))
        for k, source in enumerate(sources, first):
            self._add_lines(_memcpy(_at(start + k * TENSOR), _at(source), _int(8 * TENSOR)))
        return start

    def _caller(self, function: str, inputs: int, outputs: int | None) -> tuple[list[int], str]:
        """Return the tensors for the result of a graph function, and the line that calls it.

        Without `outputs` the frame frees the memory of the result.
        """
        callee, frame = self._entries[function], self._reserve_words(2)
        self._frames.append((frame, callee))
        places = []
        if outputs is None:
            outputs = self._reserve_words(TENSOR * max(1, len(callee.results)))
            places = [outputs + k * TENSOR for k in range(len(callee.results))]
            self._owned += places
        words = ", ".join(map(_at, (frame, inputs, outputs)))
        return places, f"Module.{callee.name}_call({words}, {_int(1)})"

    def _call(self, step: p.CallGraph) -> None:
        inputs = self._arguments(step.arguments)
        outputs = None if step.result is not None else self._arguments(step.outputs)
        places, call = self._caller(step.function, inputs, outputs)
        self._add_lines(*(f"Module.release({_at(at)})" for at in places), call)
        if step.result is not None:
            self._receive(step.result, places, step.binding)

    def _loop(self, step: p.CallLibrary) -> None:
        """Write the loop that `tensorir.relax.library.loop` runs for Python."""
        assert step.function == LOOP
        assert step.result is not None
        dtypes, shapes, trips, go_on, carried, captured = step.arguments
        stated = self._known[dtypes]
        assert isinstance(stated, p.Literal)
        going = self._number("frame", self._place(go_on))
        limit = _int(_BOUNDLESS)
        if trips not in self._known:
            limit = self._number("frame", self._place(trips))
        counter = self._arguments([carried, captured], 1)
        states = [counter + (1 + k) * TENSOR for k in range(len(self._parts(carried)))]
        held = [self._reserve_words(1) for _ in states]
        self._owned += held
        places, call = self._caller(step.graphs[0][1], counter, None)
        self._set_number(counter, _int(0))
        parts: list[tuple[int, int, int]] = []
        stacked = zip(
            self._parts(shapes), loads(str(stated.value)), places[1 + len(states) :], strict=True
        )
        for shape, dtype, place in stacked:
            block, total = self._block(_int(ALIGNMENT)), self._reserve_words(TENSOR)
            source = self._place(shape)
            rank = f"T.bitwise_and(frame[{source + 1}], {_int(0xFF << 32)})"
            self._add_lines(
                _memcpy(_at(total + 3), _at(source + 2), _int(8 * (RANK - 1))),
                f"frame[{total}] = frame[{block}]",
                f"frame[{total + 1}] = {rank} + {_head(dtype, 1)}",
                f"frame[{total + 2}] = {_int(0)}",
            )
            parts.append((block, total, place))
        count = f"frame[{counter + 2}]"
        with self._nested_under(f"while {going} != {_int(0)} and {count} < {limit}:"):
            self._add_lines(*(f"Module.release({_at(at)})" for at in places), call)
            result = _pointer(f"frame[{places[0]}]")
            self._add_lines(
                f"{going} = {_int(0)}", _memcpy(f"T.address_of({going})", result, _int(1))
            )
            for state, word, place in zip(states, held, places[1:], strict=False):
                self._add_lines(
                    f"Module.release({_at(word)})",
                    f"frame[{word}] = frame[{place}]",
                    _memcpy(_at(state), _at(place), _int(8 * TENSOR)),
                    f"frame[{place}] = {_int(0)}",
                )
            for block, total, place in parts:
                self._add_lines(f"Module.stack({_at(block)}, {_at(place)}, {_at(total)})")
            self._add_lines(f"{count} = {count} + {_int(1)}")
        self._receive(step.result, [*states, *(total for _, total, _ in parts)], step.binding)


def _int(value: int) -> str:
    signed = (value + 2**63) % 2**64 - 2**63
    return f"T.int64({signed})"


def _at(word: int) -> str:
    return f"T.address_of(frame[{word}])"


def _pointer(word: str) -> str:
    return f'T.reinterpret("handle", {word})'


def _memcpy(target: str, source: str, nbytes: str) -> str:
    return f'T.call_extern("handle", "memcpy", {target}, {source}, {nbytes})'


def _head(dtype: str | None, ndim: int) -> str:
    """Return the word with dtype and rank, all bits for unknown ones.

    Raises CodegenError for a dtype or rank that C cannot have.
    """
    if ndim > RANK or not (dtype is None or dtype in DTYPES):
        raise CodegenError(
            f"a C library has tensors of at most {RANK} dimensions with the dtypes "
            f"{', '.join(DTYPES)}; the model has one of {ndim} dimensions with {dtype}"
        )
    return _int((0xFFFFFFFF if dtype is None else DTYPES[dtype]) + (ndim << 32))
