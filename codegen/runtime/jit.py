"""Loading object code into this process."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from codegen.abi import entry_symbol, kernel_symbol, library_symbol
from codegen.emit.optimize import binding
from codegen.errors import LinkError
from codegen.runtime import openmp
from codegen.runtime.host_features import prepare_host, why_not_loaded
from codegen.runtime.library_calls import LibraryCalls
from codegen.signature import ModuleInfo, read_object_code

_names: Final = itertools.count()
_registered: Final[dict[str, int]] = {}
"""Addresses of the C functions that were registered by `register_extern`."""


@dataclass(eq=False, slots=True)
class LoadedCode:
    """Machine code in memory, which exists as long as this object.

    `entries` maps the name of each public function to the address of its slot-array entry,
    `addresses` to the address of the C function itself.
    """

    info: ModuleInfo
    entries: dict[str, int]
    addresses: dict[str, int]
    owner: Any
    """The holder of the code: the JIT's library, or the `ctypes.CDLL` that was opened."""
    library: LibraryCalls | None = None
    """The callbacks through which the code calls library functions, None if it calls none."""
    refusal: str | None = None
    """The reason why the code cannot run in this process; then it is not loaded. None if it
    can.
    """


@cache
def _linker() -> Any:
    llvm = binding()
    machine = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_lljit_compiler(machine, use_jit_link=True)


def load_object(data: bytes) -> LoadedCode:
    """Load the result of `compile_object`; for code that cannot run here, only the description.

    Raises LinkError for other data, and for code that calls a C function or a library function that
    this process does not have.
    """
    info, objects = read_object_code(data)
    refusal = why_not_loaded(info)
    if refusal is not None or not objects:
        return LoadedCode(info, {}, {}, None, refusal=refusal)
    _check_externs(info)
    prepare_host(info.needed_features)
    builder = _builder(objects.values())
    library = LibraryCalls(info.library) if info.library else None
    if library is not None:
        for name, address in library.addresses.items():
            builder.import_symbol(library_symbol(name), address)
    names = [s.name for s in info.public]
    for name in names:
        builder.export_symbol(kernel_symbol(name)).export_symbol(entry_symbol(name))
    code = _link(builder)
    return LoadedCode(
        info,
        {name: code[entry_symbol(name)] for name in names},
        {name: code[kernel_symbol(name)] for name in names},
        code,
        library,
    )


def _check_externs(info: ModuleInfo) -> None:
    process = ctypes.CDLL(None)
    for name in info.externs:
        if name not in _registered and not hasattr(process, name):
            raise LinkError(
                f"the program calls C function {name!r}, which no library of this process defines; "
                f"load one with ctypes.CDLL(path, ctypes.RTLD_GLOBAL) or call "
                f"codegen.register_extern({name!r}, function)"
            )


def _builder(objects: Iterable[bytes]) -> Any:
    builder = binding().JITLibraryBuilder().add_current_process()
    for data in objects:
        builder.add_object_img(data)
    for symbol, address in {**openmp.symbol_addresses(), **_registered}.items():
        builder.import_symbol(symbol, address)
    return builder


def _link(builder: Any) -> Any:
    try:
        return builder.link(_linker(), f"tensorir{next(_names)}")
    except RuntimeError as problem:
        raise LinkError(f"the code cannot be loaded: {problem}") from problem


def load_own(code: str | bytes, symbols: Sequence[str]) -> Any:
    """Load LLVM IR or an object of this package (not of a program); return its addresses by symbol.

    The code stays in memory as long as the result.
    """
    builder = binding().JITLibraryBuilder().add_current_process()
    builder = builder.add_ir(code) if isinstance(code, str) else builder.add_object_img(code)
    for symbol in symbols:
        builder.export_symbol(symbol)
    return _link(builder)


def register_extern(name: str, function: Any) -> None:
    """Make a C function callable from programs by `T.call_extern(dtype, name, ...)`.

    `function` is an address, or a ctypes function that the caller keeps alive.
    """
    if not isinstance(function, int):
        function = ctypes.cast(function, ctypes.c_void_p).value
    _registered[name] = int(function or 0)
