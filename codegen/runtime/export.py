"""Shared libraries: linking them, writing C headers for them, loading them."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from codegen.abi import (
    CONSTANTS_SYMBOL,
    HEADER_SYMBOL,
    INFO_SYMBOL,
    OPENMP_SYMBOLS,
    PROGRAM_SYMBOL,
    entry_symbol,
    kernel_symbol,
)
from codegen.emit.llvm_text import global_name, parameter_type
from codegen.emit.optimize import object_code as object_code_of
from codegen.errors import LinkError
from codegen.runtime import openmp
from codegen.runtime.host_features import prepare_host, why_not_loaded
from codegen.runtime.jit import LoadedCode
from codegen.signature import ModuleInfo, Parameter, Signature, dim_text, read_object_code
from codegen.target import Target, host
from tensorir.memory.alignment import ALIGNMENT

_COMPILERS: Final = ("cc", "gcc", "clang")
_LINKERS: Final = ("ld", "ld.lld")
_LINKERS_OF_ALL: Final = ("ld.lld",)
"""The linkers that link for any architecture."""
_C_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
"""C reserves names that begin with an underscore."""
_C_KEYWORDS: Final = frozenset((
        "auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double",
        "else", "enum", "extern", "false", "float", "for", "goto", "if", "inline", "int", "long",
        "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct",
        "switch", "true", "typedef", "union", "unsigned", "void", "volatile", "while",
))  # fmt: skip
_C_TYPES: Final = {"bool": "bool", "float32": "float", "float64": "double", "handle": "void*"}
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")


def check_target(target: Target) -> None:
    """Raise LinkError for the target of a GPU, which no library is for."""
    if target.gpu is not None:
        raise LinkError(
            f"a shared library runs on CPUs, and the code is for {target.kind}; build it for the "
            "target 'llvm', or keep Module.object_code and load it with Module.from_object"
        )


def linker_for(target: Target, path: Path) -> list[str]:
    """Return the command that links a library for a target at a path.

    Raises LinkError without a linker, for a GPU, and for a path that cannot be written.
    """
    check_target(target)
    if path.is_dir() or not path.parent.is_dir():
        wrong = (
            f"{path} is a directory" if path.is_dir() else f"directory {path.parent} does not exist"
        )
        raise LinkError(f"no library can be written to {path}: {wrong}; name a new file")
    return _linker(target)


def link_library(
    object_code: bytes,
    path: Path,
    embedded: Mapping[str, Parts] | None = None,
    *,
    interface: str | None = None,
    more_objects: Sequence[bytes] = (),
) -> None:
    """Link the result of `compile_object` into the shared library `path`.

    `embedded` are data by symbol, `interface` is LLVM IR of the functions for C (by default each
    public function under its name). Raises LinkError without a linker, for two functions with the
    same C name, and for a path that cannot be written.
    """
    info, objects = read_object_code(object_code)
    target = Target(info.target)
    command = linker_for(target, path)
    data: dict[str, Parts] = {INFO_SYMBOL: [info.to_json().encode() + b"\0"], **(embedded or {})}
    with tempfile.TemporaryDirectory() as folder:
        files = []
        is_macos = sys.platform == "darwin"
        text = _included(data, Path(folder)) if is_macos else ""
        text += _interface(info) if interface is None else interface
        own = object_code_of(text, target, has_scalar_loop=False)
        for number, content in enumerate([*objects.values(), *more_objects, own]):
            files.append(Path(folder) / f"{number}.o")
            files[-1].write_bytes(content)
        if not is_macos:
            files.append(Path(folder) / "data.o")
            write_data_object(files[-1], target.architecture, data)
        libraries = [] if Path(command[0]).name in _LINKERS else ["-lm"]
        attempts = [libraries]
        if libraries and any(OPENMP_SYMBOLS[0].encode() in content for content in objects.values()):
            # The symbols are weak, so without the library the loops run serially.
            attempts.insert(0, [*libraries, "-Wl,--no-as-needed", "-lgomp"])
        for extra in attempts:
            finished = subprocess.run(
                [*command, *map(str, files), "-o", str(path), *extra],
                capture_output=True,
                text=True,
                check=False,
            )
            if finished.returncode == 0:
                return
    raise LinkError(f"linking {path} with {command[0]} failed:\n{finished.stderr.strip()}")


def _interface(info: ModuleInfo) -> str:
    """Return LLVM IR of the functions under their C names."""
    text = ""
    callable_from_c: dict[str, str] = {}
    for signature in info.public:
        c_name = c_name_of(signature)
        if c_name is None:
            continue
        other = callable_from_c.setdefault(c_name, signature.name)
        if other != signature.name:
            raise LinkError(
                f"functions {other!r} and {signature.name!r} have the same global_symbol, "
                f"{c_name}, but names must be unique in a library; rename one of them"
            )
        text += _c_wrapper(signature, c_name)
    return text


def _included(embedded: Mapping[str, Parts], folder: Path) -> str:
    """Return LLVM IR for macOS with data that the assembler includes from files."""
    lines = [".section __TEXT,__const"]
    for k, (symbol, parts) in enumerate(embedded.items()):
        path = folder / f"data{k}"
        with path.open("wb") as file:
            for part in parts:
                file.write(part)
        name = f"_{symbol}"
        lines += [f".globl {name}", ".p2align 6", f"{name}:", f'.incbin "{path}"', ".byte 0"]
    return "".join(f"module asm {_quoted(line)}\n" for line in lines)


def _c_wrapper(signature: Signature, name: str) -> str:
    """Return LLVM IR of the function `name`, which jumps to the kernel."""
    kernel = global_name(kernel_symbol(signature.name))
    passed = signature.passed
    arguments = ", ".join(f"{parameter_type(dtype)} %p{k}" for k, dtype in enumerate(passed))
    return (
        f"declare i32 {kernel}({', '.join(map(parameter_type, passed))})\n"
        f"define i32 {global_name(name)}({arguments}) nounwind {{\n"
        f"  %status = tail call i32 {kernel}({arguments})\n  ret i32 %status\n}}\n"
    )


def c_name_of(signature: Signature) -> str | None:
    """Return the name by which C calls a function of a library.

    The result is None for invalid and reserved C names, and for names of the C library or of an
    OpenMP runtime: a program that links the library would get our function instead of theirs.
    """
    name = signature.c_name
    if name is None or not _C_IDENTIFIER.match(name) or name in _C_KEYWORDS:
        return None
    return None if name in OPENMP_SYMBOLS or _is_of_c_library(name) else name


def _is_of_c_library(name: str) -> bool:
    return any(hasattr(library, name) for library in _c_library())


@cache
def _c_library() -> tuple[ctypes.CDLL, ...]:
    try:
        return ctypes.CDLL("libc.so.6"), ctypes.CDLL("libm.so.6")
    except OSError:
        return (ctypes.CDLL(None),)


def _quoted(line: str) -> str:
    return '"' + line.replace("\\", "\\5C").replace('"', "\\22") + '"'


def _linker(target: Target) -> list[str]:
    shared = "-dynamiclib" if sys.platform == "darwin" else "-shared"
    compilers: tuple[str, ...] = _COMPILERS
    linkers: tuple[str, ...] = _LINKERS
    is_foreign = target.architecture != host.machine()
    if is_foreign:
        compilers, linkers = (f"{target.architecture}-linux-gnu-gcc",), _LINKERS_OF_ALL
    for command in (os.environ.get("CC", ""), *compilers, *linkers):
        words = command.split()
        found = shutil.which(words[0]) if words else None
        if found:
            return [found, *words[1:], shared]
    what = f"for {target.architecture} " if is_foreign else ""
    raise LinkError(
        f"export_library found no linker {what}: install one of "
        f"{', '.join((*compilers, *linkers))}, or set CC to a C compiler. Without one, keep "
        f"Module.object_code and load it with Module.from_object"
    )


def load_library(path: Path) -> LoadedCode:
    """Load a library that `link_library` wrote."""
    if not path.is_file():
        raise LinkError(f"library {path} does not exist{': it is a directory' * path.is_dir()}")
    reason = _load_refusal(path)
    if reason is not None:
        raise LinkError(f"the library {path} cannot be loaded: {reason}")
    runtime = openmp.runtime()
    if runtime is not None:
        # Parallel loops refer to the runtime by weak symbols, so it must be loaded before the
        # library.
        ctypes.CDLL(runtime._name, ctypes.RTLD_GLOBAL)
    try:
        library = ctypes.CDLL(str(path.resolve()))
        text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, INFO_SYMBOL)))
    except (OSError, ValueError) as problem:
        raise LinkError(
            f"{path} is not a library of Module.export_library of this release: {problem}"
        ) from problem
    info = ModuleInfo.from_json(text.decode())
    names = [s.name for s in info.public]
    refusal = why_not_loaded(info)
    if refusal is not None:
        return LoadedCode(info, {}, {}, library, refusal=refusal)
    prepare_host(info.needed_features)
    return LoadedCode(
        info,
        {name: _address(library, entry_symbol(name)) for name in names},
        {name: _address(library, kernel_symbol(name)) for name in names},
        library,
    )


def _load_refusal(path: Path) -> str | None:
    """Return the reason why a file must not be loaded, None if it may be.

    The dynamic loader trusts the header of a file: it maps missing parts of a truncated file, and
    the process dies of SIGBUS when it accesses them. Files other than 64-bit ELF are left to the
    loader, which refuses them itself.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        head = file.read(HEADER.size)
        if not head.startswith(ELF_64_LITTLE) or len(head) < HEADER.size:
            return None
        needed, machine = _needed_bytes(file, head)
    if needed > size:
        return f"the file is truncated: it has {size} of {needed} bytes; export or copy it again"
    architecture = _ARCHITECTURES.get(machine, f"architecture {machine}")
    if architecture != host.machine():
        return f"its code is for {architecture}, but this machine is {host.machine()}"
    return None


def _needed_bytes(file: BinaryIO, head: bytes) -> tuple[int, int]:
    """Return the size of a file according to its ELF header, and its machine number."""
    fields = HEADER.unpack(head)
    machine, segments, sections = fields[2], fields[5], fields[6]
    segment_size, segment_count, section_size, section_count = fields[9:13]
    ends = [segments + segment_size * segment_count, sections + section_size * section_count]
    if segment_size == _SEGMENT.size:
        file.seek(segments)
        table = file.read(segment_size * segment_count)
        whole = len(table) - len(table) % segment_size
        for entry in _SEGMENT.iter_unpack(table[:whole]):
            offset, length = entry[2], entry[5]
            ends.append(offset + length)
    return max(ends), machine


def embedded_program(code: LoadedCode) -> tuple[str, int] | None:
    """Return the programs of the graph functions in a library, and the address of their constants.

    None for code without graph functions.
    """
    library = code.owner
    if not isinstance(library, ctypes.CDLL) or not hasattr(library, PROGRAM_SYMBOL):
        return None
    text = ctypes.string_at(_address(library, PROGRAM_SYMBOL)).decode()
    return text, _address(library, CONSTANTS_SYMBOL)


def embedded_header(code: LoadedCode) -> str | None:
    """Return the C header in a library of graph functions, None for other code."""
    library = code.owner
    if not isinstance(library, ctypes.CDLL) or not hasattr(library, HEADER_SYMBOL):
        return None
    return ctypes.string_at(_address(library, HEADER_SYMBOL)).decode()


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


def c_header(info: ModuleInfo) -> str:
    """Return prototypes in C for the functions of a library.

    A C program defines `main` itself, so a function of that name is declared as a type, to be used
    with dlsym. Functions without a C name are left out; see `c_name_of`.
    """
    lines = ["#include <stdbool.h>", "#include <stdint.h>", ""]
    for signature in info.public:
        name, prefix = c_name_of(signature), ""
        if name is None:
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


# ----------------------------------------------------------------------------- object files of data
#
# Relocatable ELF objects with data only, written part by part: a model may have gigabytes of it.
#
# The layout is that of the ELF-64 object file format (System V ABI, chapter 4): a header, the
# section of read-only data, symbols and their names, the names of sections, and the table of
# sections.


ELF_64_LITTLE: Final = b"\x7fELF\x02\x01"
HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
MACHINES: Final = {"x86_64": 62, "aarch64": 183, "riscv64": 243}
_ARCHITECTURES: Final = {number: name for name, number in MACHINES.items()}
"""The ELF machine numbers of architectures."""
_FLAGS: Final = {"riscv64": 5}
"""ELF flags for compressed instructions and 64-bit float registers, as on Linux."""
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATABLE: Final = 1
_BITS, _SYMBOLS, _STRINGS = 1, 2, 3
_LOADED: Final = 2
_GLOBAL_OBJECT: Final = 0x11
_PROTECTED: Final = 3
"""ELF visibility: exported, but code of the library never binds to data of another library."""
_NAMES: Final = ("", ".rodata", ".symtab", ".strtab", ".shstrtab", ".note.GNU-stack")

Parts = Sequence[bytes | memoryview]
"""Bytes, one after another."""


def write_data_object(path: Path, architecture: str, data: Mapping[str, Parts]) -> None:
    """Write an object with `data` by symbol, each aligned to 64 bytes and followed by a 0 byte."""
    symbols = [bytes(_SYMBOL.size)]
    names = b"\0"
    with path.open("wb") as file:
        start = -(-HEADER.size // ALIGNMENT) * ALIGNMENT
        file.write(bytes(start))
        for symbol, parts in data.items():
            file.write(bytes(-file.tell() % ALIGNMENT))
            at = file.tell()
            for part in parts:
                file.write(part)
            file.write(b"\0")
            entry = (len(names), _GLOBAL_OBJECT, _PROTECTED, 1, at - start, file.tell() - at)
            symbols.append(_SYMBOL.pack(*entry))
            names += symbol.encode() + b"\0"
        content_end = file.tell()
        file.write(bytes(-file.tell() % 8))
        section_names = "\0".join(_NAMES).encode() + b"\0"
        places = [(start, content_end - start)]
        for part in (b"".join(symbols), names, section_names):
            places.append((file.tell(), len(part)))
            file.write(part)
        file.write(bytes(-file.tell() % 8))
        table = file.tell()
        kinds = [
            (_BITS, _LOADED, 0, 0, ALIGNMENT, 0),
            (_SYMBOLS, 0, 3, 1, 8, _SYMBOL.size),
            (_STRINGS, 0, 0, 0, 1, 0),
            (_STRINGS, 0, 0, 0, 1, 0),
            (_BITS, 0, 0, 0, 1, 0),
        ]
        file.write(bytes(_SECTION.size))
        places.append((table, 0))
        for name, (kind, flags, link, info, align, entry_size), (offset, size) in zip(
            _NAMES[1:], kinds, places, strict=True
        ):
            at = section_names.index(b"\0" + name.encode() + b"\0") + 1
            file.write(
                _SECTION.pack(at, kind, flags, 0, offset, size, link, info, align, entry_size)
            )
        file.seek(0)
        file.write(
            HEADER.pack(
                ELF_64_LITTLE + b"\x01",
                _RELOCATABLE,
                MACHINES[architecture],
                1,
                0,
                0,
                table,
                _FLAGS.get(architecture, 0),
                HEADER.size,
                0,
                0,
                _SECTION.size,
                len(_NAMES),
                4,
            )
        )
