"""Passes from functions and classes: over modules, or over each graph or tensor function of one.

@module_pass(opt_level=1)
def drop_tests(mod, ctx):
    return IRModule({name: f for name, f in mod.functions.items() if name != "test"})

drop_tests(mod)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tensorir.errors import IRTypeError, noting
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.relax.function import Function
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

    kind: ClassVar[type[BaseFunc]] = Function
    """The class of the functions that are transformed."""

    def transform_function(self, func: Any, mod: IRModule, ctx: PassContext) -> BaseFunc:
        """Return the transformed function, `func` itself where nothing changes."""
        raise NotImplementedError

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transform every function of the kind."""
        return map_functions(mod, lambda f: self.transform_function(f, mod, ctx), self.kind)


class PrimFuncPass(FunctionPass):
    """A pass over tensor functions, one at a time; it can run between passes of lowering."""

    kind = PrimFunc


def map_functions(
    mod: IRModule, transform: Callable[[Any], BaseFunc], kind: type[BaseFunc] = Function
) -> IRModule:
    """Return a module with every function of a kind transformed; an error is noted its function."""
    result = mod.clone()
    for name, func in mod.functions.items():
        if isinstance(func, kind):
            with noting(f"in the function {name}"):
                result[name] = transform(func)
    return result


def _maker(base: type[Pass], method: str) -> Callable[..., Any]:
    def make(
        pass_func: Any = None,
        opt_level: int = 0,
        name: str | None = None,
        required: Sequence[str] = (),
        traceable: bool = False,
    ) -> Any:
        """Make a pass of a function, or a class of passes of a class with its method.

        Used as a decorator, with or without arguments, or as a call with the function.
        """
        if pass_func is None:
            return lambda defined: make(defined, opt_level, name, required)
        if not callable(pass_func):
            raise IRTypeError(f"a pass must be made of a function or a class, got {pass_func!r}")
        members: dict[str, Any] = {
            "opt_level": opt_level,
            "required": tuple(required),
            "__doc__": pass_func.__doc__,
            "__module__": pass_func.__module__,
        }
        if isinstance(pass_func, type):
            if not callable(getattr(pass_func, method, None)):
                raise IRTypeError(
                    f"a pass class must have a method {method}, which {pass_func.__name__} lacks"
                )
            return type(name or pass_func.__name__, (pass_func, base), members)
        members[method] = lambda self, *args: pass_func(*args)
        return type(name or pass_func.__name__, (base,), members)()

    return make


module_pass = _maker(ModulePass, "transform_module")
"""Makes a pass of `f(mod, ctx)`, or passes of a class with `transform_module(mod, ctx)`."""
function_pass = _maker(FunctionPass, "transform_function")
"""Makes a pass over graph functions of `f(func, mod, ctx)`, or of a class with such a method."""
prim_func_pass = _maker(PrimFuncPass, "transform_function")
"""Makes a pass over tensor functions, in the same ways."""
