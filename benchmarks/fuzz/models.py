"""Model files that must be read, or refused by a declared error, in bounded time and memory.

A file of a node test is mutated: bytes, or parts of its message (names, numbers, attributes,
shapes, nodes left out or repeated). Reading it gives a module that is well-formed, or IRTypeError
or IRValueError; it opens no file but the model's, and runs nothing. Files of
`fuzz.growing_models` are also built without schedules, and called where their tensors are small,
which may end in a declared error, too. Takes the package onnx.
"""

from __future__ import annotations

import math
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import codegen
from benchmarks.fuzz.campaign import Failure, Fuzzer, Note
from benchmarks.fuzz.growing_models import growing_model
from tensorir import IRModule, IRTypeError, IRValueError, frontend
from tensorir.errors import TensorIRError
from tensorir.nodes.expr import IntImm
from tensorir.relax.expr import ExternFunc
from tensorir.rewriting.visit import walk

ROOT = Path(__file__).parents[2]
MEMORY = 2 << 30
"""Bytes of addresses that the process of a batch may take beyond those at its start."""
SMALL = 1 << 22
"""Bytes of a tensor in models that are called."""
SECONDS = 5.0
"""Seconds of a processor that a file may take, in addition to those for its bytes."""
BYTES_A_SECOND = 2000
"""Bytes of a file for which it may take another second: about 60 nodes, each a kernel to build."""

NUMBERS = (-(1 << 63), -(1 << 31), -7, -2, -1, 0, 1, 2, 3, 5, 64, 1 << 20, 1 << 31, (1 << 63) - 1)
NAMES = ("", "x", "y", "../../etc/passwd", "a\0b", "ü", "0", "axes", "Relu", "Constant", "Reshape")
COMMANDS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")
"""Audit events that no reader may cause."""


def mutated_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Return bytes with some changed, left out, repeated, or with the end cut off."""
    text = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        place = int(rng.integers(len(text) + 1))
        kind = rng.integers(5)
        if kind == 0 and place < len(text):
            text[place] = rng.integers(256)
        elif kind == 1:
            del text[place : place + int(rng.integers(1, 9))]
        elif kind == 2:
            text[place:place] = text[place : place + int(rng.integers(1, 30))]
        elif kind == 3:
            text[place:place] = rng.bytes(int(rng.integers(1, 9)))
        elif rng.random() < 0.3:
            del text[place:]
    return bytes(text)


def mutated_message(rng: np.random.Generator, proto: Any) -> Any:
    """Return a model with some of its fields changed."""
    result = type(proto)()
    result.CopyFrom(proto)
    for _ in range(rng.integers(1, 5)):
        messages = list(_messages(result))
        _mutate(rng, messages[rng.integers(len(messages))])
    return result


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message and those inside of it."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from _messages(inner)


def _mutate(rng: np.random.Generator, message: Any) -> None:
    fields = list(message.DESCRIPTOR.fields)
    field = fields[rng.integers(len(fields))]
    values = getattr(message, field.name)
    if field.is_repeated:
        kind = rng.integers(3)
        if kind == 0 and len(values):
            del values[rng.integers(len(values))]
        elif field.type == field.TYPE_MESSAGE:
            if len(values):
                values.add().CopyFrom(values[rng.integers(len(values))])
        elif kind == 1 or not len(values):
            values.append(_other(rng, field))
        else:
            values[rng.integers(len(values))] = _other(rng, field)
    elif field.type == field.TYPE_MESSAGE:
        message.ClearField(field.name)
    else:
        try:
            setattr(message, field.name, _other(rng, field))
        except ValueError:
            message.ClearField(field.name)  # the package refuses the number itself


def _other(rng: np.random.Generator, field: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_STRING:
        name = NAMES[rng.integers(len(NAMES))]
        return name.encode() if field.type == field.TYPE_BYTES else name
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return float(rng.choice([0.0, -1.0, 1e38, float("nan"), float("inf"), 0.5]))
    if field.cpp_type in (field.CPPTYPE_ENUM, field.CPPTYPE_INT32, field.CPPTYPE_UINT32):
        return int(rng.integers(0, 30))
    number = NUMBERS[rng.integers(len(NUMBERS))]
    return number if field.cpp_type == field.CPPTYPE_INT64 else abs(number)


def is_read(model: Any) -> bool:
    """Return True if a model is read, False if it is refused by a declared error."""
    try:
        frontend.from_onnx(model)
    except (IRTypeError, IRValueError):
        return False
    return True


class MutatedModels(Fuzzer):
    """Mutated files of the node tests of ONNX."""

    batch = 25
    _models: Sequence[Any] = ()

    def prepare(self) -> None:
        from onnx.backend.test.loader import load_model_tests  # noqa: PLC0415 - optional

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tests = load_model_tests(kind="node")
            self._models = [test.model for test in tests if test.model.ByteSize() < 20_000]
            for model in self._models[::20]:  # imports and caches what all cases need
                is_read(model)

    def limit(self) -> None:
        warnings.simplefilter("ignore")
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
        self._opened: list[str] = []
        # Found now: finding it in the hook would open files, and call the hook.
        self._known = (sys.prefix, sys.base_prefix, str(ROOT), "/proc", tempfile.gettempdir())
        sys.addaudithook(self._watch)

    def _watch(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str):
            if not args[0].startswith(self._known):
                self._opened.append(args[0])
        elif event in COMMANDS:
            self._opened.append(event)

    def content(self, rng: np.random.Generator) -> bytes:
        """Return the bytes of a file."""
        model = self._models[rng.integers(len(self._models))]
        if rng.random() < 0.5:
            return mutated_bytes(rng, model.SerializeToString())
        return bytes(mutated_message(rng, model).SerializeToString())

    def outcome(self, path: Path) -> str:
        """Read a file; return a word for the result."""
        what = "read" if is_read(path) else "refused"
        if self._opened:
            raise Failure("a file or a command is opened", self._opened.pop())
        return what

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{case}.onnx")
            path.write_bytes(self.content(np.random.default_rng(case)))
            self._opened.clear()
            started = time.process_time()
            what = self.outcome(path)
            seconds = time.process_time() - started
            if seconds > SECONDS + path.stat().st_size / BYTES_A_SECOND:
                raise Failure("slow", f"{seconds:.0f} seconds")
        return {what: 1}


class GrowingModels(MutatedModels):
    """Small files that describe large programs; models that are read are built and called."""

    batch = 5

    def prepare(self) -> None:
        is_read(growing_model(np.random.default_rng(0)))

    def content(self, rng: np.random.Generator) -> bytes:
        return bytes(growing_model(rng).SerializeToString())

    def outcome(self, path: Path) -> str:
        if not is_read(path):
            return "refused"
        try:
            mod = frontend.from_onnx(path)
            main = codegen.VirtualMachine(codegen.vm_build(mod, default_schedules=False))["main"]
            inputs = [_input(param.struct_info) for param in mod["main"].params]
            if all(array is not None for array in inputs) and _is_small(mod):
                main(*inputs)
        except TensorIRError:
            return "refused later"
        return "read"


def _input(info: Any) -> np.ndarray[Any, Any] | None:
    shape = [extent.value if isinstance(extent, IntImm) else 3 for extent in info.shape]
    return np.ones(shape, np.float32) if math.prod(max(n, 1) for n in shape) < SMALL else None


def _is_small(mod: IRModule) -> bool:
    """Return True if all tensors of graph functions are small, and none loops many times."""
    for func in mod.graph_funcs().values():
        for node in walk(func):
            extents = getattr(getattr(node, "struct_info", None), "shape", None) or ()
            known = [max(n.value, 1) for n in extents if isinstance(n, IntImm)]
            if math.prod(known) > SMALL or isinstance(node, ExternFunc):
                return False
    return True
