"""Executables: `vm_build` makes them, libraries contain them, virtual machines run them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from codegen.errors import CodegenError, LinkError
from codegen.runtime.module import Module
from codegen.runtime.ndarray import NDArray
from codegen.signature import dim_text
from codegen.vm import program as p
from codegen.vm.c_library import header, link_executable
from codegen.vm.constants import Array, Constants
from tensorir.function import IRModule
from tensorir.paths import as_path
from tensorir.text_table import aligned


class Executable:
    """Compiled graph functions: machine code, the programs that run it, and constants.

    Pickle it to run it in another process of the same kind of machine; functions of the library are
    looked up there. `export_library` writes a shared library.
    """

    def __init__(
        self,
        module: Module,
        description: p.Description,
        constants: Constants,
        *,
        mod: IRModule | Callable[[], IRModule] | None = None,
        guard_pages: bool = False,
    ) -> None:
        self.module = module
        """The machine code, with one function for each run."""
        self.description = description
        self.constants = constants
        self.guard_pages = guard_pages
        self._mod = mod

    @property
    def mod(self) -> IRModule:
        """The lowered module; CodegenError if only the machine code is left."""
        if callable(self._mod):
            self._mod = self._mod()
        if self._mod is None:
            raise CodegenError(
                "the executable was loaded from machine code, its module is gone; "
                "keep the executable that vm_build returned"
            )
        return self._mod

    def library_calls(self) -> dict[str, list[str]]:
        """Return the library functions that are needed, each with the bindings that call it."""
        found: dict[str, list[str]] = {}
        for program in self.description.programs:
            for step in program.all_steps():
                if isinstance(step, p.CallLibrary):
                    found.setdefault(step.function, []).append(step.binding)
        return found

    def stats(self) -> str:
        """Return a table: steps, kernels and memory of each graph function."""
        rows = [("function", "form", "runs", "library calls", "arena bytes", "registers")]
        for program in self.description.programs:
            steps = list(program.all_steps())
            rows.append(
                (
                    program.name,
                    "machine code" if program.is_native else "steps",
                    str(sum(isinstance(s, p.Run) for s in steps)),
                    str(sum(isinstance(s, p.CallLibrary) for s in steps)),
                    str(program.arena_bytes),
                    str(program.registers),
                )
            )
        return f"{aligned(rows, ())}\nconstants: {self.constants.nbytes} bytes"

    def as_text(self) -> str:
        """Return the steps of each graph function as text."""
        lines: list[str] = []
        for program in self.description.programs:
            names = ", ".join(x.name for x in program.parameters)
            lines += [f"{program.name}({names}):", *_text(program.steps, "    ")]
        return "\n".join(lines)

    def export_library(self, path: str | Path) -> None:
        """Write machine code, programs and constants as one shared library.

        C calls it as `c_header` declares, without Python, and `codegen.load_module` reads it in
        another process, without a compiler. Raises CodegenError if a Python function is called,
        which a library cannot carry; LinkError without a linker.
        """
        link_executable(self, as_path(path))

    def c_header(self, name: str = "model") -> str:
        """Return the C header of the library that `export_library` writes to `lib<name>.so`."""
        return header(self, name)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickle as object code, programs and constants."""
        constants = self.constants
        content = np.asarray(constants.block), constants.arrays, constants.distances
        text = self.description.to_json()
        return executable_of_parts, (self.module.object_code, text, content, self.guard_pages)

    def __repr__(self) -> str:
        names = ", ".join(program.name for program in self.description.programs)
        return f"<executable for {self.module.target}: {names}>"


def executable_of_parts(
    object_code: bytes,
    description: str,
    constants: tuple[Array, tuple[Array, ...], tuple[int, ...]],
    guard_pages: bool,
    rebuild: Callable[[], Executable] | None = None,
) -> Executable:
    """Return an executable of its parts.

    `rebuild` makes it anew, when its module or its LLVM IR is asked for.
    """
    return Executable(
        Module.from_object(
            object_code, source=None if rebuild is None else lambda: rebuild().module.source
        ),
        p.Description.from_json(description),
        Constants.of(*constants),
        mod=None if rebuild is None else lambda: rebuild().mod,
        guard_pages=guard_pages,
    )


def executable_of(source: object) -> Executable:
    """Return an executable, also that of a library which `export_library` wrote."""
    if isinstance(source, Executable):
        return source
    if isinstance(source, Module):
        embedded = source.embedded_program
        if embedded is not None:
            description = p.Description.from_json(embedded[0])
            shape = (description.constant_bytes,)
            block = NDArray.at(embedded[1], shape, np.dtype(np.uint8), source)
            return Executable(source, description, Constants(block))
        raise CodegenError(
            "the module holds tensor functions only; call them as module[name](...), or compile "
            "graph functions with codegen.vm_build"
        )
    raise LinkError(
        f"a VirtualMachine runs what codegen.vm_build or codegen.load_module returned, got "
        f"{type(source).__name__}"
    )


def _text(steps: tuple[p.Step, ...], indent: str) -> list[str]:
    lines: list[str] = []
    for step in steps:
        if isinstance(step, p.Branch):
            lines.append(f"{indent}if r{step.condition}:")
            lines += _text(step.then, indent + "    ")
            lines.append(f"{indent}else:")
            lines += _text(step.otherwise, indent + "    ")
        elif isinstance(step, p.Run):
            lines += [f"{indent}run {step.symbol}"] if step.symbol else []
            for call in step.calls:
                name = call.function if isinstance(call, p.KernelCall) else "copy"
                lines.append(f"{indent}launch {name}")
        elif isinstance(step, (p.ToHost, p.ToDevice)):
            registers = ", ".join(f"r{k}" for k in step.registers)
            place = "host" if isinstance(step, p.ToHost) else "device"
            lines.append(f"{indent}copy {registers} to the {place}")
        elif isinstance(step, (p.CallLibrary, p.CallGraph)):
            names = [f"r{k}" for k in step.arguments]
            if isinstance(step, p.CallLibrary):
                for position, graph in step.graphs:
                    names.insert(position, graph)
            registers = ", ".join(names)
            kind = "library" if isinstance(step, p.CallLibrary) else "graph function"
            lines.append(f"{indent}call {kind} {step.function}({registers})")
        elif isinstance(step, p.Match):
            lines.append(f"{indent}match r{step.value}: {_pattern_text(step.pattern)}")
        elif isinstance(step, p.Allocate):
            lines.append(f"{indent}allocate r{step.array.register}: {step.array.dtype}")
        else:
            lines.append(f"{indent}r{step.register} = {step.value}")
    return lines or [f"{indent}pass"]


def _pattern_text(pattern: p.Pattern) -> str:
    if isinstance(pattern, p.TuplePattern):
        return f"{pattern.name}: tuple of {len(pattern.elements)}"
    if isinstance(pattern, p.AnyPattern):
        return pattern.name
    if isinstance(pattern, p.ScalarPattern):
        value = "" if pattern.value is None else f" equal to {dim_text(pattern.value)}"
        return f"{pattern.name}: {pattern.dtype}{value}"
    kind = f"{pattern.dtype or ''}" if isinstance(pattern, p.TensorPattern) else "shape "
    dims = pattern.shape if isinstance(pattern, p.TensorPattern) else pattern.extents
    shown = f"{pattern.ndim} extents" if dims is None else ", ".join(map(dim_text, dims))
    return f"{pattern.name}: {kind}[{shown}]"
