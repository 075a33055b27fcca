"""From programs to the kernels of a GPU, as a file that needs no compiler to run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from codegen import vector_math  # noqa: F401 - enters the handlers of its functions
from codegen.devices.launches import (
    HostProgram,
    Step,
    launches,
    step_from_data,
    step_to_data,
)
from codegen.devices.llvm_worker import form_of
from codegen.emit.gpu_kernel import emit_gpu_kernel
from codegen.kernel import Unit
from codegen.lower import lower
from codegen.signature import (
    ModuleInfo,
    Signature,
    read_object_code,
    symbolic_vars,
    write_object_code,
)
from codegen.target import Target
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import scalar_values


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """A function of a module for a GPU: its interface, the host's steps, and its kernels."""

    signature: Signature
    steps: tuple[Step, ...]
    kernels: Mapping[str, bytes]
    """SPIR-V, the text of PTX, or a relocatable object of AMDGPU, by the name of the kernel."""
    units: Mapping[str, Unit]
    """The LLVM IR of the kernels; empty for a function that was loaded from a file."""


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """A module for a GPU."""

    target: Target
    functions: tuple[DeviceFunction, ...]

    @property
    def info(self) -> ModuleInfo:
        """The description of the functions."""
        signatures = tuple(f.signature for f in self.functions)
        return ModuleInfo(str(self.target), self.target.architecture, signatures)

    def to_bytes(self) -> bytes:
        """Return the module as an archive, which `from_bytes` reads."""
        objects = []
        for f in self.functions:
            data = {"steps": [step_to_data(s) for s in f.steps], "kernels": list(f.kernels)}
            binaries = {f"k{number}.": code for number, code in enumerate(f.kernels.values())}
            objects.append({"host": json.dumps(data).encode(), **binaries})
        return write_object_code(self.info, objects)

    @staticmethod
    def from_bytes(data: bytes) -> DeviceCode:
        """Read the result of `to_bytes`."""
        info, members = read_object_code(data)
        target = Target(info.target)
        functions = []
        for number, signature in enumerate(info.functions):
            host = json.loads(members[f"host{number}.o"])
            kernels = {name: members[f"k{k}.{number}.o"] for k, name in enumerate(host["kernels"])}
            steps = tuple(step_from_data(step) for step in host["steps"])
            functions.append(DeviceFunction(signature, steps, kernels, {}))
        return DeviceCode(target, tuple(functions))


def compile_for_gpu(functions: Mapping[str, PrimFunc], target: Target) -> DeviceCode:
    """Compile functions by name.

    Raises LoweringError or CodegenError for a program that has no form on the GPU.
    """
    return compile_lowered({name: lower(f, target) for name, f in functions.items()}, target)


def compile_lowered(functions: Mapping[str, PrimFunc], target: Target) -> DeviceCode:
    """Compile functions that are lowered already; see `compile_for_gpu`."""
    compiled = []
    for name, func in functions.items():
        program = launches(func, name)
        units = kernel_units(func, program, target)
        kernels = {kernel: unit.object_code(_made) for kernel, unit in units.items()}
        compiled.append(DeviceFunction(program.signature, program.steps, kernels, units))
    return DeviceCode(target, tuple(compiled))


def kernel_units(func: PrimFunc, program: HostProgram, target: Target) -> dict[str, Unit]:
    """Return the LLVM IR of each kernel of a lowered function."""
    values, extents = scalar_values(func), symbolic_vars(func)
    return {
        k.name: emit_gpu_kernel(k.name, k.func, k.block, k.shared_bytes, target, values, extents)
        for k in program.kernels
    }


def _made(unit: Unit) -> bytes:
    code = form_of(unit, "made")
    assert isinstance(code, bytes)
    return code


def assembly_of(units: Iterable[Unit]) -> str:
    """Return the assembly of kernels: PTX, AMDGPU's, or SPIR-V in its text form."""
    return "\n".join(str(form_of(unit, "assembly")) for unit in units)
