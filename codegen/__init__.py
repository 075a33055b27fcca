"""From tensor programs to machine code: targets, lowering, LLVM, modules to call and to time.

    lib = codegen.build(MyModule, target="llvm")
    lib["main"](a, b, c)
    lib.time_evaluator("main", codegen.cpu(), number=10)(a, b, c).mean    # seconds

LLVM loads on the first build, the virtual machine on its first use.

The subpackages, in the order of a build: `target` (the CPU to compile for), `lower` (blocks to flat
loops, pass by pass), `emit` (flat loops to LLVM IR) with `vector_math` (elementary functions as
vector code), `runtime` (machine code in a process: calls, timing, export). `explanation` explains
the compiled form of a program, `machine` measures this machine, and `vm` runs graph functions.
`devices` compiles and runs kernels of GPUs.
docs/lowering.md prints a program after every pass.
"""

from typing import TYPE_CHECKING

from codegen.compile import compile_object
from codegen.errors import (
    AssertionFailedError,
    CodegenError,
    ExecutionError,
    LibraryFunctionError,
    LinkError,
    TargetError,
)
from codegen.kept_files import keep_objects
from codegen.library_functions import (
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)
from codegen.lower import PASSES, lower
from codegen.runtime.bfloat16_array import BFloat16Array
from codegen.runtime.function import Function, PreparedCall
from codegen.runtime.host_features import why_not_here
from codegen.runtime.jit import register_extern
from codegen.runtime.module import Module, build, load_module
from codegen.runtime.ndarray import Device, NDArray, array, cpu, empty, from_dlpack
from codegen.runtime.timing import BenchmarkResult, TimeEvaluator
from codegen.target import Target
from tensorir.lazy_names import names_on_use
from tensorir.version import __version__

if TYPE_CHECKING:
    from codegen.devices.array import DeviceArray, GpuDevice, device
    from codegen.devices.module import GpuModule
    from codegen.explanation.explain import Explanation, explain
    from codegen.machine import machine_speed, peak_flops, read_bandwidth
    from codegen.machine.speed import MachineSpeed
    from codegen.vm import Executable, Report, VirtualMachine, export, vm_build


__all__ = [
    "PASSES",
    "AssertionFailedError",
    "BFloat16Array",
    "BenchmarkResult",
    "CodegenError",
    "Device",
    "DeviceArray",
    "Executable",
    "ExecutionError",
    "Explanation",
    "Function",
    "GpuDevice",
    "GpuModule",
    "LibraryFunctionError",
    "LinkError",
    "MachineSpeed",
    "Module",
    "NDArray",
    "PreparedCall",
    "Report",
    "Target",
    "TargetError",
    "TimeEvaluator",
    "VirtualMachine",
    "__version__",
    "array",
    "build",
    "compile_object",
    "cpu",
    "device",
    "empty",
    "explain",
    "export",
    "from_dlpack",
    "get_global_func",
    "keep_objects",
    "list_global_func_names",
    "load_module",
    "lower",
    "machine_speed",
    "peak_flops",
    "read_bandwidth",
    "register_extern",
    "register_func",
    "remove_global_func",
    "vm_build",
    "why_not_here",
]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
