"""The virtual machine: executables that can be called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from codegen.errors import ExecutionError
from codegen.runtime.module import Module
from codegen.runtime.ndarray import Device, check_device
from codegen.runtime.timing import TimedFunctions, TimeEvaluator
from codegen.vm.executable import Executable, executable_of
from codegen.vm.graph_function import GraphFunction
from codegen.vm.profile import Report, profile
from codegen.vm.steps import linked_functions
from tensorir.errors import IRTypeError, IRValueError


class GraphModule(TimedFunctions[GraphFunction]):
    """The graph functions of a virtual machine by name, with their timing.

    A function that is one run of machine code is timed in a compiled loop, without Python.
    """

    def _unknown_message(self, name: str) -> str:
        return (
            f"unknown graph function {name!r}; the module has {sorted(self._functions)} "
            "(tensor functions are called through codegen.build)"
        )

    def __repr__(self) -> str:
        return f"<graph functions {', '.join(self._functions)}>"


class VirtualMachine:
    """Runs an executable: `VirtualMachine(codegen.vm_build(mod), codegen.cpu())["main"](x)`.

    Library functions are looked up once, here: LinkError lists the unregistered ones and
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
        del memory_cfg, profile
        self.executable = executable_of(executable)
        target = self.executable.module.target
        check_device(device, "cpu" if target.gpu is None else target.kind)
        self.device = device
        self.module = GraphModule(linked_functions(self.executable, device=device))
        self._saved: dict[str, Callable[[], Any]] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return a graph function or a call that `save_function` saved; IRValueError for others."""
        saved = self._saved.get(name)
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
        CodegenError for a machine that was loaded from a library, which contains no program.
        """
        self.module[func_name]  # raises for an unknown name
        return profile(self.executable, func_name, args, self.device)

    # Calls in parts and saved calls, for programs written for TVM, whose machine may be remote.

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Keep arguments for `invoke_stateful`, given by position or by name."""
        self._inputs[func_name] = self._positional(func_name, args, kwargs)
        self._outputs.pop(func_name, None)

    def invoke_stateful(self, func_name: str) -> None:
        """Call a function with the arguments of `set_input`; ExecutionError without them."""
        function = self.module[func_name]
        if func_name not in self._inputs:
            raise ExecutionError(f"{func_name} has no arguments yet; call set_input first")
        self._outputs[func_name] = function(*self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """Return the result of the last `invoke_stateful`; ExecutionError if there was none."""
        self.module[func_name]
        if func_name not in self._outputs:
            raise ExecutionError(f"{func_name} has no result yet; call invoke_stateful first")
        return self._outputs[func_name]

    def save_function(
        self,
        func_name: str,
        saved_name: str,
        *args: Any,
        include_return: bool = True,
        **kwargs: Any,
    ) -> None:
        """Keep a call with its arguments as `vm[saved_name]()`.

        Without `include_return` it returns None. Raises IRValueError for the name of a function.
        """
        function = self.module[func_name]
        if saved_name in self.module:
            raise IRValueError(f"{saved_name!r} is a function of the module; choose another name")
        values = self._positional(func_name, args, kwargs)

        def call() -> Any:
            result = function(*values)
            return result if include_return else None

        self._saved[saved_name] = call

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Call a function that another one returned or that `vm[name]` gave."""
        if not callable(closure):
            raise IRTypeError(f"a closure is callable, got {type(closure).__name__}")
        return closure(*args)

    def _positional(
        self, func_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        function = self.module[func_name]
        names = {pattern.name for pattern in function.program.arguments}
        unknown = sorted(set(kwargs) - names)
        if unknown:
            warnings.warn(
                f"{func_name} has no parameter {', '.join(unknown)}: ignored", stacklevel=3
            )
        return function.positional(args, {n: v for n, v in kwargs.items() if n in names})

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as the executable, without saved calls and arguments."""
        return VirtualMachine, (self.executable,)

    def __repr__(self) -> str:
        return f"<virtual machine of {self.executable}>"
