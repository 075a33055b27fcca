"""Graph functions as machine code and steps around it, and the virtual machine that runs them.

    vm = codegen.VirtualMachine(codegen.vm_build(mod, target="llvm"), codegen.cpu())
    y = vm["main"](x)

docs/networks.md follows a network to it.
"""

from codegen.vm.build import export, vm_build
from codegen.vm.executable import Executable
from codegen.vm.graph_function import GraphFunction
from codegen.vm.machine import VirtualMachine
from codegen.vm.profile import Report

build = vm_build

__all__ = ["Executable", "GraphFunction", "Report", "VirtualMachine", "build", "export", "vm_build"]
