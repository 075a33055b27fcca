"""From programs to machine code: `build` and `compile_object`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codegen import vector_math  # noqa: F401 - enters the handlers of its functions
from codegen.compile_units import compiled
from codegen.emit.function import emit_kernel
from codegen.errors import CodegenError
from codegen.kernel import Kernel, Unit
from codegen.lower import lower
from codegen.signature import ModuleInfo, Signature, write_object_code
from codegen.target import Target, as_target
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.recursion import any_depth

Compilable = IRModule | PrimFunc | Mapping[str, PrimFunc]


@dataclass(frozen=True, slots=True)
class Source:
    """A module as LLVM IR before optimisation, one kernel a function."""

    target: Target
    info: ModuleInfo
    kernels: tuple[Kernel, ...]

    @staticmethod
    def of(target: Target, kernels: Iterable[Kernel]) -> Source:
        """Return the module of some kernels."""
        parts = tuple(kernels)
        return Source(
            target,
            ModuleInfo.merged(str(target), target.architecture, (k.info for k in parts)),
            parts,
        )

    @property
    def units(self) -> list[Unit]:
        """The units of all kernels, each of which becomes an object."""
        return [unit for kernel in self.kernels for unit in kernel.units]

    @property
    def text(self) -> str:
        """The LLVM IR of all kernels, as it was written."""
        return "\n".join(unit.text for unit in self.units)

    def optimized(self) -> str:
        """Return the LLVM IR of all kernels after optimisation."""
        return "\n".join(unit.optimized() for unit in self.units)

    def assembly(self) -> str:
        """Return the machine code of all kernels as assembly text."""
        return "\n".join(unit.assembly() for unit in self.units)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A module as machine code, and the LLVM IR that it was made from."""

    source: Source
    object_code: bytes


@any_depth
def llvm_source(
    program: Compilable, target: str | Mapping[str, Any] | Target | None = None
) -> Source:
    """Lower a program and write it as LLVM IR."""
    chosen = as_target(target)
    return Source.of(chosen, _kernels(functions_of(program), chosen))


def emit_lowered(functions: Mapping[str, PrimFunc], target: Target) -> Source:
    """Write functions that are lowered already as LLVM IR."""
    return Source.of(target, _kernels(functions, target, is_lowered=True))


@any_depth
def compile_functions(functions: Mapping[str, PrimFunc], target: Target) -> Compiled:
    """Compile functions by name; there may be none.

    LLVM works on some functions while others are lowered, on several cores if there are many.
    """
    if len(functions) == 1:
        kernels = list(_kernels(functions, target))
        objects = [kernel.objects() for kernel in kernels]
    else:
        kernels, objects = compiled(_kernels(functions, target), len(functions))
    source = Source.of(target, kernels)
    return Compiled(source, write_object_code(source.info, objects))


def compile_object(
    program: Compilable, target: str | Mapping[str, Any] | Target | None = None
) -> bytes:
    """Return a program compiled to machine code that `Module.from_object` loads.

    It is an `ar` archive with a relocatable object for each function and for each entry, and a
    description of the functions. Another process needs nothing else. Raises CodegenError for a
    program without a compiled form.
    """
    chosen = as_target(target)
    if chosen.gpu is not None:
        from codegen.devices.compile import compile_for_gpu  # noqa: PLC0415 - for GPUs only

        return compile_for_gpu(functions_of(program), chosen).to_bytes()
    return compile_functions(functions_of(program), chosen).object_code


def _kernels(
    functions: Mapping[str, PrimFunc], target: Target, is_lowered: bool = False
) -> Iterator[Kernel]:
    """Yield the kernels of functions, callees first, so that callers can use facts about them."""
    signatures: dict[str, Signature] = {}
    for name, func in functions.items():
        symbol = func.attrs.get("global_symbol")
        is_public = len(functions) == 1 or symbol is not None
        c_name = str(symbol or name) if is_public else None
        lowered = func if is_lowered else lower(func, target)
        kernel = emit_kernel(name, c_name, lowered, functions, target, signatures)
        signatures[name] = kernel.info.functions[0]
        yield kernel


def functions_by_name(program: Compilable) -> Mapping[str, BaseFunc]:
    """Return the functions of a program by name; CodegenError for another value."""
    if isinstance(program, BaseFunc):
        program = IRModule.from_expr(program)
    functions: object = program.functions if isinstance(program, IRModule) else program
    if not isinstance(functions, Mapping):
        remedy = "; pass its .mod" if hasattr(program, "mod") else ""
        raise CodegenError(
            "a program is a module, a function, or functions by name, got "
            f"{type(program).__name__}{remedy}"
        )
    return functions


def functions_of(program: Compilable) -> dict[str, PrimFunc]:
    """Return the functions of a program by name.

    Raises CodegenError for an empty module, for graph functions, and for a value that is not a
    program.
    """
    if isinstance(program, PrimFunc):
        return {str(program.attrs.get("global_symbol") or "main"): program}
    functions = functions_by_name(program)
    if not functions:
        raise CodegenError("cannot compile an empty module")
    compiled: dict[str, PrimFunc] = {}
    for name, func in functions.items():
        if isinstance(func, PrimFunc):
            compiled[name] = func
        elif isinstance(func, BaseFunc):
            raise CodegenError(
                f'function "{name}" is a graph function, which has no separate machine code; '
                "build modules with graph functions by codegen.vm_build"
            )
        else:
            raise CodegenError(
                f"cannot compile {name}: a module holds PrimFuncs, this is a {type(func).__name__}"
            )
    return compiled
