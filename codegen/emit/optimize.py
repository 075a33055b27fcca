"""From LLVM IR to machine code.

Every candidate of a search is optimised here, so this uses LLVM's fast function simplification
pipeline, not a module pipeline: it unrolls marked loops, turns accumulator tiles into SSA values
(SROA), keeps the remaining tiles in registers over the reduction loop (LICM) and removes redundant
address arithmetic (GVN), in about 10 ms for a tiled matmul. Only a function with loops over scalars
gets LLVM's loop vectoriser, which doubles the time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, TypeAlias

from codegen.errors import CodegenError
from codegen.target import Target, host
from codegen.target.nvidia_files import nvidia_file

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
        opt=0 if _is_spirv(target) else max(1, target.opt_level),
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
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as problem:
        raise CodegenError(f"LLVM rejects the generated code: {problem}") from problem
    has_library = "@__nv_" in text
    if has_library:
        _link_libdevice(module)
    if target.opt_level == 0:
        return module
    if _is_spirv(target):
        return _optimize_spirv(module)
    options = llvm.create_pipeline_tuning_options(speed_level=target.opt_level)
    options.loop_vectorization = has_scalar_loop
    options.loop_interleaving = has_scalar_loop
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if has_scalar_loop or has_library:
        builder.getModulePassManager().run(module, builder)
        return module
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


def _link_libdevice(module: LLVMModule) -> None:
    """Link NVIDIA's library of mathematical functions, of which passes keep what is called."""
    path = nvidia_file("libdevice.10.bc")
    if path is None:
        raise CodegenError(
            "the kernel calls a function of NVIDIA's libdevice, which is not installed; "
            "pip install 'tensorir[cuda]'"
        )
    library = binding().parse_bitcode(path.read_bytes())
    library.triple = module.triple
    library.data_layout = module.data_layout
    module.link_in(library)
    for function in module.functions:
        if function.name.startswith("__nv_") and not function.is_declaration:
            function.linkage = "internal"


def needs_new_process(target: Target) -> bool:
    """Say whether LLVM emits one module a process for a target.

    Its code generator for SPIR-V keeps state from one module to the next: then it fails an
    assertion, or numbers two values alike.
    """
    return _is_spirv(target)


def _is_spirv(target: Target) -> bool:
    return target.kind == "opencl"


_INTEGER_TYPE: Final = re.compile(r"\bi(\d+)\b")
_SPIRV_INTEGERS: Final = frozenset({"1", "8", "16", "32", "64"})


def _optimize_spirv(module: LLVMModule) -> LLVMModule:
    """Optimise without the passes over loops, which make integers of any width, and without value
    numbering: LLVM's new one took the padding of a convolution for a load (fuzzing found it).

    LLVM's code generator for SPIR-V makes wrong code of widths other than 1, 8, 16, 32 and 64, at
    its own levels of optimisation above 0, too.
    """
    llvm = binding()
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    builder = llvm.create_pass_builder(machine_for(Target("opencl")), options)
    plain = str(module)
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_dead_store_elimination_pass()
    passes.add_instruction_combine_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    text = str(module)
    kept = text if set(_INTEGER_TYPE.findall(text)) <= _SPIRV_INTEGERS else plain
    return llvm.parse_assembly(_without_conversions_of_truth(kept))


_FROM_TRUTH: Final = re.compile(
    r"= (zext|sext|uitofp|sitofp)(?: nneg)? (<\d+ x i1>) (\S+) to (<\d+ x \w+>)"
)
_TO_TRUTH: Final = re.compile(
    r"(%\S+) = trunc(?: nuw| nsw)* (<\d+ x (i\d+)>) (\S+) to (<\d+ x i1>)"
)
_TRUE: Final = {"zext": "1", "sext": "-1", "uitofp": "1.0", "sitofp": "-1.0"}


def _without_conversions_of_truth(text: str) -> str:
    """Write conversions between vectors of truth values and of numbers in another way.

    LLVM's code generator for SPIR-V has them for vectors of up to 128 bits only.
    """

    def choice(found: re.Match[str]) -> str:
        conversion, mask, value, kind = found.groups()
        true = f"splat ({kind[1:-1].split(' x ')[1]} {_TRUE[conversion]})"
        return f"= select {mask} {value}, {kind} {true}, {kind} zeroinitializer"

    def test(found: re.Match[str]) -> str:
        name, kind, element, value, _ = found.groups()
        low = f"%low.{name[1:].strip(chr(34))}" if name[1] != '"' else f'%"low.{name[2:-1]}"'
        one = f"splat ({element} 1)"
        return (
            f"{low} = and {kind} {value}, {one}\n  {name} = icmp ne {kind} {low}, zeroinitializer"
        )

    return _TO_TRUTH.sub(test, _FROM_TRUTH.sub(choice, text))


def object_code(text: str, target: Target, has_scalar_loop: bool) -> bytes:
    """Return LLVM IR text compiled to a relocatable object, to SPIR-V, or to the text of PTX."""
    module = optimize(text, target, has_scalar_loop)
    if target.kind == "cuda":
        return str(machine_for(target).emit_assembly(module)).encode()
    return bytes(machine_for(target).emit_object(module))


def assembly(text: str, target: Target, has_scalar_loop: bool) -> str:
    """Return LLVM IR text compiled to assembly text."""
    module = optimize(text, target, has_scalar_loop)
    return str(machine_for(target).emit_assembly(module))
