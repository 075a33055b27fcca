"""Measurements as lines of a log: one JSON object each."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypeAlias

from search.autotvm.arguments import as_tuples
from search.autotvm.errors import TemplateError
from search.autotvm.measure.measurement import MeasureInput, MeasureResult, SlowerThan
from search.autotvm.space.entity import ConfigEntity
from search.autotvm.task import Task
from search.records.measure_error_no import MeasureErrorNo
from search.records.record_lines import LineError, costs_of_line, json_object, target_of_line
from tensorir.errors import TensorIRError

LOG_VERSION: Final = 0.2
_COST_OF_ERROR: Final = 1e9
_SLOWER_THAN: Final = "slower_than"

Record: TypeAlias = tuple[MeasureInput, MeasureResult]


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """Return a measurement as a line of a log, without its end.

    The texts of errors are not in it, but what a run takes at least that was ended early is, as a
    field that AutoTVM passes over. Only protocol `json` is written: data, which is never run.
    """
    check_protocol(protocol)
    failed = result.error_no != MeasureErrorNo.NO_ERROR
    costs = [_COST_OF_ERROR] if failed else [float(cost) for cost in result.costs]
    row = {
        "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
        "config": inp.config.to_json_dict(),
        "result": [costs, int(result.error_no), result.all_cost, result.timestamp],
        "version": LOG_VERSION,
        "tvm_version": _package_version(),
    }
    if result.slower_than is not None:
        row[_SLOWER_THAN] = result.slower_than
    return json.dumps(row)


def decode(row: str, protocol: str = "json") -> Record | None:
    """Return the measurement of a line.

    None for a line of log format 0.1, which AutoTVM does not read either. LineError, a ValueError,
    for one that was cut short, has another version, or holds something else.
    """
    check_protocol(protocol)
    fields = json_object(row)
    if fields.get("v", fields.get("version")) == 0.1:
        return None
    if "i" in fields:
        raise LineError("it is a line of Ansor; read the log by search.auto_scheduler")
    if fields.get("version") != LOG_VERSION:
        raise LineError(f"it has log version {fields.get('version')!r}, known is {LOG_VERSION}")
    try:
        target, name, args, _ = fields["input"]
        costs, error_no, all_cost, timestamp = fields["result"]
        costs = costs_of_line(costs)
        bound = fields.get(_SLOWER_THAN)
        result = MeasureResult(
            costs if bound is None else (SlowerThan(float(bound)),),
            MeasureErrorNo(error_no),
            float(all_cost),
            float(timestamp),
        )
        task = Task(_text(name), as_tuples(args))
        task.target = target_of_line(target)
        config = ConfigEntity.from_json_dict(fields["config"])
    except KeyError as error:
        raise LineError(f"it has no field {error}") from error
    except (TensorIRError, TypeError, ValueError, OverflowError) as error:
        raise LineError(str(error)) from error
    config.cost = sum(costs) / len(costs)
    return MeasureInput(task.target, task, config), result


def check_protocol(protocol: str) -> None:
    """Raise TemplateError for a protocol that is not written."""
    if protocol != "json":
        raise TemplateError(
            f"logs are written as 'json', not as {protocol!r}; reading pickles would run code"
        )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _package_version() -> str:
    try:
        return version("tensorir")
    except PackageNotFoundError:
        return "0"
