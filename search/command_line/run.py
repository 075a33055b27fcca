"""`tensorir run` builds a program or a model and calls it; `tensorir replay` applies a trace."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer
from numpy.typing import NDArray

import codegen
from schedule import Schedule
from search.arg_info import ArgInfo, entry_name
from search.command_line.files import (
    is_model,
    read_arrays,
    read_program,
    read_trace,
    save_arrays,
    summary,
    summary_line,
)
from search.command_line.options import (
    DatabasePlace,
    Program,
    Shape,
    Target,
    WorkDir,
    database_of,
    output_file,
    target_of,
)
from search.command_line.result import Code, Part, Result, say
from search.database import Database
from search.errors import ArgumentError, NoDatabaseError, TuningError
from search.history.find_schedule import find_schedule
from search.models.check_model import arrays_in, random_inputs
from search.runner.arguments import ProgramFacts, random_arrays
from search.runner.time_call import speed_text, time_text
from search.task import normalize_mod
from tensorir.errors import noting
from tensorir.function import IRModule
from tensorir.memory.written_parameters import written_parameters
from tensorir.nodes.expr import IntImm
from tensorir.relax.function import Function
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.topi.extents import extent_text

_REPEATS: Final = 3
"""Measurements of a kernel; the result is their mean."""

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=FILE.npy",
        help="An input, as numpy.save wrote it; may be repeated. Other inputs are random.",
    ),
]
Output = Annotated[Path | None, output_file("FILE.npz", "The file for the results.")]
Repeat = Annotated[int, typer.Option(min=0, help="The number of timed calls.")]
Profile = Annotated[bool, typer.Option("--profile", help="Print the time of each kernel.")]


@dataclass(frozen=True)
class Call:
    """The outcome of a call."""

    results: Mapping[str, NDArray[Any]]
    random_inputs: list[str]
    build_seconds: float
    seconds: float | None
    """Seconds per call; None if it was not timed."""
    profile: str = ""


def run(
    program: Program,
    target: Target = None,
    work_dir: WorkDir = None,
    database: DatabasePlace = None,
    shape: Shape = None,
    inputs: Inputs = None,
    output: Output = None,
    repeat: Repeat = 10,
    profile: Profile = False,
) -> Result:
    """Build a program or a model, call it, and print its results and the time of a call.

    Inputs that are not given are random. With the directory of a search, or a database, kernels
    have the schedules that were found. Without, a model gets schedules that fit the machine and
    were not measured, and a program runs unscheduled.

        tensorir run matmul.py --work-dir tuned

        tensorir run model.onnx --input x=image.npy --output y.npz
    """
    chosen = target_of(target)
    place = database or work_dir
    records = None if place is None else records_at(program, place)
    mod = read_program(program, shape)
    if is_model(mod):
        how = ""
        main = mod["main"]
        assert isinstance(main, Function)
        given = read_arrays(inputs or (), [param.name for param in main.arguments], "model")
        call = _call_model(mod, main, chosen, records, given, repeat, profile)
    else:
        if profile:
            raise ArgumentError(
                f"--profile is for models; {program} is a program: use `tensorir explain`"
            )
        given = read_arrays(inputs or (), _buffer_names(mod), "program")
        scheduled = mod if records is None else best_schedule(records, mod, chosen)
        how = "without a schedule" if records is None else f"with a schedule of {records.place}"
        say("building")
        call = call_kernel(mod, scheduled, chosen, given, repeat=repeat)
    if output is not None:
        save_arrays(output, call.results)
    report: dict[str, Any] = {
        "program": program,
        "build_seconds": call.build_seconds,
        "call_seconds": call.seconds,
        "made_up_inputs": call.random_inputs,
        "outputs": [{"name": name, **summary(array)} for name, array in call.results.items()],
    }
    lines = [f"{program}: built {how}{' ' * bool(how)}in {call.build_seconds:.1f} s"]
    lines += [f"random inputs: {', '.join(call.random_inputs)}"] * bool(call.random_inputs)
    lines += [summary_line(name.replace("_", " "), array) for name, array in call.results.items()]
    lines += [] if call.seconds is None else [f"a call takes {time_text(call.seconds)}"]
    if profile:
        report["profile"] = call.profile
        lines.append(call.profile)
    return Result(report, lines)


def records_at(program: str, place: str) -> Database:
    """Return the records at a place; NoDatabaseError or TuningError if there are none."""
    remedy = (
        f"`tensorir tune {program} --work-dir DIR` makes records; without them the program runs "
        "with schedules that were not measured"
    )
    try:
        found = database_of(place)
    except NoDatabaseError as error:
        raise NoDatabaseError(f"{error}; {remedy}") from error
    if unreadable := found.unreadable():
        more = f" and {len(unreadable) - 1} more" if len(unreadable) > 1 else ""
        say(f"skipping records that cannot be read: {unreadable[0]}{more}")
    if not len(found):
        raise TuningError(f"{found.place} has no records{'' if unreadable else f': {remedy}'}")
    return found


def best_schedule(database: Database, mod: IRModule, target: codegen.Target) -> IRModule:
    """Return the program with the best schedule in a database; TuningError without one."""
    found = find_schedule(database, mod.prim_func(entry_name(mod)), target)
    if found is None:
        raise TuningError(
            f"{database.place} has no schedule of {entry_name(mod)} for {target}: `tensorir db "
            "list DATABASE` lists its programs"
        )
    return found.schedule.mod


def _buffer_names(mod: IRModule) -> list[str]:
    """Return the names of the parameters of a program; TuningError for scalar parameters."""
    func = mod.prim_func(entry_name(mod))
    ArgInfo.from_prim_func(func)
    return [func.buffer_map[param].name for param in func.params]


def call_kernel(
    mod: IRModule,
    scheduled: IRModule,
    target: codegen.Target,
    given: Mapping[str, NDArray[Any]] | None = None,
    *,
    repeat: int,
) -> Call:
    """Build the entry function of a scheduled program and call it; `mod` is the unscheduled one.

    `given` are arrays by the names of buffers; others are random, with a fixed seed. The results
    are the buffers that the function writes. `repeat` calls are timed. Raises TuningError for a
    function whose arguments cannot be random, ArgumentError for arrays of another shape or dtype.
    """
    func = mod.prim_func(entry_name(mod))
    infos = ArgInfo.from_prim_func(func)
    names = _buffer_names(mod)
    facts = ProgramFacts.of(IRModule.from_expr(func))
    arrays = random_arrays(infos, 0, facts, signed=True)
    own = given or {}
    for name, info, array in zip(names, infos, arrays, strict=True):
        if name not in own:
            continue
        _check_input(name, TensorStructInfo(info.shape, info.dtype), own[name])
        array[...] = own[name]
    start = time.monotonic()
    library = codegen.build(scheduled, target)
    built = time.monotonic() - start
    entry = entry_name(scheduled)
    library[entry](*arrays)
    written = {func.buffer_map[param].name for param in written_parameters(func, mod)}
    pairs = zip(names, arrays, strict=True)
    results = {name: array.copy() for name, array in pairs if name in written}
    seconds = None
    if repeat > 0:
        timed = library.time_evaluator(entry, number=repeat, repeat=_REPEATS)
        seconds = float(timed(*arrays).mean)
    random = [name for name in names if name not in own and name not in written]
    return Call(results, random, built, seconds)


def _check_input(name: str, expected: TensorStructInfo, array: NDArray[Any]) -> None:
    """Raise ArgumentError for an array of another dtype or shape; symbolic extents are any."""
    shape, dtype = expected.shape, expected.dtype
    if shape is None or dtype is None:
        return
    is_same = array.dtype == dtype.to_numpy() and array.ndim == len(shape)
    pairs = zip(shape, array.shape, strict=False)
    if not is_same or any(isinstance(n, IntImm) and n.value != size for n, size in pairs):
        raise ArgumentError(
            f"the input {name!r} is {dtype}[{', '.join(map(extent_text, shape))}], got "
            f"{array.dtype}{list(array.shape)}"
        )


def _call_model(
    mod: IRModule,
    main: Function,
    target: codegen.Target,
    database: Database | None,
    given: Mapping[str, NDArray[Any]],
    repeat: int,
    profile: bool,
) -> Call:
    for param in main.arguments:
        if param.name in given and isinstance(param.struct_info, TensorStructInfo):
            _check_input(param.name, param.struct_info, given[param.name])
    arguments = random_inputs("main", main, dict(given))
    say("building; kernels without a record get default schedules")
    start = time.monotonic()
    executable = codegen.vm_build(mod, target, database=database)
    built = time.monotonic() - start
    machine = codegen.VirtualMachine(executable)
    results = arrays_in(machine["main"](*arguments.values()))
    named = {
        # a file of NumPy has no bfloat16
        f"output_{k}": one.astype(np.float32) if isinstance(one, codegen.BFloat16Array) else one
        for k, one in enumerate(results)
    }
    seconds = None
    if repeat > 0:
        seconds = machine.time_evaluator("main", number=repeat)(*arguments.values()).mean
    shown = str(machine.profile("main", *arguments.values())) if profile else ""
    random = [name for name in arguments if name not in given]
    return Call(named, random, built, seconds, shown)


TracePath = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="A trace, as Trace.save or `tensorir db best --save` wrote it, or as it is printed.",
        exists=True,
        dir_okay=False,
    ),
]
Scheduled = Annotated[Path | None, output_file("FILE.py", "The file for the scheduled program.")]
Build = Annotated[
    bool, typer.Option("--build", help="Build and time the program, scheduled and unscheduled.")
]


def replay(
    trace: TracePath,
    program: Program,
    build: Build = False,
    target: Target = None,
    output: Scheduled = None,
) -> Result:
    """Apply a saved trace to a program, and print the scheduled program.

    With --build it is timed before and after, with the same random arguments.

        tensorir replay trace.json matmul.py --build
    """
    chosen = target_of(target)
    recorded = read_trace(trace)
    mod = read_program(program)
    if is_model(mod):
        raise ArgumentError(f"{program} is a model; a trace is of one program")
    functions = {
        value
        for inst in recorded.insts
        for param, value in zip(inst.kind.params, inst.values, strict=True)
        if param.name == "func_name"
    }
    if "main" in functions and "main" not in mod:
        mod = normalize_mod(mod)  # the name that a search gives its program
    sch = Schedule(mod)
    with noting(f"It was replayed from {trace} on {program}."):
        recorded.apply_to_schedule(sch, remove_postproc=False)
    script = sch.mod.script()
    report: dict[str, Any] = {"trace": str(trace), "program": program, "script": script}
    parts: list[Part] = [Code(script)]
    if output is not None:
        output.write_text(script + "\n", encoding="utf-8")
        parts = [f"the scheduled program is in {output}"]
    if build:
        say("building and timing the unscheduled and the scheduled program")
        before = call_kernel(mod, mod, chosen, repeat=10).seconds or 0.0
        after = call_kernel(mod, sch.mod, chosen, repeat=10).seconds or 0.0
        report.update(seconds=after, unscheduled_seconds=before)
        parts.append(
            f"# {time_text(after)} per call, {time_text(before)} unscheduled: "
            f"{speed_text(before, after)}"
        )
    return Result(report, parts)
