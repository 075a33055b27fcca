"""Calls in parts: arguments first, the call then, results last; and calls that are saved.

The protocol that programs written for TVM use where a connection lies between caller and machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from codegen.errors import ExecutionError
from tensorir.errors import IRTypeError, IRValueError

if TYPE_CHECKING:
    from codegen.vm.graph_function import GraphFunction


class StatefulCalls:
    """The arguments, results and saved calls that a virtual machine keeps between calls."""

    def __init__(self) -> None:
        self.saved: dict[str, Callable[[], Any]] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}

    def function(self, name: str) -> GraphFunction:
        """Return a graph function; IRValueError if there is none of that name."""
        raise NotImplementedError

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Keep arguments for `invoke_stateful`; those by name are put at their positions."""
        self._inputs[func_name] = self._positional(func_name, args, kwargs)
        self._outputs.pop(func_name, None)

    def invoke_stateful(self, func_name: str) -> None:
        """Call a function with the arguments of `set_input`; ExecutionError without them."""
        function = self.function(func_name)
        if func_name not in self._inputs:
            raise ExecutionError(f"{func_name} has no arguments yet; call set_input first")
        self._outputs[func_name] = function(*self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """Return the result of the last `invoke_stateful`; ExecutionError if there was none."""
        self.function(func_name)
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
        """Keep a call with its arguments as `vm[saved_name]()`, which takes none.

        Without `include_return` it returns None. Raises IRValueError for the name of a function.
        """
        function = self.function(func_name)
        try:
            self.function(saved_name)
        except IRValueError:
            pass
        else:
            raise IRValueError(f"{saved_name!r} is a function of the module; choose another name")
        values = self._positional(func_name, args, kwargs)

        def call() -> Any:
            result = function(*values)
            return result if include_return else None

        self.saved[saved_name] = call

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Call a function that another one returned or that `vm[name]` gave."""
        if not callable(closure):
            raise IRTypeError(f"a closure is callable, got {type(closure).__name__}")
        return closure(*args)

    def _positional(
        self, func_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        function = self.function(func_name)
        names = {pattern.name for pattern in function.program.parameters}
        unknown = sorted(set(kwargs) - names)
        if unknown:
            warnings.warn(
                f"{func_name} has no parameter {', '.join(unknown)}: ignored", stacklevel=3
            )
        return function.positional(args, {n: v for n, v in kwargs.items() if n in names})
