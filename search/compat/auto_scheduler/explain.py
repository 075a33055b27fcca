"""The log format of Ansor for `search.explain`: trials, knobs, and the fields of the best line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from schedule import Schedule
from search.compat.auto_scheduler.records import LOGS, MeasureInput, MeasureRecord, best_of_each
from search.compat.auto_scheduler.steps import STEPS
from search.errors import TuningError
from search.reports.explain import LogExplanation
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
from search.space_generator.design_space import DesignSpace
from search.space_generator.knobs import decision_columns
from tensorir.errors import TensorIRError
from tensorir.paths import PathLike


class StepsLog(LogFormat):
    """A log in Ansor's format."""

    def recognises(self, path: Path) -> bool:
        """Return True if a line has an input, a result and a version."""
        return {"i", "r", "v"} <= first_fields(path).keys()

    def read(self, path: Path) -> Log:
        """Return the measurements, and the fields of the best line; TuningError without any."""
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
    """Return the explanation of a log of Ansor, with its best line field by field.

    `.table()` are the measurements; the columns of knobs are the decisions of a trace or the steps
    of Ansor. The programs of registered workloads, up to a thousand, are rebuilt for it, some
    milliseconds each. `search.explain` does the same for any log.

    Raises OSError for a log that cannot be opened, TuningError if no line is a record.
    """
    return LogExplanation(path, StepsLog().read(Path(path)))


def _trials(records: Sequence[MeasureRecord]) -> Iterator[Trial]:
    rebuilt = spread_out(len(records), MOST_PROGRAMS)
    flops: dict[str, float | None] = {}
    for number, (inp, result) in enumerate(records):
        task = inp.task
        if task.workload_key not in flops:
            flops[task.workload_key] = None
            with suppress(TensorIRError):  # The workload may be unknown here.
                flops[task.workload_key] = estimate_tir_flops(task.mod)
        flop = flops[task.workload_key]
        sch = None
        if number in rebuilt and flop is not None:
            with suppress(TensorIRError):  # The steps may not apply.
                sch = inp.schedule()
        yield trial_of_result(
            result,
            number,
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
    return dict(decision_columns(space.knobs, space.decisions))


def _columns_of_steps(rows: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield a column for each length of a split, and one for each other step.

    A name is the code and the position: `SP 2.0[1]` is the second part of loop 0 of stage 2.
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
    """Yield the fields of the line of a record, with their meanings."""
    inp, result = record
    meanings = (
        "the workload: a registered function and its arguments",
        "the target",
        "the machine: cores first; see HardwareParams",
        "the target of the host; empty for a CPU",
        f"the treatment of layouts: {inp.task.layout_rewrite_option.name}",
        "inputs that were given for measuring",
    )
    for k, (value, meaning) in enumerate(zip(inp.task.row(), meanings, strict=True)):
        yield Field(f"i[0][{k}]", value if isinstance(value, str) else json.dumps(value), meaning)
    if inp.trace_json is not None:
        yield Field("i[1][1]", "TR", "the schedule as a trace; print_best prints it as Python")
    else:
        for k, step in enumerate(inp.rows):
            text = (getattr(STEPS.get(step[0]), "__doc__", None) or "").partition("\n")[0]
            meaning = text[:1].lower() + text[1:].rstrip(".") or "an unknown step"
            yield Field(f"i[1][1][{k}]", json.dumps(step), meaning)
    row = [list(result.costs), int(result.error_no), result.all_cost, int(result.timestamp)]
    yield from fields_of_result("r", row, trial)
