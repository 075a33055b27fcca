"""The measuring of configurations: a builder and a runner at work, or made-up results."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from search.autotvm.errors import TemplateError
from search.autotvm.measure.builder import Builder, Built, LocalBuilder
from search.autotvm.measure.measurement import BuildResult, MeasureInput, MeasureResult
from search.autotvm.measure.runner import LocalRunner, Runner

if TYPE_CHECKING:
    from search.autotvm.record import Record
    from search.autotvm.task import Task


class MeasureOption(TypedDict):
    """The result of `measure_option`."""

    builder: Builder
    runner: Runner


def measure_option(
    builder: Literal["local"] | Builder, runner: Literal["local"] | Runner
) -> MeasureOption:
    """Return the builder and the runner to measure with; `"local"` is either with its defaults."""
    if builder == "local":
        builder = LocalBuilder()
    if runner == "local":
        runner = LocalRunner()
    for name, part, kind in (("builder", builder, Builder), ("runner", runner, Runner)):
        if not isinstance(part, kind):
            raise TemplateError(
                f"the {name} of measure_option is 'local', or an object like "
                f"autotvm.Local{name.capitalize()}(), got {part!r}"
            )
    return {"builder": builder, "runner": runner}


class MeasureBatch:
    """Measures configurations of one task: `batch(inputs)` returns their results.

    `option` is of `measure_option`; TemplateError for one without a builder or a runner.
    `n_parallel` is how many are built at once. `attach_objects` is what the runner wants kept.
    """

    def __init__(self, task: Task, option: Mapping[str, Any]) -> None:
        missing = {"builder", "runner"} - set(option)
        if missing:
            raise TemplateError(
                f"the option has no {' and no '.join(sorted(missing))}; make it with "
                "autotvm.measure_option(builder='local', runner='local')"
            )
        self._runner: Runner = option["runner"]
        self._builder: Builder = self._runner.builder_beside(option["builder"])
        self.attach_objects = self._runner.set_task(task)
        self._builder.set_task(task, self._runner.get_build_kwargs())
        self.n_parallel = self._builder.n_parallel

    def __call__(self, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """Return the results of all."""
        return list(self.each(inputs))

    def each(self, inputs: Sequence[MeasureInput]) -> Generator[MeasureResult]:
        """Yield the result of each as soon as it is there.

        All builds start at once, and go on beside the measurements where that does not disturb
        them. Whoever stops asking gives up the rest.
        """
        if not inputs:
            return
        overlaps = self._runner.may_overlap(inputs[0].target)
        try:
            builds = self._builder.start(inputs, overlaps)
            yield from self._runner.each(inputs, builds if overlaps else list(builds))
        finally:
            self._builder.clean_up()


create_measure_batch = MeasureBatch


class _NothingToBuild(Builder):
    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Built]:
        return [BuildResult("", (), None, 0.0) for _ in measure_inputs]


class _Answers(Runner):
    def __init__(self, results: Callable[[MeasureInput], MeasureResult]) -> None:
        self._results = results

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Built]
    ) -> list[MeasureResult]:
        return list(map(self._results, measure_inputs))


def measured_by(results: Callable[[MeasureInput], MeasureResult]) -> MeasureOption:
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
