"""Passes from functions and classes: over modules, or over each graph function of one.

@module_pass(opt_level=1)
def drop_tests(mod, ctx):
    return IRModule({name: f for name, f in mod.functions.items() if name != "test"})

drop_tests(mod)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorir.errors import IRTypeError
from tensorir.function import IRModule
from tensorir.relax.function import Function, graph_functions
from tensorir.transform.naming_function import naming_function
from tensorir.transform.pass_context import Pass, PassContext


class ModulePass(Pass):
    """A pass over whole modules; subclasses define `transform_module`."""

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the transformed module."""
        raise NotImplementedError

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the transformed module."""
        return self.transform_module(mod, ctx)


class FunctionPass(Pass):
    """A pass over graph functions, one at a time; subclasses define `transform_function`."""

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Return the transformed function, `func` itself where nothing changes."""
        raise NotImplementedError

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transform every graph function."""
        return map_graph_functions(mod, lambda func: self.transform_function(func, mod, ctx))


def map_graph_functions(mod: IRModule, transform: Callable[[Function], Function]) -> IRModule:
    """Return a module with every graph function transformed; an error is noted its function."""
    result = mod.clone()
    for name, func in graph_functions(mod).items():
        with naming_function(name):
            result[name] = transform(func)
    return result


def module_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] = (),
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(mod, ctx)`, or passes of a class with `transform_module(mod, ctx)`.

    Used as `@module_pass`, as `@module_pass(opt_level=1)`, or as a call with the function.
    """
    return _pass(ModulePass, "transform_module", pass_func, opt_level, name, required)


def function_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] = (),
    traceable: bool = False,
) -> Any:
    """Make a pass over graph functions of `f(func, mod, ctx)`.

    Of a class with `transform_function(func, mod, ctx)` it makes a class of passes.
    """
    return _pass(FunctionPass, "transform_function", pass_func, opt_level, name, required)


def _pass(
    base: type[Pass],
    method: str,
    given: Any,
    opt_level: int,
    name: str | None,
    required: Sequence[str],
) -> Any:
    if given is None:
        return lambda defined: _pass(base, method, defined, opt_level, name, required)
    if not callable(given):
        raise IRTypeError(f"a pass must be made of a function or a class, got {given!r}")
    members: dict[str, Any] = {
        "opt_level": opt_level,
        "required": tuple(required),
        "__doc__": given.__doc__,
        "__module__": given.__module__,
    }
    if isinstance(given, type):
        if not callable(getattr(given, method, None)):
            raise IRTypeError(
                f"a pass class must have a method {method}, which {given.__name__} lacks"
            )
        return type(name or given.__name__, (given, base), members)
    members[method] = lambda self, *args: given(*args)
    return type(name or given.__name__, (base,), members)()
