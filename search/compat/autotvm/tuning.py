"""The base class of tuners: a search strategy that proposes configurations by their indices."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from search.database.record_files import MeasureErrorNo
from search.errors import TuningError
from search.loop import tune_run
from search.measure_callback import MeasureCallback
from search.options import OnInterrupt, TuneConfig
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
"""The minimum size of a batch: while one configuration is measured, the others are built."""
_PREFIXES: Final = "yzafpnµm kMGTPEZY"
"""The prefixes of units, as in GFLOPS, each a thousand times the previous one."""


class Tuner(SearchStrategy):
    """Proposes configurations of a task, and learns from their measurements.

    A subclass proposes (`has_next`, `next_batch`) and may learn (`update`, `load_history`), or it
    returns another strategy of the search (`strategy`). `tune` is the same for all.

    `best_config` is the fastest so far, `best_flops` its operations per second, `best_measure_pair`
    its input and result, `best_iter` the number of its trial, from 0. `ttl` is the maximum number
    of trials left.

    The same `seed` and the same results give the same proposals; None uses a seed of the device.
    """

    cost_model: CostModel | None = None
    """The model of the strategy, if it needs one."""
    plan_size: int | None = None
    """The maximum size of a batch; None for as many as are built in parallel."""

    def __init__(self, task: Task, *, seed: int | None = None) -> None:
        self.task = task
        self.space = task.space
        # The first random numbers of neighbouring seeds are similar, but not those of their forks.
        self.rng: Final = RandomState(RandomState(-1 if seed is None else seed).fork())
        self.database: str | Database = "memory"
        """Stores the trials, so that `tune_tir` and `compile_tir` find the best."""
        self.n_trial = 0
        self.early_stopping = math.inf
        self.ttl = 0.0
        self.visited: set[int] = set()
        """The indices that were proposed or measured."""
        self.unmeasured: Sequence[ConfigEntity] = ()
        """The configurations that were proposed and not measured yet: `tune` starts with them."""
        self._batch_size = 0
        self._refused: str | None = None
        self.reset()

    def has_next(self) -> bool:
        """Return True if there is another configuration to measure."""
        return False

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next configurations, at least one and at most `batch_size`."""
        return []

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from the measurements of a batch, or from records of this task in a log."""
        self.visited.update(index for index in map(self.index_of, inputs) if index is not None)

    def note_trial(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Learn from a trial of `tune`."""
        self.update([inp], [result])

    def load_history(self, data_set: Iterable[Record], min_seed_records: int = 500) -> None:
        """Learn from records of another task; only tuners with a model do."""

    def strategy(self) -> tuple[SpaceArg, SearchStrategy]:
        """Return the design space and the strategy of the search in `tune`.

        The tuner itself needs no space, since its candidates are schedules of the template.
        """
        return lambda sch: None, self

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
        """Return the index of a configuration in the space, None if that is invalid.

        The values of a log count and not its index, which may be that of an older template.
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
        """Measure up to `n_trial` configurations by the parts of `autotvm.measure_option(...)`.

        It ends after `early_stopping` trials without a better one (None: never). Each callback is
        called after each trial with this tuner, its input and its result, in lists of one. The
        logger `autotvm` logs trials at DEBUG level, FLOPS with `si_prefix`. Ctrl-C ends tuning: the
        results so far are kept, and KeyboardInterrupt is raised again unless `on_interrupt` is
        "return". Raises TemplateError for an unknown prefix and an option without a builder or a
        runner, TuningError for a target that the runner cannot measure for.
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
            num_trials_per_iter=self.plan_size or _built_in_parallel(builder, runner),
            num_confirmed=0,
            builder=builder,
            runner=runner,
            database=self.database,
            cost_model=self.cost_model,
            measure_callbacks=[*MeasureCallback.create(), trials],
            verbose=0,
            on_interrupt=on_interrupt,
        )
        before, GLOBAL_SCOPE.in_tuning = GLOBAL_SCOPE.in_tuning, True
        try:
            with (
                tempfile.TemporaryDirectory() as folder,
                Run.open([context], [1.0], folder, config) as run,
            ):
                tune_run(run)
        finally:
            GLOBAL_SCOPE.in_tuning = before

    # ------------------------------------------------------------------ as a strategy of the search

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Start a search with batches of a size; the tuner keeps what it has learned earlier."""
        self._batch_size, self._refused = num_trials_per_iter, None

    def post_tuning(self) -> None:
        """End a search; unmeasured configurations are kept."""

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next configurations that their template accepts, None at the end."""
        while self.ttl > 0:
            size = int(min(self._batch_size, self.ttl))
            if not self.unmeasured:
                self.unmeasured = self.next_batch(size) if self.has_next() else ()
            if not self.unmeasured:
                break
            made = [self._candidate(config) for config in self.unmeasured[:size]]
            accepted = [candidate for candidate in made if candidate is not None]
            if accepted:
                return accepted
        return None

    def _candidate(self, config: ConfigEntity) -> MeasureCandidate | None:
        """Return the candidate of a configuration; if its template refuses it, the trial fails."""
        try:
            return _Proposal(self.task.instantiate(config), config)
        except InstantiationError as error:
            number, text = MeasureErrorNo.INSTANTIATION_ERROR, str(error)
        except TuningError:
            raise
        except Exception as error:  # noqa: BLE001  a template may raise anything for some values
            number = MeasureErrorNo.COMPILE_HOST
            text = f"the template fails: {type(error).__name__}: {error}"
        assert isinstance(self.context, _TunedTask)
        self._refused = self._refused or text
        inp = MeasureInput(self.task.target or Target(), self.task, config)
        self.context.trials.add(inp, MeasureResult.failed(number, text))
        return None

    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Do nothing: `note_trial` has been called with each result."""

    def failure_summary(self) -> str | None:
        """Return the reason why the first configuration was refused."""
        return self._refused


class _Proposal(MeasureCandidate):
    """A candidate of the search with the configuration that a tuner proposed."""

    def __init__(self, sch: Schedule, config: ConfigEntity) -> None:
        super().__init__(sch)
        self.config = config


class _TunedTask(TuneContext):
    """The task of a tuner in the loop of the search; it ends with the trials of the tuner."""

    def __init__(self, tuner: Tuner, trials: _Trials, runner: Runner) -> None:
        self.tuner = tuner
        self.trials = trials
        self._runner = runner
        space, strategy = tuner.strategy()
        super().__init__(
            tuner.task.mod,
            target=tuner.task.target or Target(),
            space_generator=space,
            search_strategy=strategy,
            task_name=tuner.task.name,
            rand_state=tuner.rng.fork(),
            input_data=_input_data(tuner.task, runner),
        )

    def input_of(self, candidate: MeasureCandidate) -> MeasureInput:
        """Return the configuration of a candidate as an input."""
        task = self.tuner.task
        known = isinstance(candidate, _Proposal)
        config = candidate.config if known else task.config_of(candidate.sch)  # type: ignore[attr-defined]
        return MeasureInput(task.target or Target(), task, config)

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch, None when the search or the trials of the tuner are over."""
        batch = super().generate_measure_candidates() if self.tuner.ttl > 0 else None
        if batch is not None:
            batch = batch[: max(0, int(min(self.tuner.ttl, len(batch))))]
            if isinstance(self._runner, Answers):
                self._runner.batch = list(map(self.input_of, batch))
        return batch


class _Trials(MeasureCallback):
    """Passes each trial of the search to a tuner and its callbacks, and logs it."""

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
        """Pass on a trial that was measured."""
        context = run.tasks[task_id].ctx
        assert isinstance(context, _TunedTask)
        self.add(context.input_of(candidate), MeasureResult.of_trial(builder_result, runner_result))

    def add(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Pass on a trial."""
        tuner = self._tuner
        flops = tuner.flops(result)
        if flops > tuner.best_flops:
            tuner.best_flops = flops
            tuner.best_config = inp.config
            tuner.best_measure_pair = (inp, result)
            tuner.best_iter = self._count
        tuner.unmeasured = [one for one in tuner.unmeasured if one is not inp.config]
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


def _built_in_parallel(builder: Builder, runner: Runner) -> int:
    if isinstance(runner, DaskRunner):
        count = sum(machine.at_once for machine in runner.machines().values())
    else:
        count = getattr(builder, "max_workers", 1)
    return max(_LEAST_BATCH, count)


def _input_data(task: Task, runner: Runner) -> dict[str, Any] | None:
    """Return the `ref_input` of a runner by the names of parameters, None if it has none."""
    arrays = runner.ref_input if isinstance(runner, LocalRunner) else None
    if arrays is None:
        return None
    names = [param.name for param in task.mod.prim_func("main").params]
    if len(names) != len(arrays):
        raise TemplateError(
            f"ref_input has {len(arrays)} array(s), the program has {len(names)} argument(s): pass "
            "an array for each"
        )
    return dict(zip(names, arrays, strict=True))


def create_measure_batch(
    task: Task, option: Mapping[str, Any]
) -> Callable[[Sequence[MeasureInput]], list[MeasureResult]]:
    """Return a function that measures configurations of a task, and returns results in their order.

    `option` is the result of `measure_option`; TemplateError if it lacks a builder or a runner.
    """
    database = MemoryDatabase()  # The tuner has the best results of earlier calls.

    def measure(inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        found: dict[int, MeasureResult] = {}

        def note(_: Tuner, done: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
            found.update((id(i.config), r) for i, r in zip(done, results, strict=True))

        tuner = Tuner(task, seed=1)
        tuner.database = database
        tuner.unmeasured = [inp.config for inp in inputs]
        tuner.tune(len(inputs), option, callbacks=[note])
        return [found[id(inp.config)] for inp in inputs]

    return measure


def checked_si_prefix(prefix: str) -> str:
    """Return a prefix; TemplateError unless it is one known letter, or blank."""
    if len(prefix) != 1 or prefix not in _PREFIXES:
        raise TemplateError(f"unknown si_prefix {prefix!r}; expected one of {list(_PREFIXES)}")
    return prefix


def in_si_unit(value: float, prefix: str) -> float:
    """Return a number in the unit of a prefix: 2e9 is 2 with G."""
    return float(value * 1000.0 ** (_PREFIXES.index(" ") - _PREFIXES.index(prefix)))
