"""Logs of Ansor as tables and explanations: their measurements, the best of them, what matters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from schedule import Schedule, Trace, TraceError
from search.compat.auto_scheduler.records import (
    LOGS,
    MeasureInput,
    MeasureRecord,
    best_of_each,
    dump_record_to_string,
)
from search.compat.auto_scheduler.steps import STEPS
from search.errors import TuningError
from search.lines import PathLike
from search.reports.explanation import LogExplanation
from search.reports.log_format import (
    MOST_PROGRAMS,
    Field,
    Log,
    LogFormat,
    fields_of_result,
    first_fields,
    spread_out,
    trial_of_result,
)
from search.reports.resources import resources_of
from search.reports.trial import Trial
from search.runner.flops import estimate_tir_flops
from search.space_generator.decision_site import decision_columns
from search.space_generator.design_space import DesignSpace
from tensorir.errors import TensorIRError


class StepsLog(LogFormat):
    """A log in Ansor's format."""

    def recognises(self, path: Path) -> bool:
        """Say whether a line has an input, a result and a version."""
        return {"i", "r", "v"} <= first_fields(path).keys()

    def read(self, path: Path) -> Log:
        """Return the measurements; TuningError if no line is a record.

        The line that is taken apart is the best, as `load_best_record` has it.
        """
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = LOGS.lines(file)
            records = [record for _, record in lines]
        if not records:
            raise TuningError(f"no line of {path} is a record")
        trials = list(_trials(records))
        best = min(best_of_each(records), key=lambda one: one.mean_seconds, default=records[0])
        trial = next(one for one, record in zip(trials, records, strict=True) if record is best)
        return Log(trials, list(_fields(best, trial)), lines.left_out)


def explain_log(path: PathLike) -> LogExplanation:
    """Return the explanation of a log; it prints, and in a notebook it shows tables.

    The line that it takes apart is the best, as `load_best_record` has it. `.plot()` is a picture,
    `.table()` are the measurements: the columns of knobs are what a trace decided, or the steps of
    Ansor. Programs of workloads that are registered here are made again, some milliseconds each, of
    a thousand at most: they tell what they take, and what the decisions of traces stand for.

    OSError for a log that cannot be opened, TuningError if no line is a record.
    """
    return LogExplanation(path, StepsLog().read(Path(path)))


def _trials(records: Sequence[MeasureRecord]) -> Iterator[Trial]:
    made = spread_out(len(records), MOST_PROGRAMS)
    flops: dict[str, float | None] = {}
    for place, (inp, result) in enumerate(records):
        task = inp.task
        if task.workload_key not in flops:
            flops[task.workload_key] = None  # of one that is not registered here
            with suppress(TensorIRError):
                flops[task.workload_key] = estimate_tir_flops(task.mod)
        flop = flops[task.workload_key]
        sch = None
        if place in made and flop is not None:
            with suppress(TensorIRError):  # Its steps may not apply.
                sch = inp.schedule()
        yield trial_of_result(
            result,
            place,
            task=str(task),
            target=str(task.target),
            knobs=_knobs(inp, sch),
            resources=None if sch is None else resources_of(sch.mod),
            flop=flop,
        )


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


def _fields(record: MeasureRecord, trial: Trial) -> Iterator[Field]:
    """Yield the fields of the line of a record, with what they mean."""
    line = json.loads(dump_record_to_string(*record))
    (key, target, numbers, host, layout, inputs), (_, steps) = line["i"]
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
    yield from fields_of_result("r", line["r"], trial)
    yield Field("v", line["v"], "the version of this format")


def _said_of_trace(trace_json: Any) -> str:
    try:
        trace = Trace.from_json(trace_json)
    except TraceError as error:
        return f"a trace that cannot be read: {error}"
    return f"a trace of {len(trace.insts)} instructions and {len(trace.decisions)} decisions"


def _meaning_of_step(code: str) -> str:
    text = (getattr(STEPS.get(code), "__doc__", None) or "").partition("\n")[0].rstrip(".")
    return text[:1].lower() + text[1:] or "a step that is not known"
