"""The base class of tuners, and the loop that all of them share."""

from __future__ import annotations

import logging
import math
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from codegen import Target
from schedule.random_state import RandomState
from search.autotvm.dispatch import GLOBAL_SCOPE
from search.autotvm.errors import TemplateError
from search.autotvm.measure.measurement import MeasureInput, MeasureResult
from search.autotvm.measure.option import MeasureBatch, create_measure_batch
from search.records.measure_error_no import MeasureErrorNo
from search.reports.interrupts import OnInterrupt, checked_on_interrupt, uninterrupted

if TYPE_CHECKING:
    from search.autotvm.record import Record
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task

logger = logging.getLogger("autotvm")

Callback: TypeAlias = "Callable[[Tuner, Sequence[MeasureInput], Sequence[MeasureResult]], object]"

_LEAST_BATCH: Final = 8
"""Configurations that are sent off together: while one is measured, the others are built."""
_PREFIXES: Final = "yzafpnµm kMGTPEZY"
"""The prefixes of units, as in GFLOPS, each a thousand times the one before."""


class Tuner(ABC):
    """Proposes configurations of a task, and learns from their measurements.

    A subclass says what comes next (`has_next`, `next_batch`) and may learn (`update`,
    `load_history`); `tune` is the same for all. `best_config` is the fastest so far, `best_flops`
    its operations per second, `best_measure_pair` its input and result, `best_iter` the number of
    its trial, from 0. `ttl` is the number of trials that are left at most.

    The same `seed` gives the same proposals for the same results; None takes one of the device.
    """

    def __init__(self, task: Task, *, seed: int | None = None) -> None:
        self.task = task
        self.space = task.space
        # The first numbers of neighbouring seeds are neighbours; those of their forks are not.
        self.rng: Final = RandomState(RandomState(-1 if seed is None else seed).fork())
        self.error_ct_threshold = 150
        self.n_trial = 0
        self.early_stopping = math.inf
        self.ttl = 0.0
        self.visited: set[int] = set()
        """The indices that were proposed or measured, as far as the tuner looks at them."""
        self._put_off: list[ConfigEntity] = []
        """Configurations that were proposed, but not measured any more: `tune` begins with them."""
        self.reset()

    @abstractmethod
    def has_next(self) -> bool:
        """Say whether there is another configuration to measure."""

    @abstractmethod
    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next configurations, at least one and at most so many."""

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements: those of the last batch, or records of this task from a log."""
        self.visited.update(index for index in map(self.index_of, inputs) if index is not None)

    def load_history(self, data_set: Iterable[Record], min_seed_records: int = 500) -> None:
        """Learn from records of another task; only tuners with a model do."""

    def reset(self) -> None:
        """Forget the best configuration."""
        self.best_config: ConfigEntity | None = None
        self.best_flops = 0.0
        self.best_measure_pair: Record | None = None
        self.best_iter = 0

    def set_error_threshold(self, threshold: int) -> None:
        """Set after how many failures in a row each trial is logged."""
        self.error_ct_threshold = threshold

    def flops(self, result: MeasureResult) -> float:
        """Return the operations per second that a result means, 0 for a failure."""
        return (self.task.flop or 1.0) / result.mean_cost

    def most_flops(self, result: MeasureResult) -> float:
        """Return them, or of one that was ended early how many they are at most."""
        return (self.task.flop or 1.0) / result.least_cost

    def index_of(self, inp: MeasureInput) -> int | None:
        """Return the index that a configuration has in the space, None if it has none.

        In a log, that of an older template say, the values count and not the index.
        """
        own = inp.task is self.task
        index = inp.config.index if own else self.space.index_of(inp.config.entity_map)
        return index if index is not None and self.space.is_index_valid(index) else None

    def tune(
        self,
        n_trial: int,
        measure_option: Mapping[str, Any],
        early_stopping: int | None = None,
        callbacks: Sequence[Callback] = (),
        si_prefix: str = "G",
        on_interrupt: OnInterrupt = "raise",
    ) -> None:
        """Measure up to `n_trial` configurations, as `autotvm.measure_option(...)` says.

        It ends after `early_stopping` trials without a better one (None: never). Each callback is
        called after each trial with this tuner, its input and its result, in lists of one. Trials
        are logged at DEBUG level by the logger `autotvm`, FLOPS with `si_prefix`. Ctrl-C ends it,
        and raises KeyboardInterrupt again when what was measured is learned and kept; with
        `on_interrupt="return"`, `tune` returns. TemplateError for another prefix, or an option that
        is none.
        """
        checked_on_interrupt(on_interrupt)
        checked_si_prefix(si_prefix)
        measure_batch = create_measure_batch(self.task, measure_option)
        self.n_trial = n_trial
        self.early_stopping = math.inf if early_stopping is None else early_stopping
        self.best_iter = 0
        trials = _Trials(self, si_prefix)
        try:
            with _tuning(), trials:
                while trials.count < n_trial and not trials.over:
                    size = max(_LEAST_BATCH, measure_batch.n_parallel)
                    configs = self._proposed(min(size, n_trial - trials.count))
                    if not configs:
                        break
                    self._measure(configs, measure_batch, trials, callbacks)
        except KeyboardInterrupt:
            logger.warning(
                "Interrupted after %d trials: what has been measured is kept", trials.count
            )
            if on_interrupt == "raise":
                raise

    def _proposed(self, size: int) -> list[ConfigEntity]:
        """Return the configurations to measure next, none when there are no more."""
        if self._put_off:
            configs, self._put_off = self._put_off[:size], self._put_off[size:]
            return configs
        return self.next_batch(size) if self.has_next() else []

    def _measure(
        self,
        configs: Sequence[ConfigEntity],
        measure_batch: MeasureBatch,
        trials: _Trials,
        callbacks: Sequence[Callback],
    ) -> None:
        """Measure a batch, and learn from it as far as it came."""
        target = self.task.target or Target()
        inputs = [MeasureInput(target, self.task, config) for config in configs]
        results: list[MeasureResult] = []
        try:
            with closing(measure_batch.each(inputs)) as measured:
                for inp, result in zip(inputs, measured, strict=True):
                    with uninterrupted():
                        results.append(result)
                        trials.add(inp, result)
                        for callback in callbacks:
                            callback(self, [inp], [result])
                    if trials.over:
                        break
        finally:
            with uninterrupted():
                self._put_off = [*configs[len(results) :], *self._put_off]
                self.update(inputs[: len(results)], results)


@contextmanager
def _tuning() -> Iterator[None]:
    before = GLOBAL_SCOPE.in_tuning
    GLOBAL_SCOPE.in_tuning = True
    try:
        yield
    finally:
        GLOBAL_SCOPE.in_tuning = before


class _Trials:
    """The trials of one call of `tune`: how many, the best, and what is said of them."""

    def __init__(self, tuner: Tuner, si_prefix: str) -> None:
        self.count = 0
        self._tuner = tuner
        self._prefix = si_prefix
        self._failures = 0
        """The number of trials in a row that failed."""
        self._errors: list[str] = []
        """The errors of the trials before the first that succeeded."""
        self._level = logger.level

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        logger.setLevel(self._level)
        if self.count and len(self._errors) == self.count:
            with tempfile.NamedTemporaryFile(
                "w", prefix="tuner_errors_", suffix=".log", delete=False, encoding="utf-8"
            ) as file:
                file.write("\n".join(self._errors))
            logger.warning(
                "Not one of %d trials succeeded. All errors are in %s", self.count, file.name
            )

    @property
    def over(self) -> bool:
        """True if there was no better trial for as long as `early_stopping` says."""
        return self.count >= self._tuner.best_iter + self._tuner.early_stopping

    def add(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Count a trial."""
        tuner = self._tuner
        flops = tuner.flops(result)
        if flops > tuner.best_flops:
            tuner.best_flops = flops
            tuner.best_config = inp.config
            tuner.best_measure_pair = (inp, result)
            tuner.best_iter = self.count
        self.count += 1
        tuner.ttl = min(tuner.best_iter + tuner.early_stopping, tuner.n_trial) - self.count
        failed = result.error_no != MeasureErrorNo.NO_ERROR
        if failed and len(self._errors) == self.count - 1:
            self._errors.append(f"{inp.config}: {_text(result)}")
        self._count_failures(failed)
        logger.debug(
            "No: %d\t%sFLOPS: %.2f/%.2f\tresult: %s\t%s",
            self.count,
            self._prefix,
            in_si_unit(flops, self._prefix),
            in_si_unit(tuner.best_flops, self._prefix),
            _text(result) if failed else result,
            inp.config,
        )

    def _count_failures(self, failed: bool) -> None:
        threshold = self._tuner.error_ct_threshold
        if not failed:
            if self._failures > threshold:
                logger.setLevel(self._level)
            self._failures = 0
            return
        self._failures += 1
        if self._failures == threshold + 1:
            logger.warning("%d trials in a row failed: each is logged from now on", self._failures)
            logger.setLevel(logging.DEBUG)


def _text(result: MeasureResult) -> str:
    texts = "; ".join(str(cost).strip() for cost in result.costs)
    return f"{MeasureErrorNo(result.error_no)!s}: {texts}"


def checked_si_prefix(prefix: str) -> str:
    """Return a prefix; TemplateError unless it is one letter of those that there are, or blank."""
    if len(prefix) != 1 or prefix not in _PREFIXES:
        raise TemplateError(f"si_prefix is one of {list(_PREFIXES)}, got {prefix!r}")
    return prefix


def in_si_unit(value: float, prefix: str) -> float:
    """Return a number in the unit that a prefix makes: 2e9 is 2 with G."""
    return float(value * 1000.0 ** (_PREFIXES.index(" ") - _PREFIXES.index(prefix)))
