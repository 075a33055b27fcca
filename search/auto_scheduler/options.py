"""How much is measured, and with what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import codegen
from codegen import Target
from search import builder, runner
from search.builder import Builder
from search.errors import TuningError
from search.kinds import instances
from search.measure_callback import MeasureCallback
from search.runner import EvaluatorConfig, Runner
from tensorir.function import IRModule

BuildFunction = Callable[[IRModule, Target], codegen.Module]
P = TypeVar("P")


class LocalBuilder(builder.LocalBuilder):
    """Builds in `n_parallel` processes of this machine (None: one for each logical core).

    A build that takes longer than `timeout` seconds is killed. `build_func(mod, target)` builds in
    place of `codegen.build`; it may be a function of a notebook or a script.
    """

    def __init__(
        self,
        timeout: float = 15,
        n_parallel: int | None = None,
        build_func: str | BuildFunction = "default",
    ) -> None:
        if not callable(build_func) and build_func != "default":
            raise TuningError(
                f"build_func is 'default' or a function of (mod, target), got {build_func!r}"
            )
        own = partial(_build, build_func) if callable(build_func) else None
        super().__init__(max_workers=n_parallel, timeout_sec=timeout, f_build=own)


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


@dataclass
class TuningOptions:
    """The extent of a search, and what measures.

    With `num_measure_trials` 0 nothing is measured: the result is what the cost model expects most
    of. The search ends early after `early_stopping` trials that did not make it better (None: it
    does not). A batch has at most `num_measures_per_round` candidates. `verbose` 0 shows nothing.

    `builder` and `runner` are `"local"`, which means `LocalBuilder()` and `LocalRunner()`, or any
    of the search's. `measure_callbacks` are told about measurements beside what the search itself
    does: `RecordToFile(path)` keeps them. TuningError for what makes no sense.
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: str | Builder = "local"
    runner: str | Runner = "local"
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | None = None

    def __post_init__(self) -> None:
        counts: Final = (
            ("num_measure_trials", self.num_measure_trials, 0),
            ("early_stopping", self.early_stopping, 1),
            ("num_measures_per_round", self.num_measures_per_round, 1),
            ("verbose", self.verbose, 0),
        )
        for name, value, least in counts:
            if value is not None and (not isinstance(value, int) or value < least):
                raise TuningError(f"{name} is an int of at least {least}, got {value!r}")
        self.part("builder", Builder, LocalBuilder)
        self.part("runner", Runner, LocalRunner)
        if isinstance(self.measure_callbacks, MeasureCallback):
            self.measure_callbacks = [self.measure_callbacks]
        self.measure_callbacks = instances(
            MeasureCallback, "measure_callbacks", self.measure_callbacks or []
        )

    def part(self, name: str, base: type[P], local: type[P]) -> P | type[P]:
        """Return the builder or the runner, or the class of the local one."""
        given: Any = getattr(self, name)
        if given == "local":
            return local
        if not isinstance(given, base):
            raise TuningError(
                f"{name} is 'local' or an instance of {base.__name__}, got {given!r}; the ones of "
                f"autotvm measure configurations of templates"
            )
        return given


def _build(function: BuildFunction, mod: IRModule, target: Target, _: Any) -> codegen.Module:
    return function(mod, target)
