"""Passes, the context that runs them, and decorators that turn functions and classes into passes.

    with PassContext(instruments=[PrintAfter("FoldConstant")]):
        mod = Sequential([BindParams("main", params), FoldConstant()])(mod)

A pass maps a module to a new module, and never changes its argument. The current context runs every
pass; it may skip the pass, and it calls instruments.

    @module_pass(opt_level=1)
    def drop_tests(mod, ctx):
        return IRModule({name: f for name, f in mod.functions.items() if name != "test"})
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tensorir.errors import IRTypeError, IRValueError, WellFormedError, noting
from tensorir.function import IRModule
from tensorir.recursion import any_depth
from tensorir.transform.check_memory_plan import check_memory_plan
from tensorir.verify import verify_well_formed

if TYPE_CHECKING:
    from tensorir.transform.instruments import PassInstrument
from collections.abc import Callable

from tensorir.function import BaseFunc, PrimFunc
from tensorir.relax.function import Function

VERIFY: Final = os.environ.get("TENSORIR_VERIFY") == "1"
"""True if modules are verified after each pass; the tests set it."""


@dataclass(frozen=True, slots=True)
class PassInfo:
    """The description of a pass: its name, its level, and the passes that must run before it."""

    name: str
    opt_level: int
    required: tuple[str, ...] = ()


class Pass:
    """A transform of modules; subclasses define `transform`.

    A pass whose `opt_level` is above that of the context is skipped in a `Sequential`.
    """

    name: str = "Pass"
    """The name of the pass for contexts and instruments; by default the name of the class."""
    opt_level: int = 0
    required: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @property
    def info(self) -> PassInfo:
        """The description that instruments receive."""
        return PassInfo(self.name, self.opt_level, self.required)

    def __call__(self, mod: IRModule) -> IRModule:
        """Return the transformed module."""
        return PassContext.current().run(self, mod)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the transformed module; it may be `mod` if nothing changes."""
        raise NotImplementedError

    def verify(self, before: IRModule, after: IRModule) -> None:
        """Verify the result of the pass. Raises WellFormedError."""
        verify_result(before, after)

    def __repr__(self) -> str:
        return f"{self.name}()"


class PassContext:
    """The settings with which passes run in a `with` block.

    `disabled_pass` names passes that are skipped, `required_pass` passes that run at any level;
    `config` holds options by name. Raises IRTypeError for an instrument that is not a
    PassInstrument.
    """

    _entered: ClassVar[ContextVar[tuple[PassContext, ...]]] = ContextVar("entered", default=())
    """The entered contexts of this thread, the outermost first."""

    def __init__(
        self,
        opt_level: int = 2,
        config: Mapping[str, Any] | None = None,
        disabled_pass: Sequence[str] | None = None,
        required_pass: Sequence[str] | None = None,
        instruments: Sequence[PassInstrument] | None = None,
    ) -> None:
        for names in (disabled_pass, required_pass):
            if isinstance(names, str):
                raise IRTypeError(f"passes must be a list of names, got {names!r}")
        self.opt_level = opt_level
        self.config: dict[str, Any] = dict(config or {})
        self.disabled_pass = frozenset(disabled_pass or ())
        self.required_pass = frozenset(required_pass or ())
        self.instruments: tuple[PassInstrument, ...] = tuple(instruments or ())
        for instrument in self.instruments:
            if not hasattr(instrument, "enter_pass_ctx"):
                raise IRTypeError(f"an instrument must be a PassInstrument, got {instrument!r}")

    @staticmethod
    def current() -> PassContext:
        """Return the innermost context, by default a new one."""
        entered = PassContext._entered.get()
        return entered[-1] if entered else PassContext()

    @staticmethod
    def is_entered() -> bool:
        """Return True inside of the `with` block of a context."""
        return bool(PassContext._entered.get())

    def __enter__(self) -> PassContext:
        entered: list[PassInstrument] = []
        try:
            for instrument in self.instruments:
                instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            for instrument in reversed(entered):
                instrument.exit_pass_ctx()
            raise
        PassContext._entered.set((*PassContext._entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        PassContext._entered.set(PassContext._entered.get()[:-1])
        for instrument in reversed(self.instruments):
            instrument.exit_pass_ctx()

    @property
    def looks_on(self) -> bool:
        """True if instruments observe passes, or some passes are skipped."""
        return bool(self.instruments or self.disabled_pass)

    def pass_enabled(self, info: PassInfo) -> bool:
        """Return True if a `Sequential` runs a pass in this context."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or info.opt_level <= self.opt_level

    def run(self, step: Pass, mod: IRModule) -> IRModule:
        """Return the result of a pass, never `mod` itself.

        Errors of the pass get a note with its name.
        """
        if not isinstance(mod, IRModule):
            raise IRTypeError(
                f"{step.name} needs a module, got {type(mod).__name__}; "
                "IRModule.from_expr(func) is the module of one function"
            )
        info = step.info
        if info.name in self.disabled_pass:
            return mod.clone()
        if not all(instrument.should_run(mod, info) for instrument in self.instruments):
            return mod.clone()
        for instrument in self.instruments:
            instrument.run_before_pass(mod, info)
        with noting(f"in the pass {info.name}"):
            created: object = any_depth(step.transform)(mod, self)
            if not isinstance(created, IRModule):
                raise IRTypeError(f"a pass must return a module, got {type(created).__name__}")
            if VERIFY:
                step.verify(mod, created)
        result = mod.clone() if created is mod else created
        for instrument in self.instruments:
            instrument.run_after_pass(result, info)
        return result


def verify_result(before: IRModule, after: IRModule) -> None:
    """Verify the result of a pass: scopes, names, and no overlap of live tensors in an arena.

    Raises WellFormedError, unless the module was malformed before the pass.
    """
    if all(before.functions.get(name) is func for name, func in after.functions.items()):
        return
    try:
        verify_well_formed(after)
        check_memory_plan(after)
    except WellFormedError:
        if verify_well_formed(before, assert_mode=False):
            raise


class Sequential(Pass):
    """Passes one after another, as one pass.

    `required` names passes that must come before it in an enclosing `Sequential`; otherwise running
    raises IRValueError. `traceable` is accepted for compatibility with TVM and ignored.
    """

    def __init__(
        self,
        passes: Sequence[Pass],
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] = (),
        traceable: bool = False,
    ) -> None:
        for step in passes:
            if not isinstance(step, Pass):
                raise IRTypeError(
                    f"a Sequential needs passes, got {step!r}; call a pass class to create one"
                )
        self.passes = tuple(passes)
        self.opt_level = opt_level
        self.required = tuple(required)
        self.traceable = traceable
        self.name = name

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Run the passes that the context enables, in order."""
        done: set[str] = set()
        for step in self.passes:
            if not ctx.pass_enabled(step.info):
                continue
            missing = [name for name in step.required if name not in done]
            if missing:
                raise IRValueError(
                    f"{step.name} needs {', '.join(missing)} before it in {self.name}"
                )
            mod = ctx.run(step, mod)
            done.add(step.name)
        return mod

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.passes))})"


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
        """Return the transformed function, `func` itself if nothing changes."""
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
    """Return a module with every function of class `kind` transformed; errors name the function."""
    result = mod.clone()
    for name, func in mod.functions.items():
        if isinstance(func, kind):
            with noting(f"in the function {name}"):
                result[name] = transform(func)
    return result


def _pass_decorator(base: type[Pass], method: str) -> Callable[..., Any]:
    def make(
        pass_func: Any = None,
        opt_level: int = 0,
        name: str | None = None,
        required: Sequence[str] = (),
        traceable: bool = False,
    ) -> Any:
        """Turn a function into a pass, or a class with the method into a pass class.

        Used as a decorator, with or without arguments, or as a call with the function.
        """
        if pass_func is None:
            return lambda defined: make(defined, opt_level, name, required)
        if not callable(pass_func):
            raise IRTypeError(f"a pass must be made from a function or a class, got {pass_func!r}")
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


module_pass = _pass_decorator(ModulePass, "transform_module")
"""Turns `f(mod, ctx)` into a pass, or a class with `transform_module(mod, ctx)` into a pass class.
"""
function_pass = _pass_decorator(FunctionPass, "transform_function")
"""Turns `f(func, mod, ctx)`, or a class with `transform_function`, into a pass over graph
functions.
"""
prim_func_pass = _pass_decorator(PrimFuncPass, "transform_function")
"""The same for passes over tensor functions."""
