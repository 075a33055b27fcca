"""Looks for model files that are refused by no declared error, or that take long or crash.

    python -m benchmarks.fuzz_models --seconds 600      # mutated files of node tests and of models
    python -m benchmarks.fuzz_models --count 2000
    python -m benchmarks.fuzz_models --growing          # small files that describe large programs

A file of a seed is mutated: bytes, or parts of its message (names, numbers, attributes, shapes,
nodes left out or repeated). Reading it gives a module that is well-formed, or IRTypeError or
IRValueError, in bounded time and memory; it opens no file but the model's, and runs nothing. With
`--growing` the files are those of `benchmarks/growing_models.py`; a model that is read is built
without schedules, and called where its tensors are small, which may end in a declared error, too.
Takes the package onnx.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import codegen
from benchmarks.forked_runs import Report, Run
from benchmarks.growing_models import growing_model
from tensorir import IRModule, IRTypeError, IRValueError, frontend
from tensorir.errors import TensorIRError
from tensorir.nodes.expr import IntImm
from tensorir.relax.expr import ExternFunc
from tensorir.rewriting.visit import walk

MEMORY = 2 << 30
"""Bytes of addresses that the process of a file may take beyond what it begins with."""
SMALL = 1 << 22
"""Bytes of a tensor in models that are called."""
SECONDS = 5.0
"""Seconds of a processor that a file may take, in addition to those for its bytes."""
BYTES_A_SECOND = 2000
"""Bytes of a file for which it may take another second: about 60 nodes, each a kernel to build."""

NUMBERS = (-(1 << 63), -(1 << 31), -7, -2, -1, 0, 1, 2, 3, 5, 64, 1 << 20, 1 << 31, (1 << 63) - 1)
NAMES = ("", "x", "y", "../../etc/passwd", "a\0b", "ü", "0", "axes", "Relu", "Constant", "Reshape")


def mutated_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Return bytes with some changed, left out, repeated, or with an end that is missing."""
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
    """Return a message and those inside of it."""
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
    number = NUMBERS[rng.integers(len(NUMBERS))]
    if field.cpp_type == field.CPPTYPE_ENUM:
        return int(rng.integers(0, 25))
    if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32):
        return int(rng.integers(0, 30))
    return number if field.cpp_type == field.CPPTYPE_INT64 else abs(number)


def seeds() -> list[Any]:
    """Return models to begin with: those of the node tests that are small."""
    from onnx.backend.test.loader import load_model_tests  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    return [test.model for test in tests if test.model.ByteSize() < 20_000]


def outcome_of(model: Any) -> str:
    """Read a model; return what came of it, for an error that nobody declares its text."""
    try:
        frontend.from_onnx(model)
    except (IRTypeError, IRValueError):
        return "refused"
    except Exception as error:  # noqa: BLE001 - any other is what is looked for
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "read"


def outcome_of_call(model: Any) -> str:
    """Read, build and call a model; return what came of it, as `outcome_of`."""
    what = outcome_of(model)
    if what != "read":
        return what
    try:
        mod = frontend.from_onnx(model)
        main = codegen.VirtualMachine(codegen.vm_build(mod, default_schedules=False))["main"]
        inputs = [_input(param.struct_info) for param in mod["main"].params]
        if all(array is not None for array in inputs) and _is_small(mod):
            main(*inputs)
    except TensorIRError:
        return "read"
    except Exception as error:  # noqa: BLE001 - any other is what is looked for
        return f"built: {type(error).__name__}: {str(error)[:200]}"
    return "read"


def _input(info: Any) -> np.ndarray[Any, Any] | None:
    shape = [extent.value if isinstance(extent, IntImm) else 3 for extent in info.shape]
    return np.ones(shape, np.float32) if math.prod(max(n, 1) for n in shape) < SMALL else None


def _is_small(mod: IRModule) -> bool:
    """Return whether all tensors of graph functions are small, and none loops many times."""
    for func in mod.graph_funcs().values():
        for node in walk(func):
            info = getattr(node, "struct_info", None)
            extents = getattr(info, "shape", None) or ()
            known = [max(n.value, 1) for n in extents if isinstance(n, IntImm)]
            if math.prod(known) > SMALL or isinstance(node, ExternFunc):
                return False
    return True


def _task(paths: Sequence[Path], outcome: Callable[[Any], str]) -> Any:
    def run(report: Report) -> None:
        warnings.simplefilter("ignore")
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
        opened: list[str] = []
        folder = str(paths[0].parent)

        def watch(event: str, args: tuple[Any, ...]) -> None:
            if event == "open" and isinstance(args[0], str) and not args[0].startswith(folder):
                known = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]), "/proc")
                if not args[0].startswith(known):
                    opened.append(args[0])
            elif event in (
                "os.system",
                "os.exec",
                "os.posix_spawn",
                "subprocess.Popen",
                "socket.connect",
            ):
                opened.append(event)

        sys.addaudithook(watch)
        for path in paths:
            report(line=path.name)
            started = time.process_time()
            what = outcome(path)
            seconds = time.process_time() - started
            if seconds > SECONDS + path.stat().st_size / BYTES_A_SECOND:
                what = f"{seconds:.0f} seconds"
            elif opened and outcome is outcome_of:  # compilers read much
                what = f"reads {opened.pop()}"
            report(line=f"= {what}")
        report(what="")

    return run


def _content(rng: np.random.Generator, models: Sequence[Any] | None) -> bytes:
    if models is None:
        return bytes(growing_model(rng).SerializeToString())
    model = models[rng.integers(len(models))]
    if rng.random() < 0.5:
        return mutated_bytes(rng, model.SerializeToString())
    return bytes(mutated_message(rng, model).SerializeToString())


def fuzz(
    seed: int, count: int, models: Sequence[Any] | None, folder: Path
) -> tuple[Counter[str], list[str]]:
    """Read so many files; return how often what came of them, and the bad ones.

    They are mutated ones of `models`; without these, files that grow, which are built and called.
    """
    outcome = outcome_of_call if models is None else outcome_of
    found: Counter[str] = Counter()
    bad: list[str] = []
    for first in range(0, count, 50):
        paths = []
        for number in range(first, min(first + 50, count)):
            rng = np.random.default_rng([seed, number])
            path = folder / f"{seed}_{number}.onnx"
            path.write_bytes(_content(rng, models))
            paths.append(path)
        while paths:
            run = Run(_task(paths, outcome), time_limit=120)
            end = run.finish()
            results = [line[2:] for line in run.lines if line.startswith("= ")]
            if end.what and len(results) < len(paths):
                results.append(f"{end.what}: {end.detail}")
            for path, what in zip(paths, results, strict=False):
                found[what if what in ("read", "refused") else "bad"] += 1
                if what not in ("read", "refused"):
                    bad.append(f"{path.name}: {what}")
                else:
                    path.unlink()
            paths = paths[len(results) :]
    return found, bad


def main() -> None:
    """Fuzz, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for bad files")
    parser.add_argument("--growing", action="store_true", help="small files that grow")
    args = parser.parse_args()
    models = None if args.growing else seeds()
    for model in (models or ())[::20]:  # what is imported and made once is there before
        outcome_of(model)
    deadline = time.monotonic() + args.seconds
    total: Counter[str] = Counter()
    seed = args.seed
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        while True:
            found, bad = fuzz(seed, args.count, models, folder)
            total += found
            print(f"seed {seed}: {dict(found)}", *bad, sep="\n  ", flush=True)
            seed += 1
            if time.monotonic() > deadline:
                break
    print(dict(total))


if __name__ == "__main__":
    main()
