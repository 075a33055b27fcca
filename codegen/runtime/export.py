"""Shared libraries: linking them, describing them to C, loading them again."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from codegen.abi import CALL_PREFIX, INFO_SYMBOL, OPENMP_SYMBOLS
from codegen.emit.optimize import object_code
from codegen.errors import LinkError
from codegen.runtime import openmp
from codegen.runtime.jit import LoadedCode
from codegen.signature import ModuleInfo, Parameter, Signature, dim_text
from codegen.target import as_target

PROGRAM_SYMBOL: Final = "__tensorir_graph_functions"
"""The programs of graph functions, as JSON."""
CONSTANTS_SYMBOL: Final = "__tensorir_constants"
"""The constants of graph functions, one after the other."""
_COMPILERS: Final = ("cc", "gcc", "clang")
_LINKERS: Final = ("ld", "ld.lld")
_C_TYPES: Final = {"bool": "bool", "float32": "float", "float64": "double", "handle": "void*"}


def link_library(
    object_data: bytes, path: Path, embedded: Mapping[str, bytes | memoryview] | None = None
) -> None:
    """Link an object into the shared library `path`; LinkError without a linker.

    `embedded` are data by the symbols that they get.
    """
    command = _linker()
    with tempfile.TemporaryDirectory() as folder:
        objects = [Path(folder) / "module.o"]
        objects[0].write_bytes(object_data)
        if embedded:
            objects.append(_data_object(embedded, Path(folder)))
        attempts: list[list[str]] = [[]]
        if OPENMP_SYMBOLS[0].encode() in object_data and Path(command[0]).name not in _LINKERS:
            # The symbols are weak: without the library the loops run serially.
            attempts.insert(0, ["-Wl,--no-as-needed", "-lgomp"])
        for extra in attempts:
            finished = subprocess.run(
                [*command, *map(str, objects), "-o", str(path), *extra],
                capture_output=True,
                text=True,
                check=False,
            )
            if finished.returncode == 0:
                return
    raise LinkError(f"linking {path} with {command[0]} failed:\n{finished.stderr.strip()}")


def _data_object(embedded: Mapping[str, bytes | memoryview], folder: Path) -> Path:
    """Write an object with data, which the assembler takes from files: text of it would be long."""
    section = "__TEXT,__const" if sys.platform == "darwin" else '.rodata,"a"'
    prefix = "_" if sys.platform == "darwin" else ""
    lines = [f".section {section}"]
    for k, (symbol, data) in enumerate(embedded.items()):
        file = folder / f"data{k}"
        file.write_bytes(data)
        name = prefix + symbol
        lines += [f".globl {name}", ".p2align 6", f"{name}:", f'.incbin "{file}"', ".byte 0"]
    text = "".join(f"module asm {_quoted(line)}\n" for line in lines)
    found = folder / "data.o"
    found.write_bytes(object_code(text, as_target(None), has_scalar_loop=False))
    return found


def _quoted(line: str) -> str:
    return '"' + line.replace("\\", "\\5C").replace('"', "\\22") + '"'


def _linker() -> list[str]:
    shared = "-dynamiclib" if sys.platform == "darwin" else "-shared"
    for name in (os.environ.get("CC", ""), *_COMPILERS):
        found = shutil.which(name.split()[0]) if name.split() else None
        if found:
            return [found, shared, "-lm"]
    for name in _LINKERS:
        found = shutil.which(name)
        if found:
            return [found, shared]
    raise LinkError(
        "export_library needs a linker: install a C compiler (cc, gcc or clang) or ld, or set CC. "
        "Without one, keep Module.object_code and load it with Module.from_object"
    )


def load_library(path: Path) -> LoadedCode:
    """Open a library that `link_library` wrote."""
    if not path.exists():
        raise LinkError(f"there is no library {path}")
    runtime = openmp.runtime()
    if runtime is not None:
        # Parallel loops refer to it weakly; it has to be visible before the library is opened.
        ctypes.CDLL(runtime._name, ctypes.RTLD_GLOBAL)
    try:
        library = ctypes.CDLL(str(path.resolve()))
        text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, INFO_SYMBOL)))
    except (OSError, ValueError) as problem:
        raise LinkError(f"{path} is no library of Module.export_library: {problem}") from problem
    info = ModuleInfo.from_json(text.decode())
    names = [s.symbol for s in info.functions]
    return LoadedCode(
        info,
        {name: _address(library, CALL_PREFIX + name) for name in names},
        {name: _address(library, name) for name in names},
        library,
    )


def embedded_program(code: LoadedCode) -> tuple[str, int] | None:
    """Return the programs of the graph functions in a library, and where their constants are.

    None for code that has no graph functions.
    """
    library = code.owner
    if not isinstance(library, ctypes.CDLL) or not hasattr(library, PROGRAM_SYMBOL):
        return None
    text = ctypes.string_at(_address(library, PROGRAM_SYMBOL)).decode()
    return text, _address(library, CONSTANTS_SYMBOL)


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


def c_header(info: ModuleInfo, has_constants: bool = False) -> str:
    """Return prototypes in C for the functions of a library, and its constants if it has some.

    A C program has a `main` of its own, so of a function of that name the type is declared, for
    what dlsym finds. Names that C cannot spell are left out.
    """
    lines = ["#include <stdbool.h>", "#include <stdint.h>", ""]
    if has_constants:
        lines += [
            "/* Pass this as constants. An arena is memory for temporaries, which calls at the",
            "   same time do not share. Arrays begin at multiples of 64 bytes. */",
            f"extern const uint8_t {CONSTANTS_SYMBOL}[];",
            "",
        ]
    for signature in info.functions:
        name, prefix = signature.symbol, ""
        if not name.isidentifier():
            continue
        lines.append(f"/* {signature}; returns 0 on success */")
        if name == "main":
            lines.append('/* main_function* f = (main_function*)dlsym(library, "main"); */')
            name, prefix = "main_function", "typedef "
        lines += [f"{prefix}{_prototype(signature, name)};", ""]
    return "\n".join(lines)


def _prototype(signature: Signature, name: str) -> str:
    parts = [_c_parameter(p) for p in signature.parameters]
    parts += [f"{_c_type(str(dtype))} {name}" for name, dtype in signature.symbols]
    if signature.result is not None:
        parts.append(f"{_c_type(str(signature.result))}* result")
    return f"int32_t {name}({', '.join(parts) or 'void'})"


def _c_parameter(parameter: Parameter) -> str:
    kind = _c_type(str(parameter.dtype.element))
    if parameter.kind != "buffer":
        return f"{kind} {parameter.name}"
    constant = "" if parameter.written else "const "
    shape = "".join(f"[{dim_text(d)}]" for d in parameter.shape)
    return f"{constant}{kind}* {parameter.name} /* {shape} */"


def _c_type(dtype: str) -> str:
    if dtype in ("float16", "bfloat16"):
        return "uint16_t"
    return _C_TYPES.get(dtype, f"{dtype}_t")
