"""Measuring configurations: AutoTVM's options for the builder and the runner of the search."""

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
from search.database.record_files import MeasureErrorNo
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
            f"ended in its first call after {self.seconds:.3g} s, as it cannot be the best; "
            "LocalRunner(end_hopeless=False) measures such configurations too"
        )


class MeasureResult(NamedTuple):
    """The result of a measurement.

    `costs` are seconds per run, one for each repeat; after an error, its text, for which logs have
    [1e9]. A configuration that was ended early is a RUN_TIMEOUT whose cost is a `SlowerThan`.
    `all_cost` is the wall time in seconds of building and running, `timestamp` its end in seconds
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
        if isinstance(run, _Answer) and run.result is not None:
            return run.result
        spent = build.seconds + run.build_seconds + run.seconds
        error_no = MeasureErrorNo.of_trial(build, run)
        if build.error_msg is not None or run.run_secs is None:
            text = build.error_msg or (run.error_msg or "")[:_MOST_ERROR_TEXT]
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
        bound = self.costs[0] if self.costs else None
        return bound.seconds if isinstance(bound, SlowerThan) else None


Record: TypeAlias = tuple[MeasureInput, MeasureResult]


# ----------------------------------------------------------------------------- builder and runner


class LocalBuilder(builders.LocalBuilder):
    """Builds in `n_parallel` processes of this machine (None: one for each logical core).

    A template runs in this process; another process compiles its program and is killed after
    `timeout` seconds. `build_func(mod, target, **build_kwargs)` replaces `codegen.build`; it may be
    a function of a notebook or a script. `allow_externs` are the names of the C functions that
    programs may call in addition to mathematical ones.
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
        function = codegen.build if build_func == "default" else build_func
        if not callable(function):
            raise TemplateError(
                f"build_func is 'default' or a function of (mod, target), got {build_func!r}"
            )
        is_default = build_func == "default" and not build_kwargs
        super().__init__(
            max_workers=n_parallel,
            timeout_sec=timeout,
            f_build=None if is_default else partial(_build, function, dict(build_kwargs or {})),
            allow_externs=allow_externs,
        )


def _build(
    function: BuildFunction, kwargs: Mapping[str, Any], mod: IRModule, target: Target, _: Any
) -> codegen.Module:
    return function(mod, target, **kwargs)


class _Checks(Runner):
    """The options of runners that leave out checks of the search."""

    end_hopeless: bool
    check_correctness: bool

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Measure candidates without the checks that the options disable."""
        ends, checks = self.end_hopeless, self.check_correctness
        adapted = [
            replace(
                entry,
                best_seconds=entry.best_seconds if ends else None,
                ends_hopeless=entry.ends_hopeless and ends,
                reference_path=entry.reference_path if checks else None,
            )
            for entry in runner_inputs
        ]
        return super().run(adapted)  # type: ignore[safe-super]


class LocalRunner(_Checks, runners.LocalRunner):
    """Runs configurations one after another in a process of this machine.

    After one call that does not count, each of `repeat` costs is the time per call of at least
    `number` calls that take at least `min_repeat_ms` milliseconds together; of more than two costs
    the lowest and the highest are dropped. `enable_cpu_cache_flush` evicts the arguments except the
    first from the caches before each `number` calls. A configuration that takes longer than
    `timeout` seconds is killed. The next one starts `cooldown_interval` seconds later, while builds
    continue. (AutoTVM's 0.1 is for boards that get hot; idling makes the times of a CPU vary.)

    With `end_hopeless`, a configuration whose first call takes 10 times as long as the best (and
    50 ms) is ended then: its result is a RUN_TIMEOUT with a lower bound of its time.

    With `check_correctness` the results of each configuration are compared with those of the
    unscheduled program. `ref_input`, an array for each argument, replaces the random arguments.
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


class RPCRunner(_Checks, DaskRunner):
    """Runs configurations on the machines of a Dask scheduler, many at the same time.

    `host` and `port` are the scheduler's, which replaces the tracker. `key` is a kind of machine as
    `tensorir worker` prints it, or a CPU model; None chooses the most frequent kind for the target
    (see `search.DaskRunner`). Machines build what they measure: templates run here, their programs
    travel as text. Of the builder of the option only the timeout counts.

    The other options are those of `LocalRunner`; credentials and `allow_externs` are those of a
    `search.DaskRunner`. Raises TuningError if no scheduler answers.
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
        config = EvaluatorConfig(number, repeat, min_repeat_ms, enable_cpu_cache_flush)
        super().__init__(
            f"dask://{host}:{port}",
            timeout_sec=timeout,
            evaluator_config=config,
            machines=key,
            allow_externs=allow_externs,
        )
        self.end_hopeless = end_hopeless
        self.check_correctness = check_correctness


# --------------------------------------------------------------------------------- measure options


class MeasureOption(TypedDict):
    """The result of `measure_option`."""

    builder: Builder
    runner: Runner


def measure_option(
    builder: Literal["local"] | Builder, runner: Literal["local"] | Runner
) -> MeasureOption:
    """Return the builder and the runner to measure with; `"local"` is either with its defaults.

    Any builder and runner of the search will do. If other machines build what they measure, the
    timeout of a `LocalBuilder` applies there. Raises TemplateError for a `LocalBuilder` with a
    function, which cannot travel to them.
    """
    builder = LocalBuilder() if builder == "local" else builder
    runner = LocalRunner() if runner == "local" else runner
    for name, part, kind in (("builder", builder, Builder), ("runner", runner, Runner)):
        if not isinstance(part, kind):
            raise TemplateError(
                f"the {name} of measure_option is {part!r}; expected 'local', or an object such as "
                f"autotvm.Local{name.capitalize()}()"
            )
    if isinstance(runner, DaskRunner) and isinstance(builder, builders.LocalBuilder):
        if builder.f_build is not None:
            raise TemplateError(
                "the machines of an RPCRunner build what they measure, and functions cannot travel "
                "there: use autotvm.LocalBuilder() without build_func and build_kwargs, and pass "
                "options of the code in the target, as in llvm -mcpu=... -opt-level=..."
            )
        builder = DaskBuilder(timeout_sec=builder.timeout_sec)
    return {"builder": builder, "runner": runner}


class _NoBuilder(Builder):
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult(artifact_path="not built") for _ in build_inputs]

    def remove_artifact(self, path: str) -> None:
        pass


@dataclass(frozen=True)
class _Answer(RunnerResult):
    """A measurement that a function returned."""

    result: MeasureResult | None = None


class Answers(Runner):
    """Gets the results of configurations from a function; a tuner sets the next `batch`."""

    takes_batches = True

    def __init__(self, results: Callable[[MeasureInput], MeasureResult]) -> None:
        self._results = results
        self.batch: Sequence[MeasureInput] = ()

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Return the results of the batch, each computed when it is requested."""
        return [RunnerFuture.on_demand(partial(self._answer, inp)) for inp in self.batch]

    def _answer(self, inp: MeasureInput) -> RunnerResult:
        result = self._results(inp)
        if result.error_no == MeasureErrorNo.NO_ERROR:
            return _Answer(run_secs=tuple(map(float, result.costs)), result=result)
        if result.slower_than is not None:
            return _Answer(run_secs=(result.slower_than,), stopped=True, result=result)
        text = f"{MeasureErrorNo(result.error_no)!s}: {'; '.join(map(str, result.costs))}"
        return _Answer(error_msg=text, result=result)


def measured_by(results: Callable[[MeasureInput], MeasureResult]) -> MeasureOption:
    """Return a measure option that calls a function for the result of each input."""
    return {"builder": _NoBuilder(), "runner": Answers(results)}
