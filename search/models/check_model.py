"""The check that a tuned model computes the same results as the untuned model, except for rounding.

Each candidate was compared with the unscheduled program when it was measured. This check runs the
whole model on random inputs, built as a later build would.
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
from codegen import BFloat16Array, Target
from codegen.vm.build import as_looked_up
from search.database import Database
from search.database.records import FAILED
from search.errors import TuningError
from search.history.find_schedule import FoundSchedule, find_schedule
from search.history.size_records import SizedSchedule, find_schedules_of_sizes
from search.history.symbolic_sizes import open_sizes
from search.runner.arguments import FLOATS, check_memory
from search.runner.check_results import Expected, difference
from search.runner.time_call import time_text
from tensorir.arith import Analyzer
from tensorir.errors import TensorIRError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.relax.call_graph import names_of_callees
from tensorir.relax.expr import GraphVar
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.rewriting.visit import collect_vars, substitute

Array: TypeAlias = "NDArray[Any] | BFloat16Array"

_SIZE: Final = 4
"""The default of a symbolic size."""


def random_inputs(
    name: str,
    func: Function,
    given: Mapping[str, NDArray[Any]] | None = None,
    seed: int = 0,
    size: int = _SIZE,
) -> dict[str, NDArray[Any]]:
    """Return arrays for the parameters of a graph function: normal floats, integers 0 and 1.

    Arrays in `given` are used unchanged, and define symbolic sizes; other sizes are `size`. The
    same seed gives the same arrays. Raises TuningError for a parameter that is not an array of a
    known rank and dtype, or whose size cannot be derived.
    """
    rng = np.random.default_rng(seed)
    known = given or {}
    sizes: dict[Var, PrimExpr] = {}
    for param in func.arguments:
        info = param.struct_info
        if param.name in known and isinstance(info, TensorStructInfo):
            for extent, number in zip(info.shape or (), known[param.name].shape, strict=False):
                if isinstance(extent, Var):
                    sizes.setdefault(extent, const(number, extent.dtype))
    return {
        param.name: known[param.name]
        if param.name in known
        else _random(name, param, sizes, rng, size)
        for param in func.arguments
    }


def _random(
    function: str, param: GraphVar, sizes: dict[Var, PrimExpr], rng: np.random.Generator, size: int
) -> NDArray[Any]:
    info = param.struct_info
    cannot = f"parameter {param.name!r} of {function} cannot get random values"
    if not isinstance(info, TensorStructInfo) or info.shape is None or info.dtype is None:
        raise TuningError(f"{cannot}: it is {info}")
    shape = []
    for extent in info.shape:
        if isinstance(extent, Var):
            sizes.setdefault(extent, const(size, extent.dtype))
        known = Analyzer().simplify(substitute(extent, sizes))
        if not isinstance(known, IntImm):
            raise TuningError(f"{cannot}: it has the extent {extent}")
        shape.append(known.value)
    check_memory([(f"parameter {param.name!r} of {function}", shape, info.dtype)])
    if info.dtype not in FLOATS:
        return np.asarray(rng.integers(0, 2, shape), info.dtype.to_numpy())
    if str(info.dtype) == "bfloat16":
        raise TuningError(f"{cannot}: its dtype is bfloat16")
    return np.asarray(rng.standard_normal(shape), info.dtype.to_numpy())


def arrays_in(result: Any) -> list[Array]:
    """Return the arrays of a result, with the arrays of nested tuples in order."""
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in arrays_in(part)]
    return [result if isinstance(result, BFloat16Array) else np.asarray(result)]


_ROUNDING: Final = {"float16": 3e-2, "bfloat16": 1e-1}
_ROUNDING_OF_OTHERS: Final = 1e-3
"""The relative tolerance for an element of the result of a whole model."""
_NUDGE: Final = 1e-6
"""A relative change of the inputs, which shows how much the model amplifies rounding errors."""
_CALLS: Final = 5
_UNEXPLAINED: Final = 0.5
"""The maximum time of a call outside of its kernels, as a fraction of theirs, without a warning."""
_OF_A_CALL: Final = 1e-3
"""The seconds outside of the kernels that never cause a warning."""
_MOST_ROUNDS: Final = 4
"""The number of rounds with the next best records, after which all records of a function are
refused.
"""

Typed: TypeAlias = tuple[NDArray[Any], DataType]


@dataclass(frozen=True)
class Entry:
    """A graph function that is called from outside, with random arguments."""

    name: str
    arguments: list[NDArray[Any]]
    nudged: list[NDArray[Any]]
    """The arguments with slightly different floats."""


class OnlySome:
    """The schedules that a database has of the functions of some names."""

    def __init__(self, database: Database, names: Sequence[str]) -> None:
        self._database = database
        self._names = frozenset(names)

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> Mapping[str, PrimFunc]:
        """Return the scheduled forms of the functions that have one of the names."""
        wanted = {name: func for name, func in functions.items() if name in self._names}
        return self._database.schedules_of(wanted, target)


def refuse_wrong_schedules(
    mod: IRModule, database: Database, target: Target, logger: logging.Logger
) -> list[str]:
    """Compare a model with and without its schedules; return the functions that were refused.

    A function is refused if its best schedule changes results beyond rounding. Its record is
    committed again as a failed trial, so that no build uses it, and the next best record is
    compared as well. A warning names each refused function, or the reason for which the model
    cannot be compared: it has parameters that are not arrays, or does not run without records.
    """
    kernels = as_looked_up(mod).prim_funcs()
    found = {name: _schedules(database, func, target) for name, func in kernels.items()}
    tuned_sizes = {n for some in found.values() for one in some for n in one.sizes.values()}
    entries: list[Entry] = []
    expected: list[list[Expected]] = []
    untuned = OnlySome(database, ())
    for size in (_SIZE, *sorted(tuned_sizes - {_SIZE})):
        try:
            new = [_entry(name, func, size) for name, func in _entries(mod).items()]
            expected += [_expected_results(mod, target, untuned, entry) for entry in new]
            entries += new
        except TensorIRError as error:
            if entries:  # the model may have a maximum of the size
                logger.info("The tuned model is not compared for the size %d: %s", size, error)
                continue
            logger.warning("The tuned model is not compared with the untuned one: %s", error)
            return []
    refused: dict[str, None] = {}
    for round_number in range(_MOST_ROUNDS + 1):
        found = {name: _schedules(database, func, target) for name, func in kernels.items()}
        tuned = [name for name, schedules in found.items() if schedules]

        def why_wrong(names: Sequence[str]) -> str | None:
            return _reason_if_wrong(mod, target, OnlySome(database, names), entries, expected)

        wrong = _bisect(tuned, why_wrong)
        if not wrong:
            break
        for name, reason in wrong.items():
            refused[name] = None
            for one in found[name]:
                _refuse(database, one.found, everything=round_number == _MOST_ROUNDS)
            logger.warning(
                'The schedule of function "%s" is refused: with it the model computes other '
                "results, %s",
                name,
                reason,
            )
    if not refused:
        logger.info("The tuned model computes the same results as the untuned one")
    return list(refused)


def compare_call_with_kernels(
    mod: IRModule, database: Database, target: Target, kernels: float, logger: logging.Logger
) -> None:
    """Log the seconds of a call of a model with one entry next to the sum of its kernels.

    If they differ much, a warning is logged: the machine is busy, or other kernels are slow.
    Nothing is done for a model with symbolic sizes, whose kernels were measured for several sizes.
    """
    entries = _entries(mod)
    if len(entries) != 1:
        return
    ((name, func),) = entries.items()
    if any(collect_vars(param.struct_info) for param in func.arguments):
        return
    arguments = _entry(name, func).arguments
    executable = codegen.vm_build(mod, target, database=database)
    function = codegen.VirtualMachine(executable)[name]
    taken = []
    for _ in range(_CALLS):
        start = time.perf_counter()
        function(*arguments)
        taken.append(time.perf_counter() - start)
    call = statistics.median(taken)
    text = (
        f"A call of the tuned model takes {time_text(call)}, its tuned kernels alone "
        f"{time_text(kernels)}"
    )
    if call - kernels < max(_UNEXPLAINED * kernels, _OF_A_CALL):
        logger.info("%s", text)
    else:
        logger.warning(
            "%s: the machine is busy, or the rest of the call is in kernels that were not tuned "
            "(vm.profile lists them)",
            text,
        )


def _schedules(database: Database, func: PrimFunc, target: Target) -> list[SizedSchedule]:
    """Return the schedules that a database has of a function, by its symbolic sizes if any."""
    if open_sizes(func):
        return find_schedules_of_sizes(
            database, func, lambda static: find_schedule(database, static, target)
        )
    found = find_schedule(database, func, target)
    return [] if found is None else [SizedSchedule({}, found)]


def _bisect(
    names: Sequence[str], why_wrong: Callable[[Sequence[str]], str | None]
) -> dict[str, str]:
    """Return the functions whose schedules change results, each with a reason.

    If neither half of the functions is wrong alone, all of them are.
    """
    reason = why_wrong(names) if names else None
    if reason is None:
        return {}
    if len(names) == 1:
        return {names[0]: reason}
    middle = len(names) // 2
    halves = {**_bisect(names[:middle], why_wrong), **_bisect(names[middle:], why_wrong)}
    return halves or dict.fromkeys(names, f"together with others: {reason}")


def _refuse(database: Database, found: FoundSchedule, everything: bool) -> None:
    """Commit a record, or all records of its program, once more as failed trials."""
    records = [found.record]
    if everything:
        records = database.tuning_records_of(found.record.workload, found.record.target)
    for record in records:
        if record.is_valid:
            database.commit_tuning_record(replace(record, run_secs=(FAILED,)))


def _entries(mod: IRModule) -> dict[str, Function]:
    """Return the graph functions that no other one calls."""
    graphs = graph_functions(mod)
    inner = names_of_callees(graphs)
    return {name: func for name, func in graphs.items() if name not in inner} or graphs


def _entry(name: str, func: Function, size: int = _SIZE) -> Entry:
    rng = np.random.default_rng(0)
    arguments = list(random_inputs(name, func, size=size).values())
    nudged = [
        array * (1 + _NUDGE * rng.uniform(-1, 1, array.shape)).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for array in arguments
    ]
    return Entry(name, arguments, nudged)


def _expected_results(
    mod: IRModule, target: Target, untuned: OnlySome, entry: Entry
) -> list[Expected]:
    """Return the results of a graph function that is built without records."""
    first, second = _results(mod, target, untuned, entry.name, entry.arguments, entry.nudged)
    return [
        Expected.of(array, other, dtype, _rounding(dtype), is_exact=False)
        for (array, dtype), (other, _) in zip(first, second, strict=True)
    ]


def _reason_if_wrong(
    mod: IRModule,
    target: Target,
    database: OnlySome,
    entries: Sequence[Entry],
    expected: Sequence[Sequence[Expected]],
) -> str | None:
    """Return a reason if results of a model are wrong with some schedules, else None."""
    for entry, wanted in zip(entries, expected, strict=True):
        try:
            (results,) = _results(mod, target, database, entry.name, entry.arguments)
        except TensorIRError as error:
            return f"and it cannot run: {error}"
        for place, ((array, dtype), one) in enumerate(zip(results, wanted, strict=True)):
            wrong = difference(array, dtype, one)
            if wrong is not None:
                return f"result {place} of {entry.name} is {wrong}"
    return None


def _results(
    mod: IRModule, target: Target, database: OnlySome, name: str, *calls: Sequence[NDArray[Any]]
) -> list[list[Typed]]:
    """Build a model with some schedules, and return the results of calls of a function.

    The arguments are not changed, and each call starts with the initial state.
    """
    machine = codegen.VirtualMachine(codegen.vm_build(mod, target, database=database))
    function, results = machine.function(name), []
    for call in calls:
        function.reset_state()
        results.append([_typed(array) for array in arrays_in(function(*map(np.array, call)))])
    return results


def _typed(array: Array) -> Typed:
    """Return an array as NumPy holds it, with its dtype."""
    if isinstance(array, codegen.BFloat16Array):
        return np.asarray(array.bits), array.dtype
    return array, DataType(str(array.dtype))


def _rounding(dtype: DataType) -> float:
    return _ROUNDING.get(str(dtype), _ROUNDING_OF_OTHERS)
