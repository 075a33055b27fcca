"""The explanation of a log: its measurements as a table, the best of them, what matters."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from schedule import Schedule, Trace, TraceError
from search.analysis.resources import resources_of
from search.auto_scheduler.log.file import RecordReader, best_of_each, logger
from search.auto_scheduler.log.record import (
    MeasureInput,
    MeasureRecord,
    MeasureResult,
    dump_record_to_string,
    line_decoder,
)
from search.auto_scheduler.steps.step import KINDS
from search.database.records import FAILED
from search.errors import TuningError
from search.explanation.explanation import MOST_PROGRAMS, LogExplanation
from search.explanation.field import ERROR_MEANINGS, Field, utc
from search.explanation.table import STOPPED, LogTable, Measurement, spread_out
from search.measuring.flops import estimate_tir_flops
from search.records.measure_error_no import MeasureErrorNo
from search.records.record_lines import CountedLines, numbered_records
from search.spaces.decision_site import decision_columns
from search.spaces.design_space import DesignSpace
from tensorir.errors import TensorIRError


def explain_log(path: str | os.PathLike[str]) -> LogExplanation:
    """Return the explanation of a log; it prints, and in a notebook it shows tables.

    The line that it takes apart is the best, as `load_best_record` has it.
    `.table()` are the measurements, `.plot()` is a picture. Workloads that are registered here tell
    what the log does not: see `records_to_table`.

    OSError for a log that cannot be opened, TuningError for a directory and for a log in which no
    line is a record.
    """
    if os.path.isdir(path):
        raise TuningError(
            f"{os.fspath(path)} is a directory, and a log of Ansor is a file; what a run left in a "
            "directory is explained by search.autotvm.explain_log"
        )
    with open(os.fspath(path), encoding="utf-8", errors="replace") as file:
        lines = CountedLines(file)
        records = [record for _, record in numbered_records(lines, line_decoder(), logger)]
    if not records:
        raise TuningError(f"no line of {os.fspath(path)} is a record")
    best = min(best_of_each(records), key=_mean_seconds, default=records[0])
    table = records_to_table(records, MOST_PROGRAMS)
    return LogExplanation(path, table, list(_fields(best)), lines.count - len(records))


def records_to_table(
    log: str | os.PathLike[str] | Iterable[MeasureRecord], resources: bool | int = True
) -> LogTable:
    """Return the measurements of a log, or of records, as a table.

    The columns of knobs are what a trace decided, or the steps of Ansor. With `resources`, programs
    of workloads that are registered here are made again, a few milliseconds each: they tell what
    they take, and what the decisions of traces stand for. A number is the most that are made.
    """
    known = list(RecordReader(log) if isinstance(log, (str, os.PathLike)) else log)
    return LogTable.of(list(_measurements(known, spread_out(len(known), resources))))


def _measurements(records: Iterable[MeasureRecord], made: Container[int]) -> Iterator[Measurement]:
    flops: dict[str, float | None] = {}
    for place, record in enumerate(records):
        inp, result = record
        task = inp.task
        if task.workload_key not in flops:
            flops[task.workload_key] = _flop(inp)
        flop = flops[task.workload_key]
        sch = _schedule(inp) if place in made and flop is not None else None
        yield Measurement(
            task=str(task),
            target=str(task.target),
            index=None,
            knobs=_knobs(inp, sch),
            resources=None if sch is None else resources_of(sch.mod),
            flop=flop,
            cost=result.mean_cost if record.is_valid else None,
            slower_than=result.slower_than,
            error=_error_of(result),
            all_cost=result.all_cost,
            time=result.timestamp,
        )


def _mean_seconds(record: MeasureRecord) -> float:
    return record.mean_seconds


def _error_of(result: MeasureResult) -> str:
    return MeasureErrorNo(result.error_no).name if result.slower_than is None else STOPPED


def _flop(inp: MeasureInput) -> float | None:
    """Return the operations of a workload, None for one that is not registered here."""
    try:
        return estimate_tir_flops(inp.task.mod)
    except TensorIRError:
        return None


def _schedule(inp: MeasureInput) -> Schedule | None:
    """Return the schedule of a line, None for one that does not apply."""
    try:
        return inp.schedule()
    except TensorIRError:
        return None


def _knobs(inp: MeasureInput, sch: Schedule | None) -> Mapping[str, Any]:
    if inp.trace_json is None:
        return dict(_columns_of_steps(inp.rows))
    if sch is None:
        return {}
    space = DesignSpace.of(sch)
    return dict(decision_columns(space.sites, space.decisions))


def _columns_of_steps(rows: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield a column for each length of a split, and one for each other step.

    They are called after the code and the numbers that say where: `SP 2.0[1]` is the second part of
    the loop that stage 2 had at place 0.
    """
    for code, *values in rows:
        match code, values:
            case "SP", [stage, loop, _, [*lengths], inner]:
                first = 1 if inner else 0
                for k, length in enumerate(lengths, first):
                    yield f"SP {stage}.{loop}[{k}]", _cell(length)
            case "PR" | "AN", [stage, loop, mark]:
                text = str(mark).rpartition("$")[2]
                yield f"{code} {stage}.{loop}", int(text) if text.isdigit() else text
            case _, [stage, *rest]:
                yield f"{code} {stage}", _cell(rest[0] if len(rest) == 1 else rest)


def _cell(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else json.dumps(value)


def _fields(record: MeasureRecord) -> Iterator[Field]:
    """Yield the fields of the line of a record, with what they mean."""
    line = json.loads(dump_record_to_string(*record))
    (key, target, numbers, host, layout, inputs), (_, steps) = line["i"]
    costs, error_no, all_cost, timestamp = line["r"]
    option = record.input.task.layout_rewrite_option.name
    yield Field("i[0][0]", key, "the workload: a registered function, and what it is called with")
    yield Field("i[0][1]", target, "the target it was compiled for")
    yield Field("i[0][2]", json.dumps(numbers), "the machine: cores first; see HardwareParams")
    yield Field("i[0][3]", json.dumps(host), "the target of the host; empty for a CPU")
    yield Field("i[0][4]", str(layout), f"what may be done to layouts: {option}")
    yield Field("i[0][5]", json.dumps(inputs), "inputs that were given for measuring")
    if record.input.trace_json is not None:
        said = _said_of_trace(record.input.trace_json)
        yield Field("i[1][1]", f"TR: {said}", "the schedule; print_best prints it as Python")
    else:
        for k, step in enumerate(steps):
            yield Field(f"i[1][1][{k}]", json.dumps(step), _meaning_of_step(step[0]))
    meaning = (
        f"seconds per run, one for each repeat; the mean is {record.mean_seconds * 1e6:.1f} us"
    )
    if not record.is_valid:
        meaning = f"after an error there are no costs, and {FAILED:g} stands for them"
    yield Field("r[0]", json.dumps(costs), meaning)
    name = MeasureErrorNo(error_no).name
    meaning = ERROR_MEANINGS[_error_of(record.result)]
    yield Field("r[1]", str(error_no), f"{name}: {meaning}")
    yield Field("r[2]", f"{all_cost:.6g}", "wall time in seconds of building and running together")
    yield Field("r[3]", str(timestamp), f"when it ended: {utc(timestamp)}")
    yield Field("v", line["v"], "the version of this format")
    if record.result.slower_than is not None:
        meaning = "seconds that a run takes at least: it was ended early"
        yield Field("slower_than", f"{record.result.slower_than:.6g}", meaning)


def _said_of_trace(trace_json: Any) -> str:
    try:
        trace = Trace.from_json(trace_json)
    except TraceError as error:
        return f"a trace that cannot be read: {error}"
    return f"a trace of {len(trace.insts)} instructions and {len(trace.decisions)} decisions"


def _meaning_of_step(code: str) -> str:
    kind = KINDS.get(code)
    text = "" if kind is None else (kind.__doc__ or "").partition("\n")[0].rstrip(".")
    return text[:1].lower() + text[1:] or "a step that is not known"
