"""The options of tuning: the number of measurements, and the tools that measure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from search import builder, runner
from search.autotvm.measure.builder import BuildFunction, build_with
from search.builder import Builder
from search.distributed import DaskBuilder, DaskRunner
from search.errors import TuningError
from search.kinds import instances
from search.measure_callback import MeasureCallback
from search.reports.interrupts import OnInterrupt, checked_on_interrupt
from search.runner import EvaluatorConfig, Runner
from search.tune_config import check_counts


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
        build_func: str | BuildFunction = "default",
        *,
        allow_externs: Collection[str] = (),
    ) -> None:
        own = build_with(build_func, {}, TuningError)
        super().__init__(
            max_workers=n_parallel, timeout_sec=timeout, f_build=own, allow_externs=allow_externs
        )


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
        if enable_cpu_cache_flush:
            number, min_repeat_ms = 1, 0
        super().__init__(
            timeout_sec=timeout,
            evaluator_config=EvaluatorConfig(number, repeat, min_repeat_ms, enable_cpu_cache_flush),
            cooldown_sec=cooldown_interval,
        )


class RPCRunner(DaskRunner):
    """Measures candidates on the machines of a Dask scheduler, which build them, too.

    `host` and `port` are the scheduler's, which takes the place of the tracker. `key` is a kind of
    machine as `tensorir worker` prints it, or a CPU model; None takes the kind for the target of
    which there are most. The times are those of `LocalRunner`; `priority`, `n_parallel` and
    `cooldown_interval` are accepted and unused, as each machine is sent what it takes, and measures
    one candidate after the other on each of its cores. Credentials and `allow_externs` are those of
    a `search.DaskRunner`. TuningError for a `device` other than 0, the CPU, and if no scheduler
    answers.
    """

    def __init__(
        self,
        key: str | None,
        host: str,
        port: int,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
        *,
        allow_externs: Collection[str] = (),
    ) -> None:
        _check_device(device)
        if enable_cpu_cache_flush:
            number, min_repeat_ms = 1, 0
        super().__init__(
            f"dask://{host}:{port}",
            timeout_sec=timeout,
            evaluator_config=EvaluatorConfig(number, repeat, min_repeat_ms, enable_cpu_cache_flush),
            machines=key,
            allow_externs=allow_externs,
        )


class LocalRPCMeasureContext:
    """Has a `runner` that measures on this machine, with the options of `RPCRunner`.

    There is no tracker and no server between: `LocalRunner` measures in a process of its own.
    """

    def __init__(
        self,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        _check_device(device)
        self.runner = LocalRunner(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush
        )


def _check_device(device: int) -> None:
    if device != 0:
        raise TuningError(f"device is 0, the CPU of a machine, got {device!r}")


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

    def measuring_parts(self) -> tuple[Builder | type[Builder], Runner | type[Runner]]:
        """Return builder and runner, the class where it is the local one.

        Machines of a `DaskRunner` build themselves: of a `LocalBuilder` beside it counts how long a
        build may take. TuningError for one with a `build_func`, which cannot travel.
        """
        if isinstance(self.runner, DaskRunner):
            return self._builder_there(), self.runner
        return (
            LocalBuilder if isinstance(self.builder, str) else self.builder,
            LocalRunner if isinstance(self.runner, str) else self.runner,
        )

    def _builder_there(self) -> Builder:
        given = LocalBuilder() if isinstance(self.builder, str) else self.builder
        if not isinstance(given, builder.LocalBuilder):
            return given
        if given.f_build is not None:
            raise TuningError(
                "the machines of an RPCRunner build what they measure, and a build_func cannot "
                "travel there: leave it out; options of the code are those of the target"
            )
        return DaskBuilder(timeout_sec=given.timeout_sec)

    def callbacks(self) -> list[MeasureCallback]:
        """Return the callbacks as a list."""
        given = self.measure_callbacks
        if isinstance(given, MeasureCallback):
            return [given]
        return instances(MeasureCallback, "measure_callbacks", () if given is None else given)
