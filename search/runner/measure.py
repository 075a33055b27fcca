"""The jobs of a runner's worker process: computing expected results, measuring a candidate."""

from __future__ import annotations

import math
import signal
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import codegen
from codegen import AssertionFailedError, Function, LinkError, Module, Target
from codegen.target import host
from search.arg_info import ArgInfo, TensorInfo
from search.builder.core_split import CoreSplit
from search.runner.arguments import Fill, as_numbers, perturbed, random_arrays
from search.runner.check_results import Expected, Reference, all_finite, difference
from search.runner.energy import EnergyMeter, joules_per_call
from search.runner.measure_candidate import rewritten_parameter
from search.runner.program_facts import ProgramFacts
from search.runner.reference_program import CHECKED, EXACT
from search.runner.time_call import EvaluatorConfig, first_call_limit, times
from tensorir.nodes.dtype import FLOAT64, DataType

_MAX_REFERENCES: Final = 4
_MOST_PERTURBED: Final = 0.25
"""Relative change of inputs at which a program is still the same computation."""

_known: dict[str, tuple[Reference, list[NDArray[Any]]]] = {}
"""The results expected of candidates, and the arguments for which they are expected, by path."""


@dataclass(frozen=True)
class Measured:
    """The outcome of measuring: seconds per call, or the fault in the results."""

    seconds: tuple[float, ...] = ()
    joules: float | None = None
    """Joules per call, where they were asked for."""
    wrong: str | None = None


def evaluate_reference(
    reference_path: str,
    expected_path: str,
    facts: ProgramFacts,
    split: CoreSplit | None = None,
    given: str | None = None,
) -> str | None:
    """Run the unscheduled program and write the expected results to `expected_path`.

    The arguments have both signs if that gives finite numbers, else they are positive; those in the
    file `given` are taken as they are. Returns why the program cannot be measured, if it cannot:
    it calls what this process does not have, or an index that it reads from an array is outside.
    """
    try:
        module = _load(reference_path, split)
    except LinkError as problem:
        return (
            f"{problem}\nPrograms are measured in a process of its own, where "
            "LocalRunner(initializer=...) runs first: what they call must be registered there"
        )
    function = module.entry_func
    infos = _arguments_of(function)
    dtypes = [info.dtype for info in infos]
    for signed in (True, False):
        fill = facts.fill(signed, given)
        arrays, inputs = random_arrays(infos, 0, fill), random_arrays(infos, 0, fill)
        if CHECKED in module:
            try:
                module[CHECKED](*random_arrays(infos, 0, fill))
            except AssertionFailedError as outside:
                return str(outside).removeprefix(f"{CHECKED}: ")
        function(*arrays)
        if all_finite(arrays, dtypes):
            break
    is_exact = EXACT in module
    if is_exact:
        second = [_widened(*entry) for entry in zip(inputs, dtypes, strict=True)]
        module[EXACT](*second)
    else:
        second = perturbed(inputs, dtypes, min(facts.rounding, _MOST_PERTURBED), seed=1)
        function(*second)
    expected = {
        k: Expected.of(arrays[k], second[k], dtypes[k], facts.rounding, is_exact)
        for k, parameter in enumerate(function.signature.parameters)
        if parameter.written
    }
    Reference(infos, fill, expected).save(Path(expected_path))
    return None


def measure(
    artifact_path: str,
    args_json: Sequence[Any],
    config: EvaluatorConfig,
    alloc_repeat: int,
    split: CoreSplit | None,
    expected_path: str | None,
    best_seconds: float | None,
    fill: Fill | None = None,
) -> Measured:
    """Run, check and time an artifact; there are `alloc_repeat * repeat` times.

    With `expected_path`, to which `evaluate_reference` wrote, the first call is on the arguments of
    the unscheduled program and must give its results. The candidate is timed on the same arguments,
    on others, made up as `fill` says, for each further allocation. If the first call takes longer
    than `first_call_limit(best_seconds)`, the process ends by SIGPROF.
    """
    module = _load(artifact_path, split)
    function = module.entry_func
    infos = [ArgInfo.from_json(entry) for entry in args_json]
    seconds: list[float] = []
    for number in range(alloc_repeat):
        if number == 0 and expected_path is not None:
            reference, inputs = _reference(expected_path)
            arrays = _laid_out(module, inputs, infos)
            call = function.prepare(*arrays)
            first = _first_call(call, best_seconds, module.target)
            wrong = _wrong(module, arrays, inputs, reference)
            if wrong is not None:
                return Measured(wrong=wrong)
        else:
            call = function.prepare(*random_arrays(infos, number, fill))
            first = _first_call(call, best_seconds, module.target)
        seconds += times(call, config, first, best_seconds or math.inf)
    joules = None
    if config.energy:
        joules = joules_per_call(call, statistics.median(seconds), EnergyMeter())
    return Measured(tuple(seconds), joules)


def measure_with(
    artifact_path: str,
    args_json: Sequence[Any],
    config: EvaluatorConfig,
    alloc_repeat: int,
    split: CoreSplit | None,
    fill: Fill,
    f_alloc_argument: Any,
    f_run_evaluator: Any,
    f_cleanup: Any,
) -> Measured:
    """Run and time an artifact with functions of the user in place of ours."""
    device = codegen.cpu()
    try:
        module = _load(artifact_path, split)
        if f_alloc_argument is None:
            infos = [ArgInfo.from_json(entry) for entry in args_json]
            allocated = [random_arrays(infos, number, fill) for number in range(alloc_repeat)]
        else:
            allocated = f_alloc_argument(device, args_json, alloc_repeat)
        if f_run_evaluator is not None:
            return Measured(tuple(map(float, f_run_evaluator(module, device, config, allocated))))
        seconds: list[float] = []
        for arrays in allocated:
            call = module.entry_func.prepare(*arrays)
            seconds += times(call, config, call.time(1).seconds)
        return Measured(tuple(seconds))
    finally:
        if f_cleanup is not None:
            f_cleanup()


def _first_call(call: codegen.PreparedCall, best: float | None, target: Target) -> float:
    """Return the seconds of a call, which the system ends, and this process, if it takes long.

    The clock counts what all threads computed, so that a busy machine takes nothing from it.
    """
    limit = first_call_limit(best)
    if limit is None:
        return call.time(1).seconds
    cores = target.num_cores or host.logical_cores()
    signal.setitimer(signal.ITIMER_PROF, limit * cores)
    try:
        return call.time(1).seconds
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _load(artifact_path: str, split: CoreSplit | None) -> Module:
    """Load an artifact and bind this process to the cores that its target measures on."""
    if split is not None:
        split.release()  # OpenMP, once loaded, counts on the cores that it sees then
    if Path(artifact_path).suffix == ".o":
        module = Module.from_object(Path(artifact_path).read_bytes())
    else:
        module = codegen.load_module(artifact_path)
    if split is not None:
        split.bind_measuring(module.target)
    return module


def _widened(array: NDArray[Any], dtype: DataType) -> NDArray[Any]:
    """Return a copy of an argument for a program in float64."""
    wide = FLOAT64 if dtype.is_floating else dtype.element
    copy = codegen.empty(array.shape, wide)
    copy[...] = as_numbers(array, dtype)
    return copy


def _arguments_of(function: Function) -> list[TensorInfo]:
    parameters = function.signature.parameters
    return [TensorInfo(p.dtype, [d for d in p.shape if isinstance(d, int)]) for p in parameters]


def _reference(expected_path: str) -> tuple[Reference, list[NDArray[Any]]]:
    """Return the expected results and the arguments for which they are expected."""
    known = _known.get(expected_path)
    if known is None:
        reference = Reference.load(Path(expected_path))
        inputs = random_arrays(reference.arguments, 0, reference.fill)
        while len(_known) >= _MAX_REFERENCES:
            del _known[next(iter(_known))]
        known = _known[expected_path] = (reference, inputs)
    return known


def _laid_out(
    module: Module, inputs: Sequence[NDArray[Any]], infos: Sequence[ArgInfo]
) -> list[NDArray[Any]]:
    """Return copies of the inputs, weights in the layout that the candidate takes."""
    arrays: list[NDArray[Any]] = []
    for position, (given, info) in enumerate(zip(inputs, infos, strict=True)):
        array = codegen.empty(info.shape, info.dtype)
        rewrite = rewritten_parameter(position)
        if rewrite in module:
            module[rewrite](given, array)
        else:
            np.copyto(array, given)
        arrays.append(array)
    return arrays


def _wrong(
    module: Module,
    arrays: Sequence[NDArray[Any]],
    inputs: Sequence[NDArray[Any]],
    reference: Reference,
) -> str | None:
    """Return the fault of the arrays after a call; an array that nobody writes stays as it was."""
    for position, parameter in enumerate(module.entry_func.signature.parameters):
        expected = reference.expected.get(position)
        if expected is None:
            if not parameter.written or rewritten_parameter(position) in module:
                continue
            expected = Expected.unchanged(inputs[position], parameter.dtype)
        found = difference(arrays[position], parameter.dtype, expected)
        if found is not None:
            return f"argument {position} ({parameter.name}) is {found}"
    return None
