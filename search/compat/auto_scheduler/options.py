"""The options of tuning: the number of measurements, and the tools that measure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import codegen
from codegen import Target
from search import builder, runner
from search.builder import Builder
from search.errors import TuningError
from search.kinds import instances
from search.measure_callback import MeasureCallback
from search.options import TuneConfig, check_counts
from search.reports.interrupts import OnInterrupt, checked_on_interrupt
from search.runner import EvaluatorConfig, Runner
from search.runner.distributed import DaskBuilder, DaskRunner
from tensorir.function import IRModule


class LocalBuilder(builder.LocalBuilder):
    """Builds in `n_parallel` processes of this machine (None: one for each logical core).

    A build that takes longer than `timeout` seconds is killed. `build_func(mod, target)` builds in
    place of `codegen.build`; it may be a function of a notebook or a script. `allow_externs` names
    the C functions that programs may call beside mathematical ones.
    """

    def __init__(
        self,
        timeout: float = 15,
        n_parallel: int | None = None,
        build_func: str | Callable[[IRModule, Target], codegen.Module] = "default",
        *,
        allow_externs: Collection[str] = (),
    ) -> None:
        own = None
        if callable(build_func):
            own = partial(_built, build_func)
        elif build_func != "default":
            raise TuningError(
                f"build_func is 'default' or a function of (mod, target), got {build_func!r}"
            )
        super().__init__(
            max_workers=n_parallel, timeout_sec=timeout, f_build=own, allow_externs=allow_externs
        )


def _built(
    function: Callable[[IRModule, Target], codegen.Module], mod: IRModule, target: Target, _: object
) -> codegen.Module:
    return function(mod, target)


class LocalRunner(runner.LocalRunner):
    """Measures candidates one after another in a process of this machine.

    Each of `repeat` costs is the time per call of at least `number` calls that take at least
    `min_repeat_ms` milliseconds together. With `enable_cpu_cache_flush` it is that of one call,
    before which the arguments but the first are dropped from the caches. `timeout` are seconds for
    one candidate. `cooldown_interval` are seconds, see `search.runner.LocalRunner`.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
    ) -> None:
        super().__init__(
            timeout_sec=timeout,
            evaluator_config=_timing(number, repeat, min_repeat_ms, enable_cpu_cache_flush),
            cooldown_sec=cooldown_interval,
        )


class RPCRunner(DaskRunner):
    """Measures candidates on the machines of a Dask scheduler, which build them, too.

    `host` and `port` are the scheduler's, which takes the place of the tracker. `key` is a kind of
    machine as `tensorir worker` prints it, or a CPU model; None takes the kind for the target of
    which there are most. The times are those of `LocalRunner`. Credentials and `allow_externs` are
    those of a `search.DaskRunner`. TuningError for Ansor's other arguments, which have no effect
    here, and if no scheduler answers.
    """

    def __init__(
        self,
        key: str | None,
        host: str,
        port: int,
        *,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 100,
        enable_cpu_cache_flush: bool = False,
        allow_externs: Collection[str] = (),
        **others: object,
    ) -> None:
        for name in others:
            raise TuningError(
                f"{name} would have no effect: each machine is sent as many candidates as it has "
                "cores to measure on, one after the other on each of them. Leave it out"
            )
        super().__init__(
            f"dask://{host}:{port}",
            timeout_sec=timeout,
            evaluator_config=_timing(number, repeat, min_repeat_ms, enable_cpu_cache_flush),
            machines=key,
            allow_externs=allow_externs,
        )


class LocalRPCMeasureContext:
    """Has a `runner` that measures on this machine: a `LocalRunner` with these arguments.

    There is no tracker and no server between, since it measures in a process of its own.
    """

    def __init__(self, timeout: float = 10, *, min_repeat_ms: int = 0, **options: Any) -> None:
        self.runner = LocalRunner(timeout, min_repeat_ms=min_repeat_ms, **options)


def _timing(number: int, repeat: int, min_repeat_ms: int, flushed: bool) -> EvaluatorConfig:
    if flushed:
        number, min_repeat_ms = 1, 0
    return EvaluatorConfig(number, repeat, min_repeat_ms, flushed)


@dataclass(frozen=True)
class TuningOptions:
    """The extent of a search, and its builder and runner.

    With `num_measure_trials` 0 nothing is measured: the result is what the cost model expects most
    of. The search ends early after `early_stopping` trials that did not make it better (None: it
    does not). A batch has at most `num_measures_per_round` candidates. `verbose` 0 shows nothing.

    `builder` and `runner` are `"local"`, which means `LocalBuilder()` and `LocalRunner()`, or any
    of the search's. `measure_callbacks` are told about measurements beside what the search itself
    does: `RecordToFile(path)` keeps them. Ctrl-C ends a search, and raises KeyboardInterrupt again
    when what was measured is kept; with `on_interrupt="return"` the search returns. TuningError for
    what makes no sense.
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: str | Builder = "local"
    runner: str | Runner = "local"
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | None = None
    on_interrupt: OnInterrupt = "raise"

    def __post_init__(self) -> None:
        counts: Final = (
            ("num_measure_trials", self.num_measure_trials, 0),
            ("early_stopping", self.early_stopping, 1),
            ("num_measures_per_round", self.num_measures_per_round, 1),
        )
        check_counts(counts)
        parts: Final = (("builder", self.builder, Builder), ("runner", self.runner, Runner))
        for name, part, base in parts:
            if part != "local" and not isinstance(part, base):
                raise TuningError(
                    f"{name} is 'local' or an instance of search.{base.__name__}, got {part!r}; "
                    "those of autotvm measure the configurations of templates"
                )
        checked_on_interrupt(self.on_interrupt)
        self.callbacks()

    def config(self, **others: Any) -> TuneConfig:
        """Return the options as those of the search, beside which it has `others`."""
        builder, runner = self.measuring_parts()
        return TuneConfig(
            self.num_measure_trials,
            self.num_measures_per_round,
            early_stopping=self.early_stopping,
            builder=builder,
            runner=runner,
            measure_callbacks=[*MeasureCallback.create("default"), *self.callbacks()],
            verbose=self.verbose,
            on_interrupt=self.on_interrupt,
            **others,
        )

    def measuring_parts(self) -> tuple[Builder | type[Builder], Runner | type[Runner]]:
        """Return builder and runner, the class where it is the local one.

        Machines of a `DaskRunner` build themselves: of a `LocalBuilder` beside it counts how long a
        build may take. TuningError for one with a `build_func`, which cannot travel.
        """
        here = LocalBuilder if isinstance(self.builder, str) else self.builder
        if not isinstance(self.runner, DaskRunner):
            return here, LocalRunner if isinstance(self.runner, str) else self.runner
        beside = LocalBuilder() if isinstance(self.builder, str) else self.builder
        if not isinstance(beside, builder.LocalBuilder):
            return beside, self.runner
        if beside.f_build is not None:
            raise TuningError(
                "the machines of an RPCRunner build what they measure, and a build_func cannot "
                "travel there: leave it out; options of the code are those of the target"
            )
        return DaskBuilder(timeout_sec=beside.timeout_sec), self.runner

    def callbacks(self) -> list[MeasureCallback]:
        """Return the callbacks as a list."""
        given = self.measure_callbacks
        if isinstance(given, MeasureCallback):
            return [given]
        return instances(MeasureCallback, "measure_callbacks", () if given is None else given)
