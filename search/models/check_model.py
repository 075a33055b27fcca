"""The check of a tuned model: it has to compute what it does without records, but for rounding.

Each candidate was compared with the unscheduled program when it was measured. Here the model runs
as a whole, as a later build makes it, on inputs that are made up.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

import codegen
from codegen import Target
from codegen.schedules import Schedules
from codegen.vm.kernel_schedules import as_looked_up
from search.database import Database
from search.database.records import FAILED
from search.history.find_schedule import FoundSchedule, find_schedule
from search.models.made_up_inputs import made_up_inputs
from search.models.results import Array, arrays_in
from search.runner.check_results import Expected, difference
from search.runner.time_text import time_text
from tensorir.errors import TensorIRError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.dtype import DataType
from tensorir.relax.call_graph import called
from tensorir.relax.function import Function, graph_functions

_ROUNDING: Final = {"float16": 3e-2, "bfloat16": 1e-1}
_ROUNDING_OF_OTHERS: Final = 1e-3
"""What an element may be off by, relative to its size: whole models are compared so."""
_NUDGE: Final = 1e-6
"""The relative change of inputs that shows how much a model makes of rounding."""
_CALLS: Final = 5
_UNEXPLAINED: Final = 0.5
"""The share of the time of kernels that a call may take beside them without a word."""
_OF_A_CALL: Final = 1e-3
"""The seconds beside its kernels that no call is remarked for."""
_MOST_ROUNDS: Final = 4
"""How often the next best records are tried, before all of a function are given up."""

Typed: TypeAlias = tuple[NDArray[Any], DataType]
Call: TypeAlias = Callable[[Sequence[NDArray[Any]]], list[Typed]]


@dataclass(frozen=True)
class Entry:
    """A graph function that is called from outside, and arguments that are made up for it."""

    name: str
    arguments: list[NDArray[Any]]
    nudged: list[NDArray[Any]]
    """The arguments with floats that are a little different."""


class OnlySome:
    """The schedules that a database has of some functions, by their names."""

    def __init__(self, database: Schedules, names: Sequence[str]) -> None:
        self._database = database
        self._names = frozenset(names)

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> Mapping[str, PrimFunc]:
        """Return the scheduled forms of those that are among the functions."""
        wanted = {name: func for name, func in functions.items() if name in self._names}
        return self._database.schedules_of(wanted, target)


def leave_untuned_what_differs(
    mod: IRModule,
    database: Database,
    target: Target,
    logger: logging.Logger,
    kernel_seconds: float | None = None,
) -> list[str]:
    """Compare a model built with a database with one built without; return what differs.

    What is returned are the names of functions whose best schedules change results beyond rounding.
    Those records are committed once more as trials that failed, so that no build takes them; what
    is the next best then is compared as well. A warning says what was found, and also why a model
    could not be compared: because its inputs cannot be made up, or it does not run without records.
    The time of a call is logged beside `kernel_seconds`, the sum of its kernels, if it is given.
    """
    try:
        entries = [_entry(name, func) for name, func in _entries(mod).items()]
        expected = [_expected(mod, target, entry) for entry in entries]
    except TensorIRError as error:
        logger.warning("The tuned model is not compared with the untuned one: %s", error)
        return []
    found: dict[str, None] = {}
    calls: dict[str, Call] = {}
    kernels = as_looked_up(mod).prim_funcs()
    for round_number in range(_MOST_ROUNDS + 1):
        known = {name: find_schedule(database, f, target) for name, f in kernels.items()}
        tuned = [name for name, schedule in known.items() if schedule is not None]

        def why_wrong(names: Sequence[str]) -> str | None:
            return _why_wrong(mod, target, OnlySome(database, names), entries, expected, calls)

        guilty = _guilty(tuned, why_wrong)
        if not guilty:
            break
        for name, reason in guilty.items():
            found[name] = None
            schedule = known[name]
            assert schedule is not None
            everything = round_number == _MOST_ROUNDS
            _refuse(database, kernels[name], target, schedule, everything)
            logger.warning(
                'Function "%s" is left without the schedule that was found: with it the model '
                "computes something else, %s",
                name,
                reason,
            )
    if not found:
        logger.info("The tuned model computes what the untuned one does")
    if not guilty and len(entries) == 1 and kernel_seconds:
        (entry,) = entries
        _compare_times(_seconds_of(calls[entry.name], entry.arguments), kernel_seconds, logger)
    return list(found)


def _seconds_of(call: Call, arguments: Sequence[NDArray[Any]]) -> float:
    """Return the median seconds of a few calls."""
    taken = []
    for _ in range(_CALLS):
        start = time.perf_counter()
        call(arguments)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _compare_times(call: float, kernels: float, logger: logging.Logger) -> None:
    """Log the time of a call beside the sum of its kernels; warn if they are far apart."""
    beside = f"A call of the tuned model takes {time_text(call)}, its tuned kernels alone "
    if call - kernels < max(_UNEXPLAINED * kernels, _OF_A_CALL):
        logger.info("%s%s", beside, time_text(kernels))
    else:
        logger.warning(
            "%s%s: the machine is busy, or the rest of the call is in kernels that were not tuned "
            "(vm.profile lists them)",
            beside,
            time_text(kernels),
        )


def _guilty(
    names: Sequence[str], why_wrong: Callable[[Sequence[str]], str | None]
) -> dict[str, str]:
    """Return the functions whose schedules change results, with what they change.

    Halves are looked at apart. If only both together are wrong, so are all.
    """
    reason = why_wrong(names) if names else None
    if reason is None:
        return {}
    if len(names) == 1:
        return {names[0]: reason}
    middle = len(names) // 2
    halves = {**_guilty(names[:middle], why_wrong), **_guilty(names[middle:], why_wrong)}
    return halves or dict.fromkeys(names, f"together with others: {reason}")


def _refuse(
    database: Database, func: PrimFunc, target: Target, found: FoundSchedule, everything: bool
) -> None:
    """Note in a database that the schedule found of a function is none, or that all are none."""
    records = [found.record]
    if everything:
        records = database.tuning_records_of(found.record.workload, found.record.target)
    for record in records:
        if record.is_valid:
            database.commit_tuning_record(replace(record, run_secs=(FAILED,)))


def _entries(mod: IRModule) -> dict[str, Function]:
    """Return the graph functions that no other one calls."""
    graphs = graph_functions(mod)
    inner = called(graphs)
    return {name: func for name, func in graphs.items() if name not in inner} or graphs


def _entry(name: str, func: Function) -> Entry:
    rng = np.random.default_rng(0)
    arguments = list(made_up_inputs(name, func).values())
    nudged = [
        array * (1 + _NUDGE * rng.uniform(-1, 1, array.shape)).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for array in arguments
    ]
    return Entry(name, arguments, nudged)


def _expected(mod: IRModule, target: Target, entry: Entry) -> list[Expected]:
    """Return what a graph function gives when it is built without records."""
    function = _built(mod, target, OnlySome(_NOTHING, ()), entry.name)
    first, second = function(entry.arguments), function(entry.nudged)
    return [
        Expected.of(array, other, dtype, _rounding(dtype), is_exact=False)
        for (array, dtype), (other, _) in zip(first, second, strict=True)
    ]


def _why_wrong(
    mod: IRModule,
    target: Target,
    database: Schedules,
    entries: Sequence[Entry],
    expected: Sequence[Sequence[Expected]],
    calls: dict[str, Call],
) -> str | None:
    """Return how the results of a model are wrong with some schedules, None if they are right.

    `calls` gets the functions that were built, by name.
    """
    for entry, wanted in zip(entries, expected, strict=True):
        try:
            calls[entry.name] = _built(mod, target, database, entry.name)
            results = calls[entry.name](entry.arguments)
        except TensorIRError as error:
            return f"which cannot run: {error}"
        for place, ((array, dtype), one) in enumerate(zip(results, wanted, strict=True)):
            wrong = difference(array, dtype, one)
            if wrong is not None:
                return f"result {place} of {entry.name} is {wrong}"
    return None


def _built(mod: IRModule, target: Target, database: Schedules, name: str) -> Call:
    function = codegen.VirtualMachine(codegen.vm_build(mod, target, database=database))[name]
    return lambda arguments: [_typed(array) for array in arrays_in(function(*arguments))]


def _typed(array: Array) -> Typed:
    """Return an array as NumPy holds it, with its dtype."""
    if isinstance(array, codegen.BFloat16Array):
        return np.asarray(array.bits), array.dtype
    return array, DataType(str(array.dtype))


def _rounding(dtype: DataType) -> float:
    return _ROUNDING.get(str(dtype), _ROUNDING_OF_OTHERS)


class _Nothing:
    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> Mapping[str, PrimFunc]:
        return {}


_NOTHING: Final = _Nothing()
