"""Measuring configurations: the options of AutoTVM for the builder and the runner of the search."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

import numpy.typing as npt

import codegen
from codegen import Target
from search import builder as builders
from search import runner as runners
from search.builder import Builder, BuilderInput, BuilderResult
from search.compat.autotvm.config import ConfigEntity
from search.compat.autotvm.errors import TemplateError
from search.compat.autotvm.task import Task
from search.database.measure_error_no import MeasureErrorNo
from search.errors import TuningError
from search.runner import EvaluatorConfig, Runner, RunnerFuture, RunnerInput, RunnerResult
from search.runner.distributed import DaskBuilder, DaskRunner
from tensorir.function import IRModule

BuildFunction: TypeAlias = Callable[..., codegen.Module]

_MOST_ERROR_TEXT: Final = 1024


# ------------------------------------------------------------------------------- records of a log


class MeasureInput(NamedTuple):
    """A configuration of a task, to be measured for a target."""

    target: Target
    task: Task
    config: ConfigEntity


@dataclass(frozen=True)
class SlowerThan:
    """The cost of a configuration that was ended early: a run takes longer than `seconds`."""

    seconds: float

    def __str__(self) -> str:
        return (
            f"ended in its first call, which took longer than {self.seconds:.3g} s: it is not the "
            "best; LocalRunner(end_hopeless=False) times such ones too"
        )


class MeasureResult(NamedTuple):
    """The result of a measurement.

    `costs` are seconds per run, one for each repeat; after an error, its text: logs have [1e9]
    then. One that was ended early is a RUN_TIMEOUT whose cost is a `SlowerThan`. `all_cost` is the
    wall time in seconds of building and running together, `timestamp` the end of it in seconds
    since 1970.
    """

    costs: Sequence[Any]
    error_no: int
    all_cost: float
    timestamp: float

    def __repr__(self) -> str:
        return (
            f"MeasureResult(costs={self.costs}, error_no={MeasureErrorNo(self.error_no)!s}, "
            f"all_cost={self.all_cost}, timestamp={self.timestamp})"
        )

    @staticmethod
    def failed(
        error_no: MeasureErrorNo, reason: str | SlowerThan, all_cost: float = 0.0
    ) -> MeasureResult:
        """Return the result of a measurement that ended now with an error."""
        return MeasureResult((reason,), error_no, all_cost, time.time())

    @staticmethod
    def of_trial(build: BuilderResult, run: RunnerResult) -> MeasureResult:
        """Return the result of a trial of the search.

        Of more than two times the lowest and the highest are dropped.
        """
        if isinstance(run, _Known) and run.result is not None:
            return run.result
        spent = build.seconds + run.build_seconds + run.seconds
        if build.error_msg is not None:
            return MeasureResult.failed(MeasureErrorNo.of_build(build), build.error_msg, spent)
        error_no = MeasureErrorNo.of_run(run)
        if run.run_secs is None:
            text = (run.error_msg or "")[:_MOST_ERROR_TEXT]
            return MeasureResult.failed(error_no, text, spent)
        if run.stopped:
            return MeasureResult.failed(error_no, SlowerThan(min(run.run_secs)), spent)
        times = tuple(run.run_secs)
        costs = times if len(times) <= 2 else tuple(sorted(times)[1:-1])
        return MeasureResult(costs, MeasureErrorNo.NO_ERROR, spent, time.time())

    @property
    def mean_cost(self) -> float:
        """The mean of the costs in seconds, infinite after an error."""
        if self.error_no != MeasureErrorNo.NO_ERROR:
            return float("inf")
        return float(sum(self.costs) / len(self.costs))

    @property
    def slower_than(self) -> float | None:
        """A lower bound of the time of a run, in seconds, if it was ended early; else None."""
        known = self.costs[0] if self.costs else None
        return known.seconds if isinstance(known, SlowerThan) else None

    @property
    def least_cost(self) -> float:
        """The mean cost, or its lower bound: `slower_than`, infinite after other errors."""
        return self.mean_cost if self.slower_than is None else self.slower_than


Record: TypeAlias = tuple[MeasureInput, MeasureResult]


# ----------------------------------------------------------------------------- builder and runner


def build_with(
    build_func: str | BuildFunction, kwargs: Mapping[str, Any], error: type[TuningError]
) -> Callable[..., codegen.Module] | None:
    """Return the `f_build` of a builder that calls a function; None for the usual build.

    `build_func` is `"default"` or a function; `error` is raised for anything else.
    """
    if build_func == "default":
        if not kwargs:
            return None
        build_func = codegen.build
    if not callable(build_func):
        raise error(f"build_func is 'default' or a function of (mod, target), got {build_func!r}")
    return partial(_build, build_func, dict(kwargs))


def _build(
    function: BuildFunction, kwargs: Mapping[str, Any], mod: IRModule, target: Target, _: Any
) -> codegen.Module:
    return function(mod, target, **kwargs)


class LocalBuilder(builders.LocalBuilder):
    """Builds in `n_parallel` processes of this machine (None: one for each logical core).

    A template runs in this process; another process compiles its program and is killed after
    `timeout` seconds. `build_func(mod, target, **build_kwargs)` replaces `codegen.build`; it may be
    a function of a notebook or a script. `allow_externs` names the C functions that programs may
    call in addition to mathematical ones.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: Mapping[str, Any] | None = None,
        build_func: str | BuildFunction = "default",
        *,
        allow_externs: Collection[str] = (),
    ) -> None:
        super().__init__(
            max_workers=n_parallel,
            timeout_sec=timeout,
            f_build=build_with(build_func, build_kwargs or {}, TemplateError),
            allow_externs=allow_externs,
        )


class LocalRunner(runners.LocalRunner):
    """Runs configurations one after another in a process of this machine.

    After one call that does not count, each of `repeat` costs is the time per call of at least
    `number` calls that take at least `min_repeat_ms` milliseconds together; of more than two costs
    the lowest and the highest are dropped. `enable_cpu_cache_flush` drops the arguments but the
    first from the caches before each `number` calls. `timeout` are seconds for one configuration,
    whose process is killed then. Between two of them are `cooldown_interval` seconds at least, in
    which builds go on. AutoTVM's 0.1 is for boards that get hot: the times of a CPU that idles in
    between vary more.

    With `end_hopeless`, a configuration whose first call takes 10 times as long as the best (and
    50 ms) is ended then: its result is a RUN_TIMEOUT with a lower bound of its time. Without, each
    is timed in full, however slow.

    With `check_correctness` each configuration must compute what the unscheduled program does, but
    for rounding. `ref_input`, an array for each argument, replaces the random arguments.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        *,
        end_hopeless: bool = True,
        check_correctness: bool = False,
    ) -> None:
        config = EvaluatorConfig(number, repeat, min_repeat_ms, enable_cpu_cache_flush)
        super().__init__(timeout, config, cooldown_interval)
        self.end_hopeless = end_hopeless
        self.check_correctness = check_correctness
        self.ref_input: Sequence[npt.NDArray[Any]] | None = None

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Return futures that measure when their result is asked for."""
        wanted = partial(
            _wanted, end_hopeless=self.end_hopeless, check_correctness=self.check_correctness
        )
        return super().run(list(map(wanted, runner_inputs)))


class RPCRunner(DaskRunner):
    """Runs configurations on the machines of a Dask scheduler, many at the same time.

    `host` and `port` are the scheduler's, which replaces the tracker. `key` is a kind of machine as
    `tensorir worker` prints it, or a CPU model; None chooses the most frequent kind for the target
    (see `search.DaskRunner`). Machines build what they measure: templates run here, their programs
    travel as text. Of the builder of the option only the timeout counts.

    The other options are those of `LocalRunner`; credentials and `allow_externs` are those of a
    `search.DaskRunner`. TuningError if no scheduler answers.
    """

    def __init__(
        self,
        key: str | None,
        host: str,
        port: int,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        enable_cpu_cache_flush: bool = False,
        *,
        end_hopeless: bool = True,
        check_correctness: bool = False,
        allow_externs: Collection[str] = (),
    ) -> None:
        super().__init__(
            f"dask://{host}:{port}",
            timeout_sec=timeout,
            evaluator_config=EvaluatorConfig(number, repeat, min_repeat_ms, enable_cpu_cache_flush),
            machines=key,
            allow_externs=allow_externs,
        )
        self.end_hopeless = end_hopeless
        self.check_correctness = check_correctness

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Send candidates to the scheduler, which gives them to machines."""
        wanted = partial(
            _wanted, end_hopeless=self.end_hopeless, check_correctness=self.check_correctness
        )
        return super().run(list(map(wanted, runner_inputs)))


def _wanted(entry: RunnerInput, end_hopeless: bool, check_correctness: bool) -> RunnerInput:
    """Return the input of a run without the checks that the options leave out."""
    return replace(
        entry,
        best_seconds=entry.best_seconds if end_hopeless else None,
        ends_hopeless=entry.ends_hopeless and end_hopeless,
        reference_path=entry.reference_path if check_correctness else None,
    )


# --------------------------------------------------------------------------------- measure options


class MeasureOption(TypedDict):
    """The result of `measure_option`."""

    builder: Builder
    runner: Runner


def measure_option(
    builder: Literal["local"] | Builder, runner: Literal["local"] | Runner
) -> MeasureOption:
    """Return the builder and the runner to measure with; `"local"` is either with its defaults.

    Any builder and runner of the search will do. Where other machines build what they measure, the
    timeout of a `LocalBuilder` is the time that they have. TemplateError for one with functions of
    its own, which cannot travel.
    """
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
    if isinstance(runner, DaskRunner) and isinstance(builder, builders.LocalBuilder):
        if builder.f_build is not None:
            raise TemplateError(
                "with an RPCRunner the machines build what they measure, and functions cannot "
                "travel there: give autotvm.LocalBuilder() without build_func and build_kwargs; "
                "options of the code are those of the target, as in llvm -mcpu=... -opt-level=..."
            )
        builder = DaskBuilder(timeout_sec=builder.timeout_sec)
    return {"builder": builder, "runner": runner}


@dataclass(frozen=True)
class _Known(RunnerResult):
    """A result that was not measured now."""

    result: MeasureResult | None = None

    @staticmethod
    def of(result: MeasureResult) -> _Known:
        if result.error_no == MeasureErrorNo.NO_ERROR:
            return _Known(run_secs=tuple(map(float, result.costs)), result=result)
        if result.slower_than is not None:
            return _Known(run_secs=(result.slower_than,), stopped=True, result=result)
        text = f"{MeasureErrorNo(result.error_no)!s}: {'; '.join(map(str, result.costs))}"
        return _Known(error_msg=text, result=result)


class _NoBuilder(Builder):
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult(artifact_path="not built") for _ in build_inputs]

    def remove_artifact(self, path: str) -> None:
        pass


class Answers(Runner):
    """Takes the results of configurations from a function; a tuner sets the next `batch`."""

    takes_batches = True

    def __init__(self, results: Callable[[MeasureInput], MeasureResult]) -> None:
        self._results = results
        self.batch: Sequence[MeasureInput] = ()

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Return the results of the batch, each computed when it is asked for."""
        return [RunnerFuture.on_demand(partial(self._answer, inp)) for inp in self.batch]

    def _answer(self, inp: MeasureInput) -> RunnerResult:
        return _Known.of(self._results(inp))


def measured_by(results: Callable[[MeasureInput], MeasureResult]) -> MeasureOption:
    """Return a measure option whose results a function computes from inputs."""
    return {"builder": _NoBuilder(), "runner": Answers(results)}
