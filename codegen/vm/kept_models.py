"""Built models that are kept on the disk, for later processes on this machine.

A file holds the machine code, the programs and the constants of an executable. It is mapped into
memory, so that processes share the constants. The key is a digest of the module with its constants,
the names that errors show, the target, the machine, and the sources of everything that had a part
in the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import numpy as np

from codegen.emit.optimize import made_by
from codegen.kept_files import Part, kept_files, sources_stamp
from codegen.machine import known_speed
from codegen.target import Target, host
from codegen.vm.constants import Array
from codegen.vm.executable import Executable, executable_of_parts
from tensorir.comparison.structural_hash import structural_hash
from tensorir.extensions import SCHEDULES, entry_point
from tensorir.function import IRModule
from tensorir.memory.alignment import ALIGNMENT, align
from tensorir.relax.call_graph import graph_calls
from tensorir.relax.declaration import DeclaredOperator
from tensorir.relax.function import graph_functions

_LIMIT: Final = 1 << 30
_HEADER: Final = 8
"""The bytes of the length of the header."""


def kept_or_built(
    mod: IRModule,
    target: Target,
    guard_pages: bool,
    build: Callable[[], Executable],
) -> Executable:
    """Return the executable that an earlier process has kept of a module, else build and keep it.

    A kept executable builds the module once more when its module or its source is asked for. A
    module with operators that other packages declare is not kept, since their sources may change.
    """
    files = kept_files("models", _LIMIT)
    if files is None or not _has_own_operators(mod):
        return build()
    key = _key(mod, target, guard_pages)
    content = files.get(key)
    if content is not None:
        return _read(content, guard_pages, cache(build))
    built = build()
    files.put(key, _parts(built))
    return built


def _has_own_operators(mod: IRModule) -> bool:
    """Return True if the package `tensorir` declares all operators of a module."""
    declared = {call.op for call in graph_calls(mod) if isinstance(call.op, DeclaredOperator)}
    return all(op.function.__module__.startswith("tensorir.") for op in declared)


def _key(mod: IRModule, target: Target, guard_pages: bool) -> bytes:
    names = {
        name: [(str(param.name_hint), str(param.struct_info)) for param in func.params]
        for name, func in graph_functions(mod).items()
    }
    parts = (
        structural_hash(mod),
        names,
        sorted(mod.functions),
        str(target),
        made_by(target),
        host.cpu_identity(),
        host.physical_cores(),
        known_speed(target),
        guard_pages,
        entry_point(SCHEDULES),
        sources_stamp(),
    )
    return "\n".join(map(repr, parts)).encode()


def _parts(built: Executable) -> Iterator[Part]:
    """Yield the content of a file, each part at a multiple of 64 bytes."""
    constants = built.constants
    code, text = built.module.object_code, built.description.to_json().encode()
    block: Any = np.asarray(constants.block)
    arrays = [np.ascontiguousarray(data) for data in constants.arrays]
    header = json.dumps(
        {
            "sizes": [len(code), len(text), block.nbytes],
            "arrays": [[list(data.shape), data.dtype.str] for data in arrays],
            "distances": constants.distances,
        }
    ).encode()
    yield from _padded(len(header).to_bytes(_HEADER, "little") + header)
    for part in (code, text, block, *arrays):
        yield from _padded(memoryview(part).cast("B") if len(part) else b"")


def _padded(part: Part) -> Iterator[Part]:
    yield part
    yield bytes(-memoryview(part).nbytes % ALIGNMENT)


def _read(content: memoryview, guard_pages: bool, build: Callable[[], Executable]) -> Executable:
    length = int.from_bytes(content[:_HEADER], "little")
    header = json.loads(bytes(content[_HEADER : _HEADER + length]))
    at = align(_HEADER + length)

    def taken(size: int) -> memoryview:
        nonlocal at
        start, at = at, at + align(size)
        return content[start : start + size]

    code, text, block = map(taken, header["sizes"])
    arrays: list[Array] = []
    for shape, kind in header["arrays"]:
        dtype = np.dtype(kind)
        size = int(np.prod(shape)) * dtype.itemsize
        arrays.append(np.frombuffer(taken(size), dtype).reshape(shape))
    constants = np.frombuffer(block, np.uint8), tuple(arrays), tuple(header["distances"])
    return executable_of_parts(bytes(code), bytes(text).decode(), constants, guard_pages, build)
