"""The virtual machine: executables that can be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codegen.runtime.device import Device, check_device
from codegen.runtime.module import Module
from codegen.runtime.timing import TimedFunctions, TimeEvaluator
from codegen.vm.executable import Executable, executable_of
from codegen.vm.graph_function import GraphFunction
from codegen.vm.linked import functions_of
from codegen.vm.profile import Report, profile
from codegen.vm.stateful import StatefulCalls


class GraphModule(TimedFunctions[GraphFunction]):
    """The graph functions of a virtual machine by name, with their timing.

    A function that is one run of machine code is timed in a compiled loop, without Python.
    """

    def _unknown(self, name: str) -> str:
        return (
            f"there is no graph function {name!r}; there are {sorted(self._functions)} "
            "(tensor functions are called through codegen.build)"
        )

    def __repr__(self) -> str:
        return f"<graph functions {', '.join(self._functions)}>"


class VirtualMachine(StatefulCalls):
    """Runs an executable: `VirtualMachine(codegen.vm_build(mod), codegen.cpu())["main"](x)`.

    Library functions are looked up once, here: LinkError names all that are not registered and
    the bindings that call them; a function registered later under the same name is not seen.
    """

    def __init__(
        self,
        executable: Executable | Module,
        device: Device | None = None,
        memory_cfg: object = None,
        profile: bool = False,
    ) -> None:
        """Load the result of `vm_build` or `load_module`.

        `memory_cfg` and `profile` are for programs written for TVM: memory is kept for later calls
        in any case, and profiling needs no preparation.
        """
        super().__init__()
        del memory_cfg, profile
        check_device(device)
        self.executable = executable_of(executable)
        self.module = GraphModule(functions_of(self.executable))

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return a graph function or a call that `save_function` saved; IRValueError for others."""
        saved = self.saved.get(name)
        return self.module[name] if saved is None else saved

    def function(self, name: str) -> GraphFunction:
        """Return a graph function."""
        return self.module[name]

    def time_evaluator(self, func_name: str, *args: Any, **options: Any) -> TimeEvaluator:
        """Return `module.time_evaluator` of the same arguments."""
        return self.module.time_evaluator(func_name, *args, **options)

    def profile(self, func_name: str, *args: Any) -> Report:
        """Run a function once unmeasured and once measured, call by call; return the times.

        Machine code that runs several kernels is compiled again with a run for each. Raises
        CodegenError for a machine that was loaded from a library: it has no program left.
        """
        self.module[func_name]  # raises for an unknown name
        return profile(self.executable, func_name, args)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as the executable; calls and arguments that were kept stay behind."""
        return VirtualMachine, (self.executable,)

    def __repr__(self) -> str:
        return f"<virtual machine of {self.executable}>"
