"""Initial schedules of a user, which a search measures first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from schedule import Instruction, Schedule, Trace
from search.errors import TuningError
from search.runner.measure_candidate import MeasureCandidate
from search.search_strategy.individual import Individual, trace_key
from search.search_strategy.trace_application import TraceApplication
from tensorir.errors import TensorIRError
from tensorir.function import IRModule

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.database.records import TuningRecord

InitialSchedule: TypeAlias = "Schedule | Trace | str | TuningRecord"
InitialSchedules: TypeAlias = "InitialSchedule | Sequence[InitialSchedule]"
"""Schedules of the program, traces, the JSON texts of traces, or records of a database."""

_NUMBERED: Final = re.compile(r"instruction (\d+): (.*)")
"""The text of a replay error that starts with the number of its instruction."""
_MAIN: Final = "main"
"""The name of the function of a task."""


def traces_that_replay(given: InitialSchedules, mod: IRModule, task_name: str) -> tuple[Trace, ...]:
    """Return the traces of initial schedules, replayed on the program of a task.

    In a trace of one function of a module, the name of the function is replaced. An empty trace is
    dropped, because every search measures the unscheduled program. TuningError, with the failing
    instruction, for a trace that does not replay, and for any other argument.
    """
    alone = isinstance(given, (str, Schedule, Trace)) or not isinstance(given, Sequence)
    listed: Sequence[Any] = [given] if alone else given  # type: ignore[assignment]
    traces = [_trace(one, f"initial_schedules[{k}]") for k, one in enumerate(listed)]
    return tuple(
        _checked_trace(trace, mod, task_name, k)
        for k, trace in enumerate(traces)
        if trace.instructions(remove_postproc=True)
    )


def initial_candidates(
    context: TuneContext, design_spaces: Sequence[Schedule], measured: Iterable[Trace]
) -> list[MeasureCandidate]:
    """Return the initial and default schedules of a task as candidates, without `measured` ones.

    A point of a design space is postprocessed like any other point. Any other schedule is measured
    unchanged. Raises TuningError for a point that the constraint of the task does not allow.
    """
    traces = [*context.initial_schedules, *context.default_traces]
    if not traces:
        return []
    application = TraceApplication(context)
    spaces = context.points_of(design_spaces)
    done = {trace_key(trace) for trace in measured}
    found: list[MeasureCandidate] = []
    for k, trace in enumerate(traces):
        if trace_key(trace) in done:
            continue
        done.add(trace_key(trace))
        individual = Individual.of_trace(trace, spaces)
        space = individual.space
        sch = None if space is None else application.apply(individual.trace)
        if sch is None or space is None:
            found.append(application.candidate(_applied(trace, application.mod)))
            continue
        assert individual.decisions is not None
        if space.admitted(individual.decisions) != individual.decisions:
            raise TuningError(f"initial_schedules[{k}] is refused by {context.constraint}")
        found.append(
            application.candidate(sch, space_index=space.index, decisions=individual.decisions)
        )
    return found


def _trace(given: object, which: str) -> Trace:
    if isinstance(given, Schedule):
        return given.trace
    if isinstance(given, Trace):
        return given
    if isinstance(given, str):
        try:
            return Trace.from_json(given)
        except TensorIRError as error:
            raise TuningError(
                f"{which} is not the JSON text of a trace: {error}; use Trace.load(path) for a "
                "file, Trace.from_python(text) for a script"
            ) from error
    trace = getattr(given, "trace", None)
    if isinstance(trace, Trace):
        return trace
    raise TuningError(
        f"{which} has the type {type(given).__name__}; pass a Schedule, a Trace, the JSON text of "
        "a trace or a record of a database"
    )


def _checked_trace(trace: Trace, mod: IRModule, task_name: str, place: int) -> Trace:
    trace = _on_main(trace)
    sch = Schedule(mod, seed=1, error_render_level="none")
    try:
        trace.apply_to_schedule(sch, remove_postproc=False)
    except TensorIRError as error:
        reason = str(error).strip().partition("\n")[0]
        told = _NUMBERED.fullmatch(reason)
        number, reason = (int(told[1]), told[2]) if told else (len(sch.trace.insts), reason)
        lines = trace.as_python()
        line = f", {lines[number]}" if len(lines) == len(trace.insts) else ""
        raise TuningError(
            f'initial_schedules[{place}] does not replay on the program of task "{task_name}": '
            f"instruction {number}{line}: {reason}"
        ) from error
    return sch.trace


def _applied(trace: Trace, mod: IRModule) -> Schedule:
    sch = Schedule(mod, seed=1, error_render_level="none")
    trace.apply_to_schedule(sch, remove_postproc=False)
    return sch


def _on_main(trace: Trace) -> Trace:
    """Return a trace with the function's name replaced by that of a task's function."""
    named: Mapping[Instruction, int] = {
        inst: [param.name for param in inst.kind.params].index("func_name")
        for inst in trace.insts
        if any(param.name == "func_name" for param in inst.kind.params)
    }
    functions = {inst.values[place] for inst, place in named.items()}
    if len(functions) != 1 or functions <= {_MAIN, None}:
        return trace
    renamed = {}
    for inst, place in named.items():
        values = list(inst.values)
        values[place] = _MAIN
        renamed[inst] = Instruction(inst.kind, values, inst.outputs)
    decisions = {renamed.get(inst, inst): decided for inst, decided in trace.decisions.items()}
    return Trace([renamed.get(inst, inst) for inst in trace.insts], decisions)
