"""Measuring without running anything: results from a log or a function, to compare tuners on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from search.autotvm.errors import TemplateError
from search.autotvm.measure.builder import Builder, Built
from search.autotvm.measure.measurement import BuildResult, MeasureInput, MeasureResult
from search.autotvm.measure.option import MeasureOption
from search.autotvm.measure.runner import Runner

if TYPE_CHECKING:
    from search.autotvm.record import Record

Results: TypeAlias = Callable[[MeasureInput], MeasureResult]


class _NothingToBuild(Builder):
    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Built]:
        return [BuildResult("", (), None, 0.0) for _ in measure_inputs]


class _Answers(Runner):
    def __init__(self, results: Results) -> None:
        self._results = results

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Built]
    ) -> list[MeasureResult]:
        return list(map(self._results, measure_inputs))


def measured_by(results: Results) -> MeasureOption:
    """Return a measure option whose results a function makes up of inputs."""
    return {"builder": _NothingToBuild(), "runner": _Answers(results)}


def measured_from(records: Iterable[Record]) -> MeasureOption:
    """Return a measure option whose results are those of a log, of several the first.

    What is not in it raises TemplateError.
    """
    known: dict[str, MeasureResult] = {}
    for inp, result in records:
        known.setdefault(_key(inp), result)

    def result_of(inp: MeasureInput) -> MeasureResult:
        found = known.get(_key(inp))
        if found is None:
            raise TemplateError(f"the log has no measurement of {inp.config} of {inp.task}")
        return found

    return measured_by(result_of)


def _key(inp: MeasureInput) -> str:
    return json.dumps([inp.task.workload, inp.config.to_json_dict()["entity"]])
