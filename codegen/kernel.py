"""One kernel, one object: a function as LLVM IR, and its machine code.

The code of a kernel depends on its program and its target, and not on the rest of a module. The
kernel is optimised and emitted alone, and the same object is linked into every container of the
kernel: a measured candidate, a module, a model, a library. Objects are cached in memory, by a
digest of their inputs: the LLVM IR, the target and whether loops are left to LLVM; optionally on
the disk, too (`codegen.kept_files`). The entry of a kernel, which unpacks arguments, is a separate
object. All kernels with the same name and argument types share it, so a search makes it once.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from codegen.emit.optimize import assembly, made_by, object_code, optimize
from codegen.kept_files import kept_objects
from codegen.signature import ModuleInfo
from codegen.target import Target


@dataclass(frozen=True, slots=True)
class Unit:
    """LLVM IR before optimisation, to be compiled to one object."""

    text: str
    target: Target
    has_scalar_loop: bool = False
    """True if LLVM's loop vectoriser may help."""

    def object_code(self, make: Maker | None = None) -> bytes:
        """Return the relocatable object; CodegenError for code that LLVM rejects.

        It is cached, or made by `make`, by default by LLVM in this process.
        """
        return _objects.get(self, make or Unit.made)

    def made(self) -> bytes:
        """Compile the object now, by LLVM in this process."""
        return object_code(self.text, self.target, self.has_scalar_loop)

    def optimized(self) -> str:
        """Return the LLVM IR after optimisation."""
        return str(optimize(self.text, self.target, self.has_scalar_loop))

    def assembly(self) -> str:
        """Return the machine code as assembly text."""
        return assembly(self.text, self.target, self.has_scalar_loop)


Maker: TypeAlias = Callable[[Unit], bytes]
"""Makes the object of a unit; CodegenError for code that LLVM rejects."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function: its code, its entry for calls from outside, and its description."""

    info: ModuleInfo
    """The description of a module that has this function only."""
    code: Unit
    entry: Unit | None
    """None if only other functions of the module call the kernel."""

    @property
    def name(self) -> str:
        """The name of the function in its module."""
        return self.info.functions[0].name

    @property
    def units(self) -> list[Unit]:
        """The units that become objects: the code, and the entry if there is one."""
        return [self.code] if self.entry is None else [self.code, self.entry]

    def objects(self, make: Maker | None = None) -> dict[str, bytes]:
        """Return the objects by unique names; CodegenError if LLVM rejects one."""
        made = {"code": self.code.object_code(make)}
        if self.entry is not None:
            made["entry"] = self.entry.object_code(make)
        return made


class _Objects:
    """A cache of the latest objects, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, unit: Unit, make: Maker) -> bytes:
        made_from = f"{unit.target}\n{unit.has_scalar_loop}\n{unit.text}"
        key = hashlib.blake2b(made_from.encode(), digest_size=32).digest()
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        made = _load_or_make(key, unit, make)
        with self._lock:
            if key not in self._known:
                self._known[key] = made
                self._bytes += len(made)
            while self._bytes > self._limit:
                _, oldest = self._known.popitem(last=False)
                self._bytes -= len(oldest)
        return made


def _load_or_make(key: bytes, unit: Unit, make: Maker) -> bytes:
    """Return the object from the disk cache, if that is enabled and has it, else a new object."""
    kept = kept_objects()
    if kept is None:
        return make(unit)
    on_disk = key + made_by(unit.target).encode()
    found = kept.get(on_disk)
    if found is not None:
        return bytes(found)
    made = make(unit)
    kept.put(on_disk, made)
    return made


_objects: Final = _Objects(limit=32 << 20)
