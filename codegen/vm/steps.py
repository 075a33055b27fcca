"""Linking: each step of an executable becomes a function of a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.errors import LinkError
from codegen.library_functions import LibraryFunction, get_global_func, library_error, missing_text
from codegen.runtime.function import ENTRY, Function
from codegen.runtime.ndarray import Device
from codegen.vm import program as p
from codegen.vm.executable import Executable
from codegen.vm.frame import BranchChoice, Frame, FrameCall, Runner, copied
from codegen.vm.graph_function import GraphFunction, Link
from codegen.vm.matching import Matcher, as_array, as_value
from tensorir.errors import IRValueError

if TYPE_CHECKING:
    from codegen.devices.array import GpuDevice


class MachineCode:
    """A run of machine code on the slots of a frame."""

    __slots__ = ("_call", "_fail", "entry")

    def __init__(self, function: Function) -> None:
        self.entry = function.entry
        """Address of the entry that takes the slots."""
        self._call = ENTRY(function.entry)
        self._fail = function.fail

    def __call__(self, frame: Frame) -> None:
        """Run; raise the error of a status other than 0."""
        status = self._call(frame.address)
        if status:
            self._fail(status)


def _call_library(
    step: p.CallLibrary,
    function: LibraryFunction,
    owner: GraphFunction,
    functions: Mapping[str, GraphFunction],
) -> Runner:
    name, arguments, binding = step.function, step.arguments, step.binding
    graphs = [(position, _calling(functions, graph)) for position, graph in step.graphs]
    enter = None if step.result is None else _entering(step.result, binding, owner)

    def run(frame: Frame) -> None:
        registers = frame.registers
        args = [registers[k] for k in arguments]
        for position, graph in graphs:
            args.insert(position, graph)
        try:
            result = function(*args)
        except Exception as problem:
            raise library_error(name, args, problem, binding) from problem
        if enter is not None:
            enter(frame, _independent(result, args))
        elif result is not None:
            _refuse_new_array(name, args, result, binding)

    return run


def _calling(functions: Mapping[str, GraphFunction], name: str) -> LibraryFunction:
    """Return a function that calls a graph function, which may be linked later."""
    return lambda *args: functions[name](*args)


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
        place = f"{binding}: value of "
        matcher = Matcher(place, frame.slots, frame.registers, frame.sizes, frame.copies)
        matcher.match(pattern, value)
        matcher.finish(slots)

    return enter


def _refuse_new_array(name: str, args: Sequence[Any], result: Any, binding: str) -> None:
    """Raise LibraryFunctionError if a function returned an array instead of writing its output."""
    array = None if isinstance(result, np.generic) else as_array(result)
    if array is not None and not _is_in_memory_of(args, array):
        problem = IRValueError(
            "it returned a new array, but results must be written to the last argument(s): "
            "out[...] = result"
        )
        raise library_error(name, args, problem, binding)


def _independent(value: Any, args: Sequence[Any]) -> Any:
    """Return the result of a library function, with copies of arrays in memory of an argument."""
    if isinstance(value, (tuple, list)):
        return tuple(_independent(part, args) for part in value)
    value = as_value(value)
    return copied(value) if _is_in_memory_of(args, value) else value


def _is_in_memory_of(args: Sequence[Any], value: Any) -> bool:
    """Return True if a value is an array that an argument may share memory with."""
    return isinstance(value, np.ndarray) and any(
        isinstance(arg, np.ndarray) and np.may_share_memory(value, arg) for arg in args
    )


def linked_functions(
    executable: Executable,
    watch: Callable[[Link], Link] | None = None,
    device: Device | None = None,
) -> dict[str, GraphFunction]:
    """Return the functions of an executable; `watch` may wrap the linked steps.

    `device` is the one that runs an executable for a GPU; None means the first.
    """
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
    run: Callable[[Any, p.Program], Runner]
    gpu: GpuDevice | None = None
    if executable.module.target.gpu is None:
        run = lambda step, _: MachineCode(executable.module[step.symbol])  # noqa: E731
    else:
        from codegen.vm.device_memory import device_of, device_steps  # noqa: PLC0415 - for GPUs only

        gpu = device_of(executable, device)
        run = device_steps(executable, gpu)

    def linked(step: p.Step, owner: GraphFunction) -> Runner:
        if isinstance(step, (p.Run, p.ToHost, p.ToDevice)):
            return run(step, owner.program)
        if isinstance(step, p.CallLibrary):
            return _call_library(step, library[step.function], owner, functions)
        if isinstance(step, p.CallGraph):
            enter = None if step.result is None else _entering(step.result, step.binding, owner)
            return FrameCall(functions, step.function, step.arguments, enter, step.outputs)
        if isinstance(step, p.Branch):
            then = [owner.link(part, owner) for part in step.then]
            otherwise = [owner.link(part, owner) for part in step.otherwise]
            return BranchChoice(step.condition, then, otherwise)
        if isinstance(step, p.Match):
            enter, value = _entering(step.pattern, step.binding, owner), step.value
            return lambda frame: enter(frame, frame.registers[value])
        if isinstance(step, p.Allocate):
            array = step.array
            return lambda frame: frame.place(array, frame.sizes, owner.allocate)
        return _assemble(step)

    link = linked if watch is None else watch(linked)
    for program in executable.description.programs:
        functions[program.name] = GraphFunction(
            program, executable.constants, link, executable.guard_pages, gpu
        )
    return functions
