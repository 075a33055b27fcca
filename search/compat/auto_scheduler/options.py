"""The options of tuning: the number of measurements, and the parts that measure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from search.builder import Builder
from search.compat.autotvm import measure
from search.kinds import instances
from search.measure_callback import MeasureCallback
from search.options import OnInterrupt, TuneConfig, check_counts, checked_on_interrupt
from search.runner import Runner
from search.runner.distributed import DaskRunner


class LocalBuilder(measure.LocalBuilder):
    """Builds in `n_parallel` processes of this machine, each build within `timeout` seconds.

    For `build_func(mod, target)` and `allow_externs` see `autotvm.LocalBuilder`.
    """

    def __init__(
        self,
        timeout: float = 15,
        n_parallel: int | None = None,
        build_func: str | measure.BuildFunction = "default",
        *,
        allow_externs: Collection[str] = (),
    ) -> None:
        super().__init__(timeout, n_parallel, None, build_func, allow_externs=allow_externs)


class LocalRunner(measure.LocalRunner):
    """Measures candidates one after another in a process of this machine.

    The arguments are those of `autotvm.LocalRunner`, with Ansor's defaults. With
    `enable_cpu_cache_flush` each cost is the time of one call. All costs are kept, and the results
    of each candidate are compared with those of the unscheduled program.
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
        calls = (number, repeat, min_repeat_ms)
        super().__init__(
            timeout, *calls, cooldown_interval, enable_cpu_cache_flush, check_correctness=True
        )


class RPCRunner(measure.RPCRunner):
    """Builds and measures candidates on the machines of a Dask scheduler.

    The address and the key are those of `autotvm.RPCRunner`, the costs those of `LocalRunner`.
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
    ) -> None:
        if enable_cpu_cache_flush:
            number, min_repeat_ms = 1, 0
        super().__init__(
            *(key, host, port, timeout, number, repeat, min_repeat_ms, enable_cpu_cache_flush),
            check_correctness=True,
            allow_externs=allow_externs,
        )


class LocalRPCMeasureContext:
    """Has a `runner` that measures on this machine: a `LocalRunner` with these arguments.

    It needs neither a tracker nor a server, because it measures in another process anyway.
    """

    def __init__(self, timeout: float = 10, *, min_repeat_ms: int = 0, **options: Any) -> None:
        self.runner = LocalRunner(timeout, min_repeat_ms=min_repeat_ms, **options)


@dataclass(frozen=True)
class TuningOptions:
    """The extent of a search, and its builder and runner.

    With `num_measure_trials` 0, nothing is measured, and the result is the candidate with the best
    prediction. The search ends after `early_stopping` trials without an improvement (None: never).
    A batch has at most `num_measures_per_round` candidates. `verbose` 0 shows nothing.

    `builder` and `runner` are `"local"`, for `LocalBuilder()` and `LocalRunner()`, or parts of the
    search, as instances or by name. `measure_callbacks` are invoked after each trial;
    `RecordToFile(path)` writes a log. Ctrl-C ends a search: its measurements are kept, then
    KeyboardInterrupt is raised again, or with `on_interrupt="return"` the search returns.
    Raises TuningError for invalid numbers.
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
        checked_on_interrupt(self.on_interrupt)
        self.callbacks()

    def config(self, **others: Any) -> TuneConfig:
        """Return the options as a `TuneConfig`; `others` are further fields of it."""
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

    def measuring_parts(
        self,
    ) -> tuple[str | Builder | type[Builder], str | Runner | type[Runner]]:
        """Return builder and runner, the class for `"local"`.

        The machines of a `DaskRunner` build candidates, within the timeout of a `LocalBuilder`.
        Raises TuningError for a `LocalBuilder` with a `build_func`, which cannot be sent there.
        """
        builder = LocalBuilder if self.builder == "local" else self.builder
        if isinstance(self.runner, DaskRunner) and not isinstance(builder, str):
            made = builder() if isinstance(builder, type) else builder
            option = measure.measure_option(made, self.runner)
            return option["builder"], option["runner"]
        return builder, LocalRunner if self.runner == "local" else self.runner

    def callbacks(self) -> list[MeasureCallback]:
        """Return the callbacks as a list."""
        given = self.measure_callbacks
        if isinstance(given, MeasureCallback):
            return [given]
        return instances(MeasureCallback, "measure_callbacks", given or ())
