"""Measuring one candidate; this is the job of a runner's worker process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import codegen
from codegen import Module
from search.arg_info import ArgInfo, TensorInfo
from search.runner.check_results import Reference, difference
from search.runner.evaluator_config import EvaluatorConfig
from search.runner.random_fill import random_arrays

_SLICES: Final = 8
"""In how many parts the calls of one result are timed."""

_references: dict[str, Reference] = {}
_MAX_REFERENCES: Final = 4


class WrongResultError(Exception):
    """The candidate computes something else than the unscheduled program."""


def measure(
    artifact_path: str,
    args_json: Sequence[Any],
    config: EvaluatorConfig,
    alloc_repeat: int,
    reference_path: str | None,
    best_seconds: float | None,
) -> tuple[float, ...]:
    """Run and time an artifact; return seconds per call, `alloc_repeat * repeat` of them.

    With a reference, the first call is on its arguments and must give its results; WrongResultError
    if not. The candidate is timed on the same arguments, on others for each further allocation.
    """
    module = _load(artifact_path)
    infos = [ArgInfo.from_json(entry) for entry in args_json]
    function = module.entry_func
    seconds: list[float] = []
    for number in range(alloc_repeat):
        arrays = random_arrays(infos, seed=number)
        call = function.prepare(*arrays)
        if number == 0 and reference_path is not None:
            expected = _reference(reference_path, infos)
            first = call.time(1).seconds
            wrong = difference(arrays, expected)
            if wrong is not None:
                raise WrongResultError(wrong)
        else:
            first = call.time(1).seconds
        seconds += _times(call, config, first, best_seconds or math.inf)
    return tuple(seconds)


def measure_with(
    artifact_path: str,
    args_json: Sequence[Any],
    config: EvaluatorConfig,
    alloc_repeat: int,
    f_alloc_argument: Any,
    f_run_evaluator: Any,
    f_cleanup: Any,
) -> tuple[float, ...]:
    """Run and time an artifact with functions of the user in place of ours."""
    device = codegen.cpu()
    try:
        module = _load(artifact_path)
        if f_alloc_argument is None:
            infos = [ArgInfo.from_json(entry) for entry in args_json]
            allocated = [random_arrays(infos, seed=number) for number in range(alloc_repeat)]
        else:
            allocated = f_alloc_argument(device, args_json, alloc_repeat)
        if f_run_evaluator is not None:
            return tuple(map(float, f_run_evaluator(module, device, config, allocated)))
        seconds: list[float] = []
        for arrays in allocated:
            call = module.entry_func.prepare(*arrays)
            seconds += _times(call, config, call.time(1).seconds, math.inf)
        return tuple(seconds)
    finally:
        if f_cleanup is not None:
            f_cleanup()


def _times(
    call: codegen.PreparedCall, config: EvaluatorConfig, first: float, best: float
) -> list[float]:
    """Return `repeat` times per call.

    The calls of one result are timed in slices and the median of the slices is the result, which a
    pause of the machine does not reach. A candidate that is certainly slower than `best` seconds is
    not timed any longer: after n slices, one whose fastest slice is 1 + 1/n times as slow.
    """
    results: list[float] = []
    wanted = config.min_repeat_ms * 1e-3
    per_call = first
    for _ in range(config.repeat):
        if config.enable_cpu_cache_flush:
            call.flush_from_caches(skip_first=True)
        slices: list[float] = []
        spent = 0.0
        while not slices or spent < wanted:
            share = wanted / _SLICES / per_call if per_call > 0 else config.number * 1.618
            batch = call.time(max(config.number, min(int(share), 1 << 30)))
            per_call = batch.seconds / batch.runs
            spent += max(batch.seconds, 1e-6)
            slices.append(per_call)
            if min(slices) > best * (1 + 1 / len(slices)):
                return [_median(slices)] * config.repeat
        results.append(_median(slices))
    return results


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _load(artifact_path: str) -> Module:
    if Path(artifact_path).suffix == ".o":
        return Module.from_object(Path(artifact_path).read_bytes())
    return codegen.load_module(artifact_path)


def _reference(path: str, infos: Sequence[ArgInfo]) -> Reference:
    """Return what the unscheduled program makes of the arguments, computed once for each."""
    known = _references.get(path)
    if known is None:
        arrays = random_arrays(infos, seed=0)
        _load(path).entry_func(*arrays)
        known = Reference(arrays, [i.dtype for i in infos if isinstance(i, TensorInfo)])
        while len(_references) >= _MAX_REFERENCES:
            del _references[next(iter(_references))]
        _references[path] = known
    return known
