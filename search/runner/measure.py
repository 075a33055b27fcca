"""The jobs of a runner's worker process: computing expected results, measuring a candidate."""

from __future__ import annotations

import math
import signal
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import codegen
from codegen import AssertionFailedError, LinkError, Module, Target
from codegen.target import host
from search.arg_info import TensorInfo
from search.builder.core_split import CoreSplit
from search.runner.arguments import as_numbers, perturbed, random_arrays
from search.runner.check_results import Expected, Reference, all_finite, difference
from search.runner.energy import EnergyMeter, joules_per_call
from search.runner.measure_candidate import rewritten_parameter
from search.runner.program_facts import ProgramFacts
from search.runner.reference_program import CHECKED, EXACT
from search.runner.runner import RunnerInput, RunnerResult
from search.runner.time_call import EvaluatorConfig, first_call_limit, times
from tensorir.nodes.dtype import FLOAT64, DataType

_MAX_REFERENCES: Final = 4
_MOST_PERTURBED: Final = 0.25
"""Relative change of inputs at which a program is still the same computation."""

_known: dict[str, tuple[Reference, list[NDArray[Any]]]] = {}
"""The expected results by their files, with the arguments for which they are expected."""


def evaluate_reference(
    reference_path: str,
    expected_path: str,
    facts: ProgramFacts,
    split: CoreSplit | None = None,
    given: str | None = None,
) -> str | None:
    """Run the unscheduled program and write the expected results to `expected_path`.

    The arguments have both signs if that gives finite numbers, else they are positive; arrays in
    the file `given` are used unchanged. Returns the reason if the program cannot be measured: it
    calls a function that this process lacks, or an index that it reads from an array is outside.
    """
    try:
        module = _load(reference_path, split)
    except LinkError as problem:
        return (
            f"{problem}\nPrograms are measured in a process of its own, where "
            "LocalRunner(initializer=...) runs first: what they call must be registered there"
        )
    function = module.entry_func
    parameters = function.signature.parameters
    infos = [TensorInfo(p.dtype, [d for d in p.shape if isinstance(d, int)]) for p in parameters]
    dtypes = [info.dtype for info in infos]
    for signed in (True, False):
        arrays, inputs = (random_arrays(infos, 0, facts, signed, given) for _ in range(2))
        if CHECKED in module:
            try:
                module[CHECKED](*random_arrays(infos, 0, facts, signed, given))
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
        for k, parameter in enumerate(parameters)
        if parameter.written
    }
    Reference(infos, facts, signed, given, expected).save(Path(expected_path))
    return None


def measure(
    entry: RunnerInput,
    config: EvaluatorConfig,
    alloc_repeat: int = 1,
    split: CoreSplit | None = None,
    given: str | None = None,
    f_alloc_argument: Any = None,
    f_run_evaluator: Any = None,
    f_cleanup: Any = None,
) -> RunnerResult:
    """Run, check and time an artifact; there are `alloc_repeat * repeat` times.

    The reference path of the entry is the file that `evaluate_reference` wrote: the first call is
    on the arguments of the unscheduled program and must give its results. Each further allocation
    has other arguments. If the first call takes longer than `first_call_limit(best_seconds)`, the
    process ends by SIGPROF. Functions of the user replace ours.
    """
    device, infos = codegen.cpu(), list(entry.args_info)
    best = entry.best_seconds
    try:
        module = _load(entry.artifact_path, split)
        function = module.entry_func
        checked = None if entry.reference_path is None else _reference(entry.reference_path)
        own = None
        if f_alloc_argument is not None:
            plain = [info.as_json() for info in infos]
            own = f_alloc_argument(device, plain, alloc_repeat)

        def arguments(number: int) -> list[NDArray[Any]]:
            if own is not None:
                return list(own[number])
            if checked is not None and number == 0:
                return _laid_out(module, checked[1], infos)
            return random_arrays(infos, number, entry.facts, given=given)

        count = alloc_repeat if own is None else len(own)
        if f_run_evaluator is not None:
            allocated = [arguments(number) for number in range(count)]
            times_found = f_run_evaluator(module, device, config, allocated)
            return RunnerResult(tuple(map(float, times_found)))
        seconds: list[float] = []
        for number in range(count):
            arrays = arguments(number)
            call = function.prepare(*arrays)
            first = _first_call(call, best, module.target)
            if checked is not None and number == 0:
                wrong = _wrong(module, arrays, checked[1], checked[0])
                if wrong is not None:
                    text = f"LocalRunner: Wrong result, {wrong}"
                    return RunnerResult(error_msg=text, stage="check")
            seconds += times(call, config, first, best or math.inf)
        joules = None
        if config.energy:
            joules = joules_per_call(call, statistics.median(seconds), EnergyMeter())
        return RunnerResult(tuple(seconds), joules=joules)
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


def _reference(expected_path: str) -> tuple[Reference, list[NDArray[Any]]]:
    """Return the expected results and the arguments for which they are expected."""
    known = _known.get(expected_path)
    if known is None:
        reference = Reference.load(Path(expected_path))
        inputs = reference.inputs()
        while len(_known) >= _MAX_REFERENCES:
            del _known[next(iter(_known))]
        known = _known[expected_path] = (reference, inputs)
    return known


def _laid_out(
    module: Module, inputs: Sequence[NDArray[Any]], infos: Sequence[TensorInfo]
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
