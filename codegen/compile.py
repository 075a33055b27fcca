"""From programs to machine code: `build` and `compile_object`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codegen import vector_math  # noqa: F401 - enters the handlers of its functions
from codegen.emit.function import emit_module
from codegen.emit.optimize import object_code
from codegen.errors import CodegenError
from codegen.lower import lower
from codegen.target import Target, as_target
from tensorir.function import BaseFunc, IRModule, PrimFunc

Program = IRModule | PrimFunc | Mapping[str, PrimFunc]


@dataclass(frozen=True, slots=True)
class Source:
    """LLVM IR before optimisation, and what compiling it needs."""

    text: str
    target: Target
    has_scalar_loop: bool

    def compile(self) -> bytes:
        """Return the relocatable object."""
        return object_code(self.text, self.target, self.has_scalar_loop)


def llvm_source(program: Program, target: str | Mapping[str, Any] | Target | None = None) -> Source:
    """Lower a program and write it as LLVM IR."""
    chosen = as_target(target)
    lowered = {name: lower(func, chosen) for name, func in functions_of(program).items()}
    return emit_lowered(lowered, chosen)


def emit_lowered(functions: Mapping[str, PrimFunc], target: Target) -> Source:
    """Write functions that are lowered already as LLVM IR."""
    text, has_scalar_loop = emit_module(dict(functions), target)
    return Source(text, target, has_scalar_loop)


def compile_object(
    program: Program, target: str | Mapping[str, Any] | Target | None = None
) -> bytes:
    """Return a program compiled to a relocatable object that `Module.from_object` loads.

    The object holds a description of its functions, so it is all that another process needs.
    Raises CodegenError for a program without a compiled form.
    """
    return llvm_source(program, target).compile()


def functions_of(program: Program) -> dict[str, PrimFunc]:
    """Return the functions of a program by name.

    Raises CodegenError if there are none, or there are graph functions.
    """
    if isinstance(program, PrimFunc):
        return {str(program.attrs.get("global_symbol") or "main"): program}
    if isinstance(program, BaseFunc):
        program = IRModule.from_expr(program)
    functions = program.functions if isinstance(program, IRModule) else program
    if not functions:
        raise CodegenError("cannot compile an empty module")
    compiled: dict[str, PrimFunc] = {}
    for name, func in functions.items():
        if isinstance(func, PrimFunc):
            compiled[name] = func
        elif isinstance(func, BaseFunc):
            raise CodegenError(
                f'function "{name}" is a graph function, which has no machine code of its own; '
                "build modules with graph functions by codegen.vm_build"
            )
        else:
            raise CodegenError(f"cannot compile {name}: it is a {type(func).__name__}")
    return compiled
