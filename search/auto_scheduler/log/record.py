"""The input and the result of a measurement, and the line of a log that records both.

`{"i": [task, [[], steps]], "r": [costs, error, all_cost, timestamp], "v": "v0.6"}` with the task
`[workload key, target, 8 numbers, host target, layout option, names of inputs]`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from codegen import Target
from schedule import Schedule, Trace
from search.auto_scheduler.search_task import SearchTask
from search.auto_scheduler.steps.compute_dag import ComputeDAG
from search.auto_scheduler.steps.state import State
from search.auto_scheduler.steps.step import TraceStep
from search.database.records import FAILED, digest
from search.errors import TuningError
from search.records.measure_error_no import MeasureErrorNo
from search.records.record_lines import LineError, costs_of_line, json_object
from tensorir.errors import TensorIRError

LOG_VERSION: Final = "v0.6"
_READ: Final = tuple(f"v0.{minor}" for minor in range(7))
_MOST_OF_ERROR: Final = 512
_SLOWER_THAN: Final = "slower_than"


@dataclass(frozen=True)
class LoggedSteps:
    """The transform steps of a line as JSON; nothing was applied.

    As text they take a tenth of the memory, and a log of traces has many.
    """

    text: str


AnyState: TypeAlias = State | Schedule | Trace | LoggedSteps


class MeasureInput:
    """A schedule of a task: an Ansor state, or a schedule of this project or its trace.

    What was read from a log has `LoggedSteps`; `recover_measure_input` applies them.
    """

    def __init__(self, task: SearchTask, state: AnyState) -> None:
        if not isinstance(state, (State, Schedule, Trace, LoggedSteps)):
            raise TuningError(
                f"a measurement is of a State, a Schedule or a Trace, got {type(state).__name__}"
            )
        self.task = task
        self.state = state

    @property
    def rows(self) -> list[Any]:
        """The transform steps as a log has them; a trace is one step."""
        state = self.state
        if isinstance(state, LoggedSteps):
            return list(json.loads(state.text))
        if isinstance(state, Schedule):
            state = state.trace
        if isinstance(state, Trace):
            return [TraceStep(state.as_json()).as_json()]
        return [step.as_json() for step in state.transform_steps]

    @property
    def text(self) -> str:
        """The transform steps as JSON."""
        state = self.state
        return state.text if isinstance(state, LoggedSteps) else json.dumps(self.rows)

    def schedule(self) -> Schedule:
        """Apply the steps to the program of the task, and rewrite layouts as its option says.

        TuningError for an unknown workload or steps that cannot be applied, ScheduleError or
        TraceError for a trace that cannot.
        """
        rows = self.rows
        trace = _trace_of(rows)
        if trace is not None:
            sch = Schedule(self.task.mod)
            Trace.from_json(trace).apply_to_schedule(sch, remove_postproc=False)
            return sch
        option = self.task.layout_rewrite_option
        return _dag_of(self.task).schedule(rows, layout_rewrite=option)

    @property
    def trace_json(self) -> Any:
        """The JSON form of the trace, None where there are steps of Ansor."""
        return _trace_of(self.rows)

    def __repr__(self) -> str:
        return f"MeasureInput({self.task!r}, {len(self.rows)} step(s))"


class MeasureResult(NamedTuple):
    """The result of a measurement.

    `costs` are seconds per run, one for each repeat, [1e10] after an error; `error_msg` is not
    logged. `all_cost` is the wall time in seconds that building and running took together,
    `timestamp` the end of it in seconds since 1970. A candidate that was ended early, being sure
    not to be the best, is a RUN_TIMEOUT with the seconds that a run takes at least as
    `slower_than`.
    """

    costs: Sequence[float]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float
    slower_than: float | None = None

    @staticmethod
    def failed(error_no: MeasureErrorNo, text: str, all_cost: float = 0.0) -> MeasureResult:
        """Return the result of a measurement that ended now with an error; texts are cut at 512."""
        return MeasureResult((FAILED,), error_no, text[:_MOST_OF_ERROR], all_cost, time.time())

    @property
    def mean_cost(self) -> float:
        """The mean of the costs in seconds, infinite after an error."""
        if self.error_no != MeasureErrorNo.NO_ERROR:
            return math.inf
        return float(sum(self.costs) / len(self.costs))


class MeasureRecord(NamedTuple):
    """A line of a log: what was measured, and what that gave. It unpacks into the two."""

    input: MeasureInput
    result: MeasureResult

    @property
    def target(self) -> Target:
        """The target that it was measured for."""
        return self.input.task.target

    @property
    def is_valid(self) -> bool:
        """True if it ran."""
        return self.result.error_no == MeasureErrorNo.NO_ERROR

    @property
    def run_secs(self) -> tuple[float, ...]:
        """Seconds per run; 1e10 after an error."""
        return tuple(self.result.costs) if self.is_valid else (FAILED,)

    @property
    def mean_seconds(self) -> float:
        """The mean of `run_secs`."""
        return sum(self.run_secs) / len(self.run_secs)

    @property
    def trace_key(self) -> bytes:
        """16 bytes that records of a workload share if they are of the same program."""
        inp = self.input
        return digest(f"{inp.task.layout_rewrite_option:d} {inp.text}".encode())


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """Return an input of a log with its task made whole, on request with the state rebuilt.

    The rebuilt state is a `State` of the task's DAG, or the `Trace` that the log has. TuningError
    for a workload that is not registered, or steps that do not apply.
    """
    inp.task.mod  # noqa: B018 - a workload that is not known is refused here
    if not rebuild_state or not isinstance(inp.state, LoggedSteps):
        return inp
    if inp.trace_json is not None:
        return MeasureInput(inp.task, Trace.from_json(inp.trace_json))
    return MeasureInput(inp.task, _dag_of(inp.task).state(inp.rows))


def _trace_of(rows: list[Any]) -> Any:
    """Return the JSON form of the trace that transform steps are, None for steps of Ansor."""
    match rows:
        case [[TraceStep.code, trace]]:
            return trace
    return None


def _dag_of(task: SearchTask) -> ComputeDAG:
    if task.compute_dag is None:
        raise TuningError(
            f"the workload {task} is a program, not tensors: steps of Ansor do not apply to it, "
            "only traces do"
        )
    return task.compute_dag


# ------------------------------------------------------------------------------------------- lines


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """Return a measurement as a line of a log, without its end.

    What a run takes at least that was ended early is a field of its own, `slower_than`. A line with
    steps of Ansor does without it, since Ansor refuses a log with a field that it does not know.
    """
    task = inp.task
    failed = res.error_no != MeasureErrorNo.NO_ERROR
    costs = [FAILED] if failed else [float(cost) for cost in res.costs]
    rows = inp.rows
    task_row = [
        task.workload_key,
        str(task.given_target),
        task.hardware_params.as_numbers(),
        task.target_host,
        int(task.layout_rewrite_option),
        list(task.task_input_names),
    ]
    row: dict[str, Any] = {
        "i": [task_row, [[], rows]],
        "r": [costs, int(res.error_no), float(res.all_cost), int(res.timestamp)],
        "v": LOG_VERSION,
    }
    if res.slower_than is not None and _trace_of(rows) is not None:
        row[_SLOWER_THAN] = float(res.slower_than)
    return json.dumps(row)


def load_record_from_string(record: str) -> MeasureRecord:
    """Return the measurement of a line; LineError, a ValueError, if it is none.

    No workload needs to be registered for it, and no step is applied.
    """
    return line_decoder()(record)


def line_decoder() -> Callable[[str], MeasureRecord]:
    """Return `load_record_from_string` for the lines of one log, which share their tasks."""
    tasks: dict[str, SearchTask] = {}

    def decode(line: str) -> MeasureRecord:
        fields = json_object(line)
        if "input" in fields:
            raise LineError("it is a line of AutoTVM; read the log by search.autotvm.record")
        if fields.get("v") not in _READ:
            raise LineError(
                f"its log version is {fields.get('v')!r}; this package reads {LOG_VERSION} and "
                "earlier"
            )
        try:
            task_row, (_, steps) = fields["i"]
            key = json.dumps(task_row)
            if key not in tasks:
                tasks[key] = SearchTask.of_log(*task_row)
            costs, error_no, all_cost, timestamp = fields["r"]
            result = MeasureResult(
                costs_of_line(costs),
                MeasureErrorNo(error_no),
                "",
                float(all_cost),
                int(timestamp),
                None if (bound := fields.get(_SLOWER_THAN)) is None else float(bound),
            )
        except KeyError as error:
            raise LineError(f"it has no field {error}") from error
        except (TensorIRError, TypeError, ValueError, OverflowError) as error:
            raise LineError(str(error)) from error
        if not isinstance(steps, list) or not all(map(_is_step, steps)):
            raise LineError('its steps are not lists that begin with a code, such as ["SP", ...]')
        return MeasureRecord(MeasureInput(tasks[key], LoggedSteps(json.dumps(steps))), result)

    return decode


def _is_step(row: Any) -> bool:
    return isinstance(row, list) and bool(row) and isinstance(row[0], str)
