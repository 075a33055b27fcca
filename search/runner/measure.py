"""The jobs of a runner's worker process: computing expected results, measuring a candidate."""

from __future__ import annotations

import math
import signal
import statistics
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import codegen
from codegen import AssertionFailedError, Device, LinkError, Module, Target
from codegen.runtime.openmp import spin_for_milliseconds, wake_threads
from codegen.target import host
from search.arg_info import TensorInfo
from search.builder.core_split import CoreSplit
from search.runner.arguments import ProgramFacts, as_numbers, perturb, random_arrays
from search.runner.check_results import Expected, Reference, all_finite, difference
from search.runner.measure_candidate import rewritten_parameter
from search.runner.reference_program import CHECKED, EXACT
from search.runner.runner import RunnerInput, RunnerResult
from search.runner.time_call import (
    EnergyMeter,
    EvaluatorConfig,
    first_call_limit,
    joules_per_call,
    times,
)
from tensorir.nodes.dtype import FLOAT64, DataType

_DEVICE_SECONDS: Final = 10.0
"""Seconds after which a call on a GPU is ended."""
_MOST_PERTURBED: Final = 0.25
"""The maximum relative change of inputs that leaves a computation the same."""


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
    calls a function that this process lacks, or an index that it reads from an array is out of
    bounds.
    """
    try:
        module = _load(reference_path, split)
    except LinkError as problem:
        return (
            f"{problem}\nPrograms are measured in a separate process, which calls "
            "LocalRunner(initializer=...) first: register there the functions that they call"
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
        second = [_widen_argument(*entry) for entry in zip(inputs, dtypes, strict=True)]
        module[EXACT](*second)
    else:
        second = perturb(inputs, dtypes, min(facts.rounding, _MOST_PERTURBED), seed=1)
        function(*second)
    expected = {
        k: Expected.of(arrays[k], second[k], dtypes[k], facts.rounding, is_exact, inputs[k])
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
    process ends by SIGPROF. Functions of the user replace the default ones.
    """
    infos, best = entry.args_info, entry.best_seconds
    try:
        module = _load(entry.artifact_path, split)
        device = codegen.device(module.target, timeout=_DEVICE_SECONDS)
        function = module.entry_func
        checked = None if entry.reference_path is None else _reference(entry.reference_path)
        sets: Iterable[Any]
        if f_alloc_argument is not None:
            plain = [info.as_json() for info in infos]
            sets = f_alloc_argument(device, plain, alloc_repeat)
        else:
            sets = (
                _copy_in_layout(module, checked[1], infos)
                if checked is not None and k == 0
                else random_arrays(infos, k, entry.facts, given=given)
                for k in range(alloc_repeat)
            )
        if f_run_evaluator is not None:
            found = f_run_evaluator(module, device, config, list(sets))
            return RunnerResult(tuple(map(float, found)))
        cold = () if entry.facts is None else entry.facts.cold
        seconds: list[float] = []
        for number, arrays in enumerate(sets):
            placed = _placed(arrays, infos, device)
            call = function.prepare(*placed)
            first = _first_call(call, best, module.target)
            if checked is not None and number == 0:
                arrays = [array.numpy() for array in placed] if placed is not arrays else arrays
                wrong = _describe_wrong_array(module, arrays, checked[1], checked[0])
                if wrong is not None:
                    text = f"LocalRunner: Wrong result, {wrong}"
                    return RunnerResult(error_msg=text, stage="check")
            chill = partial(_chill, call, cold, module.target.num_cores or 1) if cold else None
            seconds += times(call, config, first, best or math.inf, chill)
        joules = None
        if config.energy:
            joules = joules_per_call(call, statistics.median(seconds), EnergyMeter())
        return RunnerResult(tuple(seconds), joules=joules)
    finally:
        if f_cleanup is not None:
            f_cleanup()


def _chill(call: codegen.PreparedCall, cold: Sequence[int], threads: int) -> None:
    """Drop arguments from the caches, and wake the threads, which sleep after that."""
    call.flush(cold)
    wake_threads(threads)


def _placed(arrays: Sequence[Any], infos: Sequence[TensorInfo], device: Device) -> Sequence[Any]:
    """Return arrays in the memory of a device: themselves for the CPU, copies for a GPU."""
    if device == codegen.cpu():
        return arrays
    copies = [device.empty(info.shape, info.dtype) for info in infos]
    for copy, array in zip(copies, arrays, strict=True):
        copy.copyfrom(array)
    return copies


def _first_call(call: codegen.PreparedCall, best: float | None, target: Target) -> float:
    """Return the seconds of a call. If it runs too long, the system ends this process.

    The clock counts the processor time of all threads, so other processes do not matter. A call on
    a GPU takes no processor time; it fails after `_DEVICE_SECONDS`.
    """
    limit = first_call_limit(best)
    if limit is None or target.gpu is not None:
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
        split.release()  # OpenMP uses the cores that it finds when it is loaded
    spin_for_milliseconds()
    if Path(artifact_path).suffix == ".o":
        module = Module.from_object(Path(artifact_path).read_bytes())
    else:
        module = codegen.load_module(artifact_path)
    if split is not None:
        split.bind_measuring(module.target)
    return module


def _widen_argument(array: NDArray[Any], dtype: DataType) -> NDArray[Any]:
    """Return a copy of an argument for a program in float64."""
    wide = FLOAT64 if dtype.is_floating else dtype.element
    copy = codegen.empty(array.shape, wide)
    copy[...] = as_numbers(array, dtype)
    return copy


@lru_cache(maxsize=4)
def _reference(expected_path: str) -> tuple[Reference, list[NDArray[Any]]]:
    """Return the expected results and the arguments for which they are expected."""
    reference = Reference.load(Path(expected_path))
    return reference, reference.inputs()


def _copy_in_layout(
    module: Module, inputs: Sequence[NDArray[Any]], infos: Sequence[TensorInfo]
) -> list[NDArray[Any]]:
    """Return copies of the inputs, with weights in the layout of the candidate."""
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


def _describe_wrong_array(
    module: Module,
    arrays: Sequence[NDArray[Any]],
    inputs: Sequence[NDArray[Any]],
    reference: Reference,
) -> str | None:
    """Return a text on the first wrong array after a call; read-only arrays must be unchanged."""
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
