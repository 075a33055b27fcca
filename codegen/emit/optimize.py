"""From LLVM IR to machine code.

Every candidate of a search is optimised here, so this uses LLVM's fast function simplification
pipeline, not a module pipeline: it unrolls marked loops, turns accumulator tiles into SSA values
(SROA), keeps the remaining tiles in registers over the reduction loop (LICM) and removes redundant
address arithmetic (GVN), in about 10 ms for a tiled matmul. Only a function with loops over scalars
gets LLVM's loop vectoriser, which doubles the time.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

from codegen.errors import CodegenError
from codegen.target import Target, host

Machine: TypeAlias = Any
"""An `llvmlite.binding.TargetMachine`; llvmlite is not annotated with types."""
LLVMModule: TypeAlias = Any
"""An `llvmlite.binding.ModuleRef`."""


@cache
def binding() -> Any:
    """Return `llvmlite.binding`, initialised for this machine."""
    import llvmlite.binding as llvm  # noqa: PLC0415 - LLVM loads on first use

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm


@cache
def machine_for(target: Target) -> Machine:
    """Return LLVM's code generator for `target`; CodegenError for an unsupported CPU or triple."""
    llvm = binding()
    features = list(target.mattr)
    if target.is_host:
        features = [*host.llvm_features(), *features]
    if target.mtriple is not None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    triple = target.mtriple or llvm.get_process_triple()
    try:
        kind = llvm.Target.from_triple(triple)
    except RuntimeError as problem:
        raise CodegenError(f"LLVM cannot compile for {triple!r}: {problem}") from problem
    return kind.create_target_machine(
        cpu=target.mcpu,
        features=",".join(features),
        opt=max(1, target.opt_level),
        reloc="pic",
        codemodel="default",
    )


def made_by(target: Target) -> str:
    """Return the version of LLVM and the machine that it generates code for, as text."""
    llvm, machine = binding(), machine_for(target)
    features = host.llvm_features() if target.is_host else []
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{version} {machine.triple} {target.mcpu} {','.join([*features, *target.mattr])}"


def optimize(text: str, target: Target, has_scalar_loop: bool) -> LLVMModule:
    """Return LLVM IR text as an optimised module."""
    llvm, machine = binding(), machine_for(target)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as problem:
        raise CodegenError(f"LLVM rejects the generated code: {problem}") from problem
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if target.opt_level == 0:
        return module
    options = llvm.create_pipeline_tuning_options(speed_level=target.opt_level)
    options.loop_vectorization = has_scalar_loop
    options.loop_interleaving = has_scalar_loop
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if has_scalar_loop:
        builder.getModulePassManager().run(module, builder)
        return module
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


def object_code(text: str, target: Target, has_scalar_loop: bool) -> bytes:
    """Return LLVM IR text compiled to a relocatable object."""
    module = optimize(text, target, has_scalar_loop)
    return bytes(machine_for(target).emit_object(module))


def assembly(text: str, target: Target, has_scalar_loop: bool) -> str:
    """Return LLVM IR text compiled to assembly text."""
    module = optimize(text, target, has_scalar_loop)
    return str(machine_for(target).emit_assembly(module))
