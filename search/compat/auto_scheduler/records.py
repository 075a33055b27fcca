"""Logs of measurements in Ansor's format: their lines, their files, and their best records.

A line is `{"i": [task, [[], steps]], "r": [costs, error, all_cost, timestamp], "v": "v0.6"}` with
the task `[workload key, target, 8 numbers, host target, layout option, names of inputs]`.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from codegen import Target
from codegen.target import as_target
from schedule import Schedule, Trace
from search.compat.auto_scheduler.task import WorkloadTask
from search.compat.auto_scheduler.workloads import compatible_factor
from search.database.best_records import winner_first
from search.database.record_files import (
    LineError,
    MeasureErrorNo,
    RecordFiles,
    costs_of_line,
    json_object,
)
from search.database.records import FAILED, digest
from search.database.target_key import target_key
from search.errors import TuningError
from tensorir.errors import TensorIRError
from tensorir.paths import PathLike

logger = logging.getLogger("auto_scheduler")

LOG_VERSION: Final = "v0.6"
_READ: Final = tuple(f"v0.{minor}" for minor in range(7))
_LONGEST_ERROR: Final = 512
_SLOWER_THAN: Final = "slower_than"

_TRACE: Final = "TR"
"""The code of the step that is a whole schedule: the JSON of its trace."""


class MeasureInput:
    """A schedule of a task, or its trace.

    `text` is the transform steps as JSON. `state` is None for an input that was read from a log;
    `recover_measure_input` applies its steps.
    """

    def __init__(
        self, task: WorkloadTask, state: Schedule | Trace | None, text: str | None = None
    ) -> None:
        if text is None:
            trace = state.trace if isinstance(state, Schedule) else state
            if not isinstance(trace, Trace):
                raise TuningError(f"a state is a Schedule or a Trace, got {type(trace).__name__}")
            text = json.dumps([[_TRACE, trace.as_json()]])
        self.task = task
        self.state = state
        self.text = text

    @property
    def rows(self) -> list[Any]:
        """The transform steps in the form of a log; a trace is one step."""
        return list(json.loads(self.text))

    @property
    def trace_json(self) -> Any:
        """The JSON form of the trace, None for steps of Ansor."""
        match self.rows:
            case [[code, trace]] if code == _TRACE:
                return trace
        return None

    def schedule(self) -> Schedule:
        """Apply the steps to the program of the task, and rewrite layouts by its option.

        Raises TuningError for an unknown workload, TensorIRError for steps that do not apply.
        """
        trace = self.trace_json
        if trace is not None:
            sch = Schedule(self.task.mod)
            Trace.from_json(trace).apply_to_schedule(sch, remove_postproc=False)
            return sch
        if self.task.compute_dag is None:
            raise TuningError(
                f"the workload {self.task} is a program; steps of Ansor apply to tensors only"
            )
        option = self.task.layout_rewrite_option
        return self.task.compute_dag.schedule(self.rows, layout_rewrite=option)

    def __repr__(self) -> str:
        return f"MeasureInput({self.task!r}, {len(self.rows)} step(s))"


class MeasureResult(NamedTuple):
    """The result of a measurement.

    `costs` are seconds per run, one for each repeat, [1e10] after an error; logs have no
    `error_msg`. `all_cost` is the wall time of building and running in seconds, `timestamp` its end
    in seconds since 1970. A candidate that was ended early, because it cannot be the best, is a
    RUN_TIMEOUT with a lower bound of its seconds in `slower_than`.
    """

    costs: Sequence[float]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float
    slower_than: float | None = None

    @staticmethod
    def now(
        costs: Sequence[float],
        error_no: int = MeasureErrorNo.NO_ERROR,
        text: str = "",
        all_cost: float = 0.0,
        slower_than: float | None = None,
    ) -> MeasureResult:
        """Return the result of a measurement that ended now; error messages are cut at 512."""
        kept = tuple(costs) if error_no == MeasureErrorNo.NO_ERROR else (FAILED,)
        return MeasureResult(
            kept, error_no, text[:_LONGEST_ERROR], all_cost, time.time(), slower_than
        )

    @property
    def mean_cost(self) -> float:
        """The mean of the costs in seconds, infinite after an error."""
        if self.error_no != MeasureErrorNo.NO_ERROR:
            return math.inf
        return float(sum(self.costs) / len(self.costs))


class MeasureRecord(NamedTuple):
    """A line of a log, which unpacks into input and result."""

    input: MeasureInput
    result: MeasureResult

    @property
    def target(self) -> Target:
        """The target of the task."""
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
        """16 bytes that identify the steps and the layout option of a record."""
        inp = self.input
        return digest(f"{inp.task.layout_rewrite_option:d} {inp.text}".encode())


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """Return an input of a log with its program, and on request with its state, a `Schedule`.

    Raises TuningError for an unknown workload, TensorIRError for steps that do not apply.
    """
    inp.task.mod  # noqa: B018 - raises for an unknown workload
    if not rebuild_state or inp.state is not None:
        return inp
    return MeasureInput(inp.task, inp.schedule(), inp.text)


# ------------------------------------------------------------------------------------------- lines


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """Return a measurement as a line of a log, without its end.

    Lines with a trace have the field `slower_than` if the result has one. Lines with steps of Ansor
    omit this field, since Ansor refuses lines with additional fields.
    """
    failed = res.error_no != MeasureErrorNo.NO_ERROR
    costs = [FAILED] if failed else [float(cost) for cost in res.costs]
    row: dict[str, Any] = {
        "i": [inp.task.row(), [[], inp.rows]],
        "r": [costs, int(res.error_no), float(res.all_cost), int(res.timestamp)],
        "v": LOG_VERSION,
    }
    if res.slower_than is not None and inp.trace_json is not None:
        row[_SLOWER_THAN] = float(res.slower_than)
    return json.dumps(row)


def load_record_from_string(record: str) -> MeasureRecord:
    """Return the measurement of a line; LineError, a ValueError, for a malformed one.

    Its workload need not be registered, and its steps are not applied.
    """
    return _line_decoder()(record)


def _line_decoder() -> Callable[[str], MeasureRecord]:
    """Return `load_record_from_string` for the lines of one log, which share their tasks."""
    tasks: dict[str, WorkloadTask] = {}

    def decode(line: str) -> MeasureRecord:
        fields = json_object(line)
        if "input" in fields:
            raise LineError("it is a line of AutoTVM; read the log by search.compat.autotvm.record")
        if fields.get("v") not in _READ:
            raise LineError(
                f"unknown log version {fields.get('v')!r}; expected {LOG_VERSION} or earlier"
            )
        try:
            task_row, (_, steps) = fields["i"]
            key = json.dumps(task_row)
            if key not in tasks:
                tasks[key] = WorkloadTask(*task_row)
            costs, error_no, all_cost, timestamp = fields["r"]
            bound = fields.get(_SLOWER_THAN)
            result = MeasureResult(
                costs_of_line(costs),
                MeasureErrorNo(error_no),
                "",
                float(all_cost),
                int(timestamp),
                None if bound is None else float(bound),
            )
        except KeyError as error:
            raise LineError(f"the field {error} is missing") from error
        except (TensorIRError, TypeError, ValueError, OverflowError) as error:
            raise LineError(str(error)) from error
        if not isinstance(steps, list) or not all(map(_is_step, steps)):
            raise LineError('its steps are not lists that begin with a code, such as ["SP", ...]')
        return MeasureRecord(MeasureInput(tasks[key], None, json.dumps(steps)), result)

    return decode


def _is_step(row: Any) -> bool:
    return isinstance(row, list) and bool(row) and isinstance(row[0], str)


# ------------------------------------------------------------------------------------------- files


def _no_log(given: object) -> TuningError:
    return TuningError(
        f"a log is a path or records (MeasureInput, MeasureResult), got {type(given).__name__}"
    )


LOGS: Final[RecordFiles[MeasureRecord]] = RecordFiles(
    _line_decoder, dump_record_to_string, (MeasureInput, MeasureResult), _no_log, logger
)


class RecordReader:
    """The records of a log, read again by each iteration.

    Malformed lines are skipped, and one warning names them. Raises OSError for a log that cannot be
    opened.
    """

    def __init__(self, filename: PathLike) -> None:
        self.filename = os.fspath(filename)

    def __iter__(self) -> Iterator[MeasureRecord]:
        return LOGS.load(self.filename)

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Return the inputs and the results of at most `max_lines` records after `skip_lines`."""
        limit = None if max_lines is None or max_lines < 0 else skip_lines + max_lines
        records = list(islice(self, skip_lines, limit))
        return [record.input for record in records], [record.result for record in records]


def load_records(filename: PathLike) -> Iterator[MeasureRecord]:
    """Yield the (input, result) of a log; see `RecordReader`."""
    return LOGS.load(filename)


def save_records(
    filename: PathLike, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
) -> None:
    """Append measurements to a log, each line in one write."""
    if len(inputs) != len(results):
        raise TuningError(f"got {len(inputs)} inputs but {len(results)} results")
    LOGS.append(filename, zip(inputs, results, strict=True))


def load_best_record(
    filename: PathLike,
    workload_key: str | None = None,
    target: str | Target | None = None,
    include_compatible: bool = False,
) -> tuple[MeasureInput, MeasureResult] | tuple[None, None]:
    """Return the best valid record of a log, (None, None) without one.

    Without a key, records of all workloads compete. As in Ansor, `target` selects its kind only.
    With `include_compatible`, records of compatible workloads compete with their time multiplied by
    `compatible_factor`.
    """
    kind = None if target is None else as_target(target).kind
    expected: dict[float, MeasureRecord] = {}
    for record in best_of_each(load_records(filename)):
        found = record.input.task.workload_key
        factor: float | None = 1.0
        if workload_key not in (None, found):
            assert workload_key is not None
            factor = compatible_factor(workload_key, found) if include_compatible else None
        if factor is not None and kind in (None, record.target.kind):
            expected.setdefault(record.mean_seconds * factor, record)
    return expected[min(expected)] if expected else (None, None)


def distill_record_file(in_file: PathLike, out_file: PathLike) -> int:
    """Write the best record of each workload and target of a log to a file; return their number.

    The records of an existing file compete. The file is replaced in one step.
    """
    kept, given = LOGS.reduce(in_file, out_file, best_of_each)
    logger.info("kept %d best record(s) of %d in %s", kept, given, out_file)
    return kept


def best_of_each(records: Iterable[MeasureRecord]) -> Iterator[MeasureRecord]:
    """Yield the best valid record of each workload and target; see `best_first`."""
    return (record for group in best_first(records) for record in group[:1])


def best_first(records: Iterable[MeasureRecord]) -> Iterator[list[MeasureRecord]]:
    """Yield the valid records of each workload and target, best first; see `winner_first`."""
    groups: dict[tuple[str, str], list[MeasureRecord]] = {}
    for record in records:
        key = (record.input.task.workload_key, target_key(record.target))
        groups.setdefault(key, []).append(record)
    return map(winner_first, groups.values())
