"""Steps as functions of a frame, made once when a machine is made, and what they look up."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from codegen.errors import LinkError
from codegen.library_functions import (
    LibraryFunction,
    get_global_func,
    library_error,
    missing_text,
)
from codegen.runtime.module import Module
from codegen.vm import program as p
from codegen.vm.call_stack import BranchChoice, FrameCall, Runner
from codegen.vm.executable import Executable
from codegen.vm.frame import Frame, copied
from codegen.vm.graph_function import GraphFunction, Link
from codegen.vm.matching import Matcher, as_array, as_value
from tensorir.errors import IRValueError

_ENTRY: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class MachineCode:
    """A run of machine code on the slots of a frame."""

    __slots__ = ("_call", "_fail", "entry")

    def __init__(self, module: Module, symbol: str) -> None:
        function = module[symbol]
        self.entry = function.entry
        """Address of the entry that takes the slots."""
        self._call = _ENTRY(function.entry)
        self._fail = function.fail

    def __call__(self, frame: Frame) -> None:
        """Run; raise what a status other than 0 stands for."""
        status = self._call(frame.address)
        if status:
            self._fail(status)


class Linker:
    """Makes steps of one machine runnable."""

    def __init__(
        self,
        module: Module,
        library: Mapping[str, LibraryFunction],
        functions: Mapping[str, GraphFunction],
    ) -> None:
        self._module = module
        self._library = library
        self._functions = functions

    def __call__(self, step: p.Step, owner: GraphFunction) -> Runner:
        """Return the function that runs a step of `owner`."""
        if isinstance(step, p.Run):
            return MachineCode(self._module, step.symbol)
        if isinstance(step, p.CallLibrary):
            return self._call_library(step, owner)
        if isinstance(step, p.CallGraph):
            enter = _entering(step.result, step.binding, owner)
            return FrameCall(self._functions, step.function, step.arguments, enter)
        if isinstance(step, p.Branch):
            then = [owner.link(part, owner) for part in step.then]
            otherwise = [owner.link(part, owner) for part in step.otherwise]
            return BranchChoice(step.condition, then, otherwise)
        if isinstance(step, p.Match):
            return _match(step, owner)
        if isinstance(step, p.Allocate):
            return _allocate(step, owner)
        return _assemble(step)

    def _call_library(self, step: p.CallLibrary, owner: GraphFunction) -> Runner:
        function, arguments = self._library[step.function], step.arguments
        name, binding = step.function, step.binding
        enter = None if step.result is None else _entering(step.result, binding, owner)

        def run(frame: Frame) -> None:
            registers = frame.registers
            args = [registers[k] for k in arguments]
            try:
                result = function(*args)
            except Exception as problem:
                raise library_error(name, args, problem, binding) from problem
            if enter is not None:
                enter(frame, _independent(result, args))
            elif result is not None:
                _refuse_new_array(name, args, result, binding)

        return run


def _match(step: p.Match, owner: GraphFunction) -> Runner:
    enter, value = _entering(step.pattern, step.binding, owner), step.value
    return lambda frame: enter(frame, frame.registers[value])


def _allocate(step: p.Allocate, owner: GraphFunction) -> Runner:
    return lambda frame: frame.place(step.array, frame.sizes, owner.allocate)


def _assemble(step: p.Assemble) -> Runner:
    def run(frame: Frame) -> None:
        frame.registers[step.register] = frame.evaluate(step.value, frame.sizes)

    return run


def _entering(
    pattern: p.Pattern, binding: str, owner: GraphFunction
) -> Callable[[Frame, Any], None]:
    """Return a function that checks a value of a call and puts it into the frame."""
    slots = owner.program.sizes

    def enter(frame: Frame, value: Any) -> None:
        sizes = frame.sizes
        matcher = Matcher(f"{binding}: value of ", frame.slots, frame.registers, sizes)
        matcher.match(pattern, value)
        matcher.finish()
        for name, slot in slots:
            if name in sizes:
                frame.slots[slot] = sizes[name]

    return enter


def _refuse_new_array(name: str, args: Sequence[Any], result: Any, binding: str) -> None:
    """Raise LibraryFunctionError for an array that was returned where it had to be written."""
    array = None if isinstance(result, np.generic) else as_array(result)
    if array is not None and not any(
        isinstance(arg, np.ndarray) and np.may_share_memory(array, arg) for arg in args
    ):
        problem = IRValueError(
            "it returned a new array, which nothing takes; results are written to the last "
            "argument(s): out[...] = result"
        )
        raise library_error(name, args, problem, binding)


def _independent(value: Any, args: Sequence[Any]) -> Any:
    """Return the result of a library function, with copies of arrays in memory of an argument."""
    if isinstance(value, (tuple, list)):
        return tuple(_independent(part, args) for part in value)
    value = as_value(value)
    if isinstance(value, np.ndarray) and any(
        isinstance(arg, np.ndarray) and np.may_share_memory(value, arg) for arg in args
    ):
        return copied(value)
    return value


def linked_functions(
    executable: Executable, watch: Callable[[Link], Link] | None = None
) -> dict[str, GraphFunction]:
    """Return the functions of an executable; `watch` may change how steps are run."""
    library = {}
    missing: dict[str, list[str]] = {}
    for name, bindings in executable.library_calls().items():
        found = get_global_func(name, allow_missing=True)
        if found is None:
            missing[name] = bindings
        else:
            library[name] = found
    if missing:
        calls = "; ".join(f"{name} by {', '.join(where)}" for name, where in missing.items())
        raise LinkError(f"{missing_text(list(missing))}. They are called: {calls}")
    functions: dict[str, GraphFunction] = {}
    link: Link = Linker(executable.module, library, functions)
    if watch is not None:
        link = watch(link)
    for program in executable.description.programs:
        functions[program.name] = GraphFunction(
            program, executable.constants, link, executable.guard_pages
        )
    return functions
