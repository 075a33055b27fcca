"""The base class of tuners, which propose configurations to the loop of the search."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from codegen import Target
from schedule import Schedule
from schedule.random_state import RandomState
from search.builder import BuilderResult
from search.compat.autotvm.config import ConfigEntity
from search.compat.autotvm.dispatch import GLOBAL_SCOPE
from search.compat.autotvm.errors import InstantiationError, TemplateError
from search.compat.autotvm.measure import Answers, LocalRunner, MeasureInput, MeasureResult, Record
from search.compat.autotvm.task import Task
from search.context import TuneContext
from search.cost_model import CostModel
from search.database import Database, MemoryDatabase
from search.database.measure_error_no import MeasureErrorNo
from search.errors import TuningError
from search.loop import tune_run
from search.measure_callback import MeasureCallback
from search.options import TuneConfig
from search.reports.interrupts import OnInterrupt
from search.run import Run
from search.runner import Runner, RunnerResult
from search.runner.distributed import DaskRunner
from search.runner.measure_candidate import MeasureCandidate
from search.search_strategy import SearchStrategy
from search.space_generator.space_generator import SpaceArg

if TYPE_CHECKING:
    from search.builder import Builder

logger = logging.getLogger("autotvm")

Callback: TypeAlias = "Callable[[Tuner, Sequence[MeasureInput], Sequence[MeasureResult]], object]"

_LEAST_BATCH: Final = 8
"""Configurations that are sent together: while one is measured, the others are built."""
_PREFIXES: Final = "yzafpnµm kMGTPEZY"
"""The prefixes of units, as in GFLOPS, each a thousand times the one before."""


class Tuner:
    """Proposes configurations of a task, and learns from their measurements.

    A subclass proposes (`has_next`, `next_batch`) and may learn (`update`, `load_history`), or it
    brings a strategy of the search (`strategy`). `tune` is the same for all. `best_config` is the
    fastest so far, `best_flops` its operations per second, `best_measure_pair` its input and
    result, `best_iter` the number of its trial, from 0. `ttl` is the maximum number of trials left.

    The same `seed` gives the same proposals for the same results; None uses a seed of the device.
    """

    cost_model: CostModel | None = None
    """The model of the strategy; None where the strategy needs none."""
    plan_size: int | None = None
    """The maximum number of configurations in a batch; None for as many as are built at once."""

    def __init__(self, task: Task, *, seed: int | None = None) -> None:
        self.task = task
        self.space = task.space
        # The first numbers of neighbouring seeds are neighbours; those of their forks are not.
        self.rng: Final = RandomState(RandomState(-1 if seed is None else seed).fork())
        self.database: str | Database = "memory"
        self.n_trial = 0
        self.early_stopping = math.inf
        self.ttl = 0.0
        self.visited: set[int] = set()
        """The indices that were proposed or measured."""
        self._postponed: list[ConfigEntity] = []
        """Configurations that were proposed but not measured: `tune` starts with them."""
        self.reset()

    def has_next(self) -> bool:
        """Return True if there is another configuration to measure."""
        return False

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next configurations, at least one and at most `batch_size`."""
        return []

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements: those of a batch, or records of this task from a log."""
        self.visited.update(index for index in map(self.index_of, inputs) if index is not None)

    def note_trial(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Take note of a trial of `tune`."""
        self.update([inp], [result])

    def load_history(self, data_set: Iterable[Record], min_seed_records: int = 500) -> None:
        """Learn from records of another task; only tuners with a model do."""

    def strategy(self) -> tuple[SpaceArg, SearchStrategy]:
        """Return the design space and the strategy that `tune` searches with."""
        return _unscheduled, _Proposals(self)

    def reset(self) -> None:
        """Forget the best configuration."""
        self.best_config: ConfigEntity | None = None
        self.best_flops = 0.0
        self.best_measure_pair: Record | None = None
        self.best_iter = 0

    def flops(self, result: MeasureResult) -> float:
        """Return the operations per second of a result, 0 for a failure."""
        return (self.task.flop or 1.0) / result.mean_cost

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
        """Measure up to `n_trial` configurations with the parts of `autotvm.measure_option(...)`.

        It ends after `early_stopping` trials without a better one (None: never). Each callback is
        called after each trial with this tuner, its input and its result, in lists of one. Trials
        are logged at DEBUG level by the logger `autotvm`, FLOPS with `si_prefix`. Ctrl-C ends it,
        and raises KeyboardInterrupt again when the results so far are learned and kept; with
        `on_interrupt="return"`, `tune` returns. TemplateError for an unknown prefix, an option
        without a builder or a runner, and a target that the runner cannot measure for.
        """
        missing = {"builder", "runner"} - set(measure_option)
        if missing:
            raise TemplateError(
                f"the option has no {' and no '.join(sorted(missing))}; make it with "
                "autotvm.measure_option(builder='local', runner='local')"
            )
        builder, runner = measure_option["builder"], measure_option["runner"]
        trials = _Trials(self, callbacks, checked_si_prefix(si_prefix))
        context = _TunedTask(self, trials, runner)
        self.n_trial, self.best_iter = n_trial, 0
        self.early_stopping = math.inf if early_stopping is None else early_stopping
        self.ttl = min(self.early_stopping, n_trial)
        config = TuneConfig(
            max_trials_global=n_trial,
            num_trials_per_iter=self.plan_size or _built_at_once(builder, runner),
            num_confirmed=0,
            builder=builder,
            runner=runner,
            database=self.database,
            cost_model=self.cost_model,
            measure_callbacks=[*MeasureCallback.create(), trials],
            verbose=0,
            on_interrupt=on_interrupt,
        )
        with (
            _tuning(),
            tempfile.TemporaryDirectory() as folder,
            Run.open([context], [1.0], folder, config) as run,
        ):
            tune_run(run)

    def propose(self, size: int) -> list[ConfigEntity]:
        """Return up to `size` configurations to measure next, none when there are no more."""
        if self._postponed:
            configs, self._postponed = self._postponed[:size], self._postponed[size:]
            return configs
        return self.next_batch(size) if self.has_next() else []

    def postpone(self, configs: Sequence[ConfigEntity]) -> None:
        """Propose configurations again: they were not measured."""
        self._postponed = [*configs, *self._postponed]


class _Proposal(MeasureCandidate):
    """A configuration that a tuner proposed, as a candidate of the search."""

    def __init__(self, sch: Schedule, config: ConfigEntity) -> None:
        super().__init__(sch)
        self.config = config


class _TunedTask(TuneContext):
    """The task of a tuner in the loop of the search; it ends with the trials of the tuner."""

    def __init__(self, tuner: Tuner, trials: _Trials, runner: Runner) -> None:
        self.tuner = tuner
        self.trials = trials
        self._runner = runner
        target = tuner.task.target or Target()
        reason = runner.why_not(target)
        if reason is not None:
            where = " on this machine" if runner.measures_here(target) else ""
            raise TemplateError(f"configurations for {target} cannot be measured{where}: {reason}")
        space, strategy = tuner.strategy()
        super().__init__(
            tuner.task.mod,
            target=target,
            space_generator=space,
            search_strategy=strategy,
            task_name=tuner.task.name,
            rand_state=tuner.rng.fork(),
            input_data=_given(tuner.task, runner),
        )

    def input_of(self, candidate: MeasureCandidate) -> MeasureInput:
        """Return the configuration of a candidate as an input."""
        task = self.tuner.task
        known = isinstance(candidate, _Proposal)
        config = candidate.config if known else task.config_of(candidate.sch)  # type: ignore[attr-defined]
        return MeasureInput(task.target or Target(), task, config)

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch, None when the search or the trials of the tuner are over."""
        if self.tuner.ttl <= 0:
            return None
        batch = super().generate_measure_candidates()
        if batch is not None:
            batch = batch[: max(0, int(min(self.tuner.ttl, len(batch))))]
            if isinstance(self._runner, Answers):
                self._runner.batch = list(map(self.input_of, batch))
        return batch


class _Proposals(SearchStrategy):
    """Makes candidates of what a tuner proposes.

    A configuration that its template refuses is a trial, too, which fails here.
    """

    def __init__(self, tuner: Tuner) -> None:
        self._tuner = tuner
        self._size = 0
        self._sent: list[_Proposal] = []
        self._refused: str | None = None

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Start a search; the tuner knows what was measured before."""
        self._size = num_trials_per_iter

    def post_tuning(self) -> None:
        """Return to the tuner what was not measured."""
        self._tuner.postpone([one.config for one in self._sent])
        self._sent = []

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next configurations that their template accepts, None at the end."""
        self.post_tuning()
        while not self._sent and self._tuner.ttl > 0:
            configs = self._tuner.propose(int(min(self._size, self._tuner.ttl)))
            if not configs:
                break
            self._sent = [made for made in map(self._made, configs) if made is not None]
        return list(self._sent) or None

    def _made(self, config: ConfigEntity) -> _Proposal | None:
        tuner = self._tuner
        try:
            return _Proposal(tuner.task.instantiate(config), config)
        except InstantiationError as error:
            number, text = MeasureErrorNo.INSTANTIATION_ERROR, str(error)
        except TuningError:
            raise
        except Exception as error:  # noqa: BLE001  a template may raise anything for some values
            number = MeasureErrorNo.COMPILE_HOST
            text = f"the template fails: {type(error).__name__}: {error}"
        assert isinstance(self.context, _TunedTask)
        self._refused = self._refused or text
        inp = MeasureInput(tuner.task.target or Target(), tuner.task, config)
        self.context.trials.add(inp, MeasureResult.failed(number, text))
        return None

    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Take note of which candidates were measured; the tuner has learned their results."""
        self._sent = [one for one in self._sent if one not in candidates]

    def why_nothing(self) -> str | None:
        """Return why the first configuration was refused."""
        return self._refused


class _Trials(MeasureCallback):
    """Gives each trial of the search to a tuner and its callbacks, and logs it."""

    def __init__(self, tuner: Tuner, callbacks: Sequence[Callback], si_prefix: str) -> None:
        self._tuner = tuner
        self._callbacks = callbacks
        self._prefix = si_prefix
        self._count = 0

    def apply_to_trial(
        self,
        run: Run,
        task_id: int,
        candidate: MeasureCandidate,
        builder_result: BuilderResult,
        runner_result: RunnerResult,
    ) -> None:
        """Enter a trial."""
        context = run.tasks[task_id].ctx
        assert isinstance(context, _TunedTask)
        self.add(context.input_of(candidate), MeasureResult.of_trial(builder_result, runner_result))

    def add(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Enter a trial; the tuner learns from it unless its strategy does."""
        tuner = self._tuner
        flops = tuner.flops(result)
        if flops > tuner.best_flops:
            tuner.best_flops = flops
            tuner.best_config = inp.config
            tuner.best_measure_pair = (inp, result)
            tuner.best_iter = self._count
        self._count += 1
        tuner.ttl = min(tuner.best_iter + tuner.early_stopping, tuner.n_trial) - self._count
        logger.debug(
            "No: %d\t%sFLOPS: %.2f/%.2f\tresult: %s\t%s",
            self._count,
            self._prefix,
            in_si_unit(flops, self._prefix),
            in_si_unit(tuner.best_flops, self._prefix),
            result,
            inp.config,
        )
        tuner.note_trial(inp, result)
        for callback in self._callbacks:
            callback(tuner, [inp], [result])


@contextmanager
def _tuning() -> Iterator[None]:
    before = GLOBAL_SCOPE.in_tuning
    GLOBAL_SCOPE.in_tuning = True
    try:
        yield
    finally:
        GLOBAL_SCOPE.in_tuning = before


def _unscheduled(sch: Schedule) -> None:
    """Leave a schedule as it is: proposals bring schedules of their own."""


def _built_at_once(builder: Builder, runner: Runner) -> int:
    if isinstance(runner, DaskRunner):
        there = sum(machine.at_once for machine in runner.machines().values())
    else:
        there = getattr(builder, "max_workers", 1)
    return max(_LEAST_BATCH, there)


def _given(task: Task, runner: Runner) -> dict[str, Any] | None:
    """Return the `ref_input` of a runner by the names of parameters, None if there is none."""
    arrays = runner.ref_input if isinstance(runner, LocalRunner) else None
    if arrays is None:
        return None
    names = [param.name for param in task.mod.prim_func("main").params]
    if len(names) != len(arrays):
        raise TemplateError(
            f"ref_input has {len(arrays)} array(s), the program takes {len(names)}: give one for "
            "each argument"
        )
    return dict(zip(names, arrays, strict=True))


class MeasureBatch:
    """Measures configurations of one task without a tuner: `batch(inputs)` returns their results.

    `option` is of `measure_option`; TemplateError for one without a builder or a runner.
    """

    def __init__(self, task: Task, option: Mapping[str, Any]) -> None:
        self._task = task
        self._option = option
        self._database = MemoryDatabase()  # has the best of earlier calls

    def __call__(self, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """Return the results of all, in their order."""
        found: dict[int, MeasureResult] = {}

        def note(_: Tuner, done: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
            found.update((id(i.config), r) for i, r in zip(done, results, strict=True))

        tuner = Tuner(self._task, seed=1)
        tuner.database = self._database
        tuner.postpone([inp.config for inp in inputs])
        tuner.tune(len(inputs), self._option, callbacks=[note])
        return [found[id(inp.config)] for inp in inputs]


create_measure_batch = MeasureBatch


def checked_si_prefix(prefix: str) -> str:
    """Return a prefix; TemplateError unless it is one known letter, or blank."""
    if len(prefix) != 1 or prefix not in _PREFIXES:
        raise TemplateError(f"si_prefix is one of {list(_PREFIXES)}, got {prefix!r}")
    return prefix


def in_si_unit(value: float, prefix: str) -> float:
    """Return a number in the unit of a prefix: 2e9 is 2 with G."""
    return float(value * 1000.0 ** (_PREFIXES.index(" ") - _PREFIXES.index(prefix)))
