"""Running and timing builds."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import codegen
from codegen import Target
from search.arg_info import ArgInfo, entry_name
from search.autotvm.errors import TemplateError
from search.autotvm.measure.measurement import BuildResult, MeasureInput, MeasureResult, SlowerThan
from search.builder.artifact_directory import ArtifactDirectory
from search.builder.builder import export_object
from search.records.measure_error_no import MeasureErrorNo
from search.runner import EvaluatorConfig, RunnerFuture, RunnerInput, RunnerResult
from search.runner import LocalRunner as RunnerProcess
from search.runner import Runner as ProgramRunner
from search.runner.argument_values import argument_values
from search.runner.arguments import Fill, as_numbers, random_arrays
from search.runner.check_results import REFERENCE_SUFFIX, Expected, Reference
from search.runner.program_facts import ProgramFacts
from search.runner.reference_program import reference_program
from tensorir.function import IRModule
from tensorir.nodes.stmt import BufferStore
from tensorir.rewriting.visit import walk

if TYPE_CHECKING:
    from search.autotvm.measure.builder import Builder, Built
    from search.autotvm.task import Task

_Started: TypeAlias = "tuple[Built, RunnerFuture | None]"
"""A build, and its measurement where there was something built."""
_MOST_ERROR_TEXT: Final = 1024


class Runner(ABC):
    """Measures the builds of a builder."""

    def set_task(self, task: Task) -> object:
        """Prepare for a task; what is returned is kept as long as its configurations are run."""
        self.task = task
        return None

    def get_build_kwargs(self) -> dict[str, Any]:
        """Return the options that the builder needs for the machine that its programs run on."""
        return {}

    @abstractmethod
    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Built]
    ) -> list[MeasureResult]:
        """Measure; one that fails costs nothing but its own result.

        A `MeasureResult` among the builds is the result of that configuration.
        """

    def each(
        self, measure_inputs: Sequence[MeasureInput], build_results: Iterable[Built]
    ) -> Iterator[MeasureResult]:
        """Yield the results of `run`, each as soon as it is there, where a runner can."""
        return iter(self.run(measure_inputs, list(build_results)))

    def builder_beside(self, builder: Builder) -> Builder:
        """Return the builder whose builds it measures where `builder` was asked for."""
        return builder

    def may_overlap(self, target: Target) -> bool:
        """Say whether measuring for `target` is not disturbed by builds that go on."""
        return False

    def close(self) -> None:
        """Give back what the runner holds; it can be used again."""


class TimingRunner(Runner):
    """Has configurations timed by a runner of the search, and makes costs of its times.

    Of more than two times of a configuration the lowest and the highest are dropped. With
    `end_hopeless`, one that is certainly slower than the best of the task is not timed in full.
    """

    def __init__(self, programs: ProgramRunner, *, end_hopeless: bool) -> None:
        self.programs = programs
        self.end_hopeless = end_hopeless
        self._reference: str | None = None
        self._facts: ProgramFacts | None = None
        self._best: float | None = None

    def set_task(self, task: Task) -> None:
        """Prepare for a task. TemplateError for a target that nothing here can run code for."""
        target = task.target or Target()
        reason = self.programs.why_not(target)
        if reason is not None:
            where = " on this machine" if self.programs.measures_here(target) else ""
            raise TemplateError(
                f"configurations for {task.target} cannot be measured{where}: {reason}"
            )
        self.task = task
        self._best = None
        self._facts = ProgramFacts.of(task.mod)

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Built]
    ) -> list[MeasureResult]:
        """Measure all."""
        return list(self.each(measure_inputs, build_results))

    def each(
        self, measure_inputs: Sequence[MeasureInput], build_results: Iterable[Built]
    ) -> Iterator[MeasureResult]:
        """Measure each when its result is asked for; all at once where there are many machines."""
        pairs = zip(measure_inputs, build_results, strict=True)
        started: Iterable[_Started] = (self._started(inp, built) for inp, built in pairs)
        if self.programs.takes_batches:
            started = list(started)
        for built, future in started:
            if isinstance(built, MeasureResult):
                yield built
            else:
                assert future is not None
                yield self._measured(built, future.result().checked())

    def _started(self, inp: MeasureInput, built: Built) -> _Started:
        if isinstance(built, MeasureResult):
            return built, None
        entry = RunnerInput(
            built.filename,
            inp.target.kind,
            [ArgInfo.from_json(info) for info in built.arg_info],
            self._reference,
            self._best if self.end_hopeless else None,
            self._facts,
        )
        (future,) = self.programs.run([entry])
        return built, future

    def _measured(self, built: BuildResult, result: RunnerResult) -> MeasureResult:
        spent = built.time_cost + result.seconds
        error_no = MeasureErrorNo.of_run(result)
        if result.run_secs is None:
            return MeasureResult.failed(
                error_no, (result.error_msg or "")[:_MOST_ERROR_TEXT], spent
            )
        if result.stopped:
            return MeasureResult.failed(error_no, SlowerThan(min(result.run_secs)), spent)
        costs = _without_extremes(result.run_secs)
        mean = sum(costs) / len(costs)
        self._best = mean if self._best is None else min(self._best, mean)
        return MeasureResult(costs, MeasureErrorNo.NO_ERROR, spent, time.time())

    def may_overlap(self, target: Target) -> bool:
        """Say whether configurations for `target` are not disturbed by builds on this machine."""
        return self.programs.may_overlap(target)

    def close(self) -> None:
        """Give back what the runner holds; the next run starts anew."""
        self.programs.close()


class LocalRunner(TimingRunner):
    """Runs configurations one after another in a process of this machine.

    After one call that does not count, each of `repeat` costs is the time per call of at least
    `number` calls that take at least `min_repeat_ms` milliseconds together; of more than two costs
    the lowest and the highest are dropped. `enable_cpu_cache_flush` drops the arguments but the
    first from the caches before each `number` calls. `timeout` are seconds for one configuration,
    whose process is killed then. Between two of them are `cooldown_interval` seconds at least, in
    which builds go on. AutoTVM's 0.1 is for boards that get hot: the times of a CPU that idles in
    between vary more.

    With `end_hopeless`, a configuration that is certainly slower than the best of the task is timed
    with fewer calls, and one whose first call takes 10 times as long (and 50 ms) is ended then: its
    result is a RUN_TIMEOUT that tells how long it takes at least. Without, each is timed in full,
    however slow.

    With `check_correctness` each configuration must compute what the unscheduled program does, but
    for rounding; or what `ref_func` says, which gets the arguments that the program reads and
    returns the one it writes, or a tuple of those, in their order: off by `atol` plus `rtol` times
    it at most. Set `ref_input` to a list of arrays to run on those; then nothing is checked.
    `module_loader` is None.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        module_loader: None = None,
        *,
        end_hopeless: bool = True,
        check_correctness: bool = False,
        ref_func: Callable[..., Any] | None = None,
        rtol: float = 1e-3,
        atol: float = 1e-5,
    ) -> None:
        if module_loader is not None:
            raise TemplateError(f"there are no module loaders, got {module_loader!r}")
        self.check_correctness = check_correctness or ref_func is not None
        self.ref_func = ref_func
        self.rtol = rtol
        self.atol = atol
        self.ref_input: Sequence[npt.NDArray[Any]] | None = None
        config = EvaluatorConfig(number, repeat, min_repeat_ms, enable_cpu_cache_flush)
        self._process = RunnerProcess(timeout, config, cooldown_interval)
        super().__init__(self._process, end_hopeless=end_hopeless)
        self._directory: ArtifactDirectory | None = None

    def set_task(self, task: Task) -> None:
        """Prepare for a task: give the right results of its configurations, if they are checked.

        TemplateError for a target that this machine cannot run code for.
        """
        super().set_task(task)
        self._reference = self._made_reference(task) if self.check_correctness else None
        allocate = None if self.ref_input is None else partial(_given, list(self.ref_input))
        self._process.f_alloc_argument = allocate

    def _made_reference(self, task: Task) -> str:
        self._directory = self._directory or ArtifactDirectory()
        folder = str(self._directory.path)
        if self.ref_func is not None:
            path = self._directory.path / f"{time.monotonic_ns()}{REFERENCE_SUFFIX}"
            _write_answers(path, task.mod, self.ref_func, self.rtol, self.atol)
            return str(path)
        return export_object(
            codegen.compile_object(reference_program(task.mod), task.target or Target()), folder
        )

    def close(self) -> None:
        """End the process and forget the reference; the next run starts anew."""
        super().close()
        if self._directory is not None:
            self._directory.remove()
            self._directory = None


def _without_extremes(costs: Sequence[float]) -> tuple[float, ...]:
    return tuple(costs) if len(costs) <= 2 else tuple(sorted(costs)[1:-1])


def _given(arrays: list[npt.NDArray[Any]], _: Any, __: Any, repeat: int) -> list[Any]:
    return [arrays] * repeat


def _write_answers(
    path: Path, mod: IRModule, ref_func: Callable[..., Any], rtol: float, atol: float
) -> None:
    """Write what a program has to compute of random arguments to a file, for a runner to check.

    `ref_func` gets the arguments that the program only reads, and returns what it writes: an array,
    or a tuple of several. Elements may be off by `atol` plus `rtol` times their size.
    TemplateError for answers of another number or shape.
    """
    func = mod.prim_func(entry_name(mod))
    stored = {node.buffer for node in walk(func.body) if isinstance(node, BufferStore)}
    written = [k for k, param in enumerate(func.params) if func.buffer_map.get(param) in stored]
    infos = ArgInfo.from_prim_func(func)
    fill = Fill(signed=True, values=argument_values(func))
    arrays = random_arrays(infos, 0, fill)
    read = [
        as_numbers(array, info.dtype)
        for k, (array, info) in enumerate(zip(arrays, infos, strict=True))
        if k not in written
    ]
    answers = ref_func(*read)
    if not isinstance(answers, tuple):
        answers = (answers,)
    shapes = [np.shape(answer) for answer in answers]
    wanted = [infos[k].shape for k in written]
    if shapes != wanted:
        raise TemplateError(
            f"ref_func returned arrays of the shapes {shapes}; the program writes {wanted}"
        )
    expected = {}
    for k, answer in zip(written, answers, strict=True):
        values = np.asarray(answer)
        expected[k] = Expected(values, atol + rtol * np.abs(values.astype(np.float64)))
    Reference(infos, fill, expected).save(path)
