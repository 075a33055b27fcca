"""Shared libraries of graph functions for C: their functions, their header, their link."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codegen.abi import (
    CONSTANTS_SYMBOL,
    HEADER_SYMBOL,
    OUT_OF_MEMORY,
    PROGRAM_SYMBOL,
    kernel_symbol,
    status_of,
)
from codegen.emit.function import emit_kernel
from codegen.emit.llvm_text import escape, global_name
from codegen.errors import CodegenError
from codegen.lower import lower
from codegen.runtime import export
from codegen.signature import ModuleInfo, Signature, dim_text
from codegen.vm import program as p
from codegen.vm.c_entry import (
    DTYPES,
    Described,
    Entry,
    entries_of,
    entries_text,
    filled,
    of_pattern,
)
from tensorir.function import IRModule
from tensorir.nodes.expr import Call
from tensorir.nodes.packed_call import CALL_PACKED, packed_arguments
from tensorir.recursion import any_depth
from tensorir.relax.expr import ExternFunc
from tensorir.relax.library.loop import LOOP
from tensorir.relax.operator import LIBRARY_PREFIX
from tensorir.rewriting.visit import walk
from tensorir.script.parser import parse
from tensorir.version import __version__

if TYPE_CHECKING:
    from codegen.vm.executable import Executable

_OTHER_WORKSPACE: Final = "the workspace belongs to another function"
_NO_ARRAYS: Final = "inputs or outputs is NULL"
_NO_TILES: Final = "the system does not grant the AMX tile registers"


def library_name(path: str | Path) -> str:
    """Return the name in front of the functions of a library: `libmodel.so` has `model_main`."""
    stem = Path(path).name.split(".")[0]
    name = _identifier(stem.removeprefix("lib") or stem)
    return name if name[:1].isalpha() else f"model_{name}"


def refuse_python(
    calls: Iterable[tuple[str, str]],
    what: str = "a shared library cannot contain Python functions, and the model calls some",
    remedy: str = "compute them outside of the model, or pickle the executable of "
    "codegen.vm_build for a process with Python",
) -> None:
    """Raise CodegenError for calls of functions of Python, pairs of a function and a place."""
    listed: dict[str, list[str]] = {}
    for name, place in calls:
        if name != LOOP:
            listed.setdefault(name.removeprefix(LIBRARY_PREFIX), []).append(place)
    if listed:
        texts = (f"{name} (in {', '.join(dict.fromkeys(at))})" for name, at in listed.items())
        raise CodegenError(f"{what}: {', '.join(texts)}; {remedy}")


def python_calls(mod: IRModule) -> Iterator[tuple[str, str]]:
    """Yield the functions of Python that the functions of a module call, and where."""
    for name, func in mod.functions.items():
        for node in walk(func):
            if isinstance(node, ExternFunc):
                yield node.symbol, name
            elif isinstance(node, Call) and node.op is CALL_PACKED:
                yield packed_arguments(node)[0], name


def _identifier(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)


@any_depth
def link_executable(executable: Executable, path: Path) -> None:
    """Write an executable as a shared library for C and for `codegen.load_module`.

    Raises CodegenError for what C cannot have, LinkError without a linker and for a GPU.
    """
    info, target = executable.module.info, executable.module.target
    export.check_target(target)
    refuse_python(
        [
            *((x, at) for x, places in executable.library_calls().items() for at in places),
            *((x.function, at) for at, calls in info.library.items() for x in calls),
        ]
    )
    name = library_name(path)
    entries, runs = _entries(executable)
    module = parse(entries_text(entries, runs))
    assert isinstance(module, IRModule)
    functions = module.prim_funcs()
    lowered = {n: lower(func, target) for n, func in functions.items() if n not in runs}
    known = {**functions, **lowered}
    kernels = [emit_kernel(n, None, func, known, target, {}) for n, func in lowered.items()]
    messages = (*info.messages, *(text for kernel in kernels for text in kernel.info.messages))
    export.link_library(
        executable.module.object_code,
        path,
        {
            PROGRAM_SYMBOL: [executable.description.to_json().encode() + b"\0"],
            CONSTANTS_SYMBOL: executable.constants.content(),
            HEADER_SYMBOL: [_header(entries, name, info).encode() + b"\0"],
        },
        interface=_interface(entries, name, messages, info),
        more_objects=[kernel.code.object_code() for kernel in kernels],
    )


def _entries(executable: Executable) -> tuple[list[Entry], dict[str, Signature]]:
    """Return the entries of the programs of an executable, and the machine code that they call."""
    programs = executable.description.programs
    steps = [step for program in programs for step in program.all_steps()]
    called = {step.symbol for step in steps if isinstance(step, p.Run)}
    runs = {s.name: s for s in executable.module.info.functions if s.name in called}
    return [*entries_of(programs, runs).values()], runs


def _public(entries: list[Entry], name: str) -> dict[str, Entry]:
    """Return the entries that C calls by their names: `main`, and those without a caller."""
    called = set()
    for entry in entries:
        for step in entry.program.all_steps():
            if isinstance(step, p.CallGraph):
                called.add(step.function)
            elif isinstance(step, p.CallLibrary):
                called.update(graph for _, graph in step.graphs)
    public: dict[str, Entry] = {}
    taken = {f"{name}_{own}" for own in ("message", "free", "free_workspace")}
    for entry in entries:
        if entry.program.name == "main" or entry.program.name not in called:
            function = f"{name}_{_identifier(entry.program.name)}"
            while not taken.isdisjoint((function, f"{function}_shapes")):
                function += "_"
            taken |= {function, f"{function}_shapes"}
            public[function] = entry
    return public


def header(executable: Executable, name: str) -> str:
    """Return the C header of the library `name`."""
    export.check_target(executable.module.target)
    return _header(_entries(executable)[0], name, executable.module.info)


def _header(entries: list[Entry], name: str, info: ModuleInfo) -> str:
    texts = []
    for function, entry in _public(entries, name).items():
        lines = [f"inputs[{k}]: {_input_text(x)}" for k, x in enumerate(entry.inputs)]
        lines += [f"outputs[{k}]: {_value_text(x)}" for k, x in enumerate(entry.outputs)]
        values = "\n * ".join(lines).replace("*/", "* /")
        texts.append(filled("function.h", values=values, function=function))
    return filled(
        "model.h",
        name=name,
        guard=name.upper(),
        version=__version__,
        machine=_machine_text(info),
        dtypes="\n".join(f"  TENSORIR_{k.upper()} = {v:#x}," for k, v in DTYPES.items()),
        functions="\n".join(texts),
    )


def _machine_text(info: ModuleInfo) -> str:
    """Return the lines that say on which CPUs the code runs."""
    features = f" with {', '.join(info.needed_features)}" if info.needed_features else ""
    text = f"Machine. The code is for {info.architecture} CPUs{features}; its target: {info.target}"
    return textwrap.fill(text, 97, subsequent_indent=" * ").replace("*/", "* /")


def _input_text(pattern: p.Leaf) -> str:
    written = " (is written)" if isinstance(pattern, p.TensorPattern) and pattern.written else ""
    return f"{pattern.name}, {_value_text(of_pattern(pattern))}{written}"


def _value_text(known: Described) -> str:
    if known.kind == "number":
        return f"{known.dtype}, without dimensions"
    shape = known.shape if known.shape is not None else ["?"] * known.ndim
    extents = ", ".join(map(dim_text, shape)) if known.ndim >= 0 else "..."
    dtype = "extents, in .shape: " if known.kind == "shape" else known.dtype or "any dtype "
    return f"{dtype}[{extents}]"


def _interface(entries: list[Entry], name: str, messages: tuple[str, ...], info: ModuleInfo) -> str:
    """Return LLVM IR of the functions under their names for C."""
    texts = {status_of(text): text for text in (*messages, _NO_ARRAYS, _OTHER_WORKSPACE, _NO_TILES)}
    texts |= {OUT_OF_MEMORY: "memory ran out", 0: "success"}
    constants = []
    for k, text in enumerate([*texts.values(), "unknown status"]):
        data = text.encode() + b"\0"
        constants.append(f'@m{k} = private constant [{len(data)} x i8] c"{escape(data)}"')
    labels = [f"l{k}:\n  ret ptr @m{k}" for k in range(len(texts))]
    parts = [
        filled(
            "model.ll",
            name=name,
            weights=CONSTANTS_SYMBOL,
            constants="\n".join(constants),
            cases="\n".join(f"    i32 {status}, label %l{k}" for k, status in enumerate(texts)),
            labels="\n".join([*labels, f"other:\n  ret ptr @m{len(texts)}"]),
        )
    ]
    uses_tiles = any(feature.startswith("amx-") for feature in info.needed_features)
    for function, entry in _public(entries, name).items():
        call, free = (
            global_name(kernel_symbol(f"{entry.program.name}/{k}")) for k in ("call", "free")
        )
        parts.append(
            filled(
                "function.ll",
                function=function,
                call=call,
                free=free,
                has_inputs=str(bool(entry.inputs)).lower(),
                has_outputs=str(bool(entry.outputs)).lower(),
                without_arrays=str(status_of(_NO_ARRAYS)),
                uses_tiles=str(uses_tiles).lower(),
                without_tiles=str(status_of(_NO_TILES)),
                of_another=str(status_of(_OTHER_WORKSPACE)),
            )
        )
    return "\n".join(parts)
