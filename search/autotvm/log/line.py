"""One line of a log taken apart: what each field means, with its value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from search.autotvm.log.rows import flop_of
from search.autotvm.measure.measurement import MeasureInput, MeasureResult
from search.autotvm.space.entity import ConfigEntity
from search.autotvm.task import Task
from search.explanation.field import ERROR_MEANINGS, Field, utc
from search.explanation.table import STOPPED
from search.records.measure_error_no import MeasureErrorNo


def fields_of_record(text: str, inp: MeasureInput, result: MeasureResult) -> list[Field]:
    """Return the fields of a line of a log, which is the record of a measurement."""
    line = json.loads(text)
    target, name, args, kwargs = line["input"]
    config = line["config"]
    costs, error_no, all_cost, timestamp = line["result"]
    return [
        Field("input[0]", target, "the target it was compiled for"),
        Field("input[1]", name, "the name of the template"),
        Field("input[2]", json.dumps(args), "the arguments of the template"),
        Field("input[3]", json.dumps(kwargs), "arguments by name; AutoTVM leaves them empty"),
        Field("config.index", str(config["index"]), _index_meaning(inp.task, inp.config)),
        Field(
            "config.code_hash",
            json.dumps(config.get("code_hash")),
            "the hash of the code that the schedule was made for, if it states one",
        ),
        *_entities(inp.task, inp.config),
        Field("result[0]", json.dumps(costs), _costs_meaning(inp.task, result)),
        Field("result[1]", str(error_no), _error_meaning(result)),
        Field(
            "result[2]",
            f"{all_cost:.6g}",
            "wall time in seconds of building and running together; the log does not tell them "
            "apart",
        ),
        Field("result[3]", str(timestamp), f"when it ended: {utc(timestamp)}"),
        *_bound(result),
        Field("version", str(line["version"]), "the version of this format"),
        Field("tvm_version", str(line.get("tvm_version", "")), "the version of the writer"),
    ]


def _bound(result: MeasureResult) -> Iterator[Field]:
    """Yield the field of the least time of a configuration, if it was ended early."""
    if result.slower_than is not None:
        meaning = "seconds that a run takes at least: it was ended early"
        yield Field("slower_than", f"{result.slower_than:.6g}", meaning)


def _index_meaning(task: Task, config: ConfigEntity) -> str:
    space = task.known_space()
    if space is None:
        return "the number of the configuration; its template is not registered here"
    index = space.index_of(config.entity_map)
    if index != config.index:
        return (
            f"the number that the configuration had in the space it was taken from; here it has "
            f"{'none' if index is None else index}, and config.entity counts"
        )
    digits, weights = space.point2knob(index), [1]
    for dim in space.dims[:-1]:
        weights.append(weights[-1] * dim)
    terms = " + ".join(
        str(digit) if weight == 1 else f"{digit}*{weight}"
        for digit, weight in zip(digits, weights, strict=True)
    )
    return f"its number among {space.range_length}: {terms}, a digit for each knob"


def _entities(task: Task, config: ConfigEntity) -> Iterator[Field]:
    space = task.known_space()
    for k, (name, entity) in enumerate(config.entity_map.items()):
        code, value = entity.to_json()
        known = None if space is None else space.space_map.get(name)
        offers = "" if known is None else f"; one of {len(known)}"
        yield Field(
            f"config.entity[{k}]",
            json.dumps([name, code, value]),
            f"the knob {name!r}: {_KINDS[code](value)}{offers}",
        )


def _split_meaning(value: Any) -> str:
    inner = math.prod(value[1:])
    left = f", -1 being what is left of it divided by {inner}" if value[0] == -1 else ""
    return f"a loop split in {len(value)} parts, the outermost first{left}"


_KINDS: Final[dict[str, Callable[[Any], str]]] = {
    "sp": _split_meaning,
    "re": lambda value: f"loops reordered: first the one that was at place {value[0]}",
    "an": lambda value: f"what each of {len(value)} loops becomes",
    "ot": lambda value: f"an option, {value!r}",
}


def _costs_meaning(task: Task, result: MeasureResult) -> str:
    if result.error_no != MeasureErrorNo.NO_ERROR:
        return "after an error there are no costs, and 1e9 stands for them"
    count = len(result.costs)
    text = f"seconds per run, one number for each of {count} repeat{'s' if count > 1 else ''}"
    if count > 1:
        text += f"; they lie {max(result.costs) / min(result.costs) - 1:.1%} apart"
    text += f"; the mean is {result.mean_cost * 1e6:.1f} us"
    flop = flop_of(task)
    if flop:
        text += f", so {flop:.4g} operations run at {flop / result.mean_cost / 1e9:.1f} GFLOPS"
    return text


def _error_meaning(result: MeasureResult) -> str:
    name = MeasureErrorNo(result.error_no).name
    return f"{name}: {ERROR_MEANINGS[name if result.slower_than is None else STOPPED]}"
