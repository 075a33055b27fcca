"""The policies by which the spaces of tasks are made, and the search of several of them."""

from __future__ import annotations

import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from schedule import Schedule
from schedule.random_state import RandomState
from search.auto_scheduler.search_task import SearchTask
from search.auto_scheduler.tuning.callbacks import CollectMeasurements, TaskContext
from search.auto_scheduler.tuning.cost_model import XGBModel
from search.auto_scheduler.tuning.options import TuningOptions
from search.auto_scheduler.tuning.preload import SearchCallback
from search.auto_scheduler.tuning.sketch_params import SketchParams
from search.cost_model import CostModel, RandomModel
from search.database import MemoryDatabase
from search.dispatch.find_schedule import find_schedule
from search.errors import TuningError
from search.kinds import instances
from search.measure_callback import MeasureCallback
from search.postproc import Postproc, RewriteLayout
from search.runs.tuning_run import TuningRun
from search.search_strategy import EvolutionarySearch
from search.sketch_policy import Sketch, sketches
from search.space_generator import PostOrderApply, SpaceGenerator
from search.space_generator.space_generator import preset_kind
from search.task_scheduler import GradientBased
from search.task_scheduler.learn_from_records import learn_from_records
from search.tune_config import TuneConfig

if TYPE_CHECKING:
    from search.auto_scheduler.log.record import MeasureInput, MeasureResult
    from search.database import Database
    from search.schedule_rule import ScheduleRule
    from search.task_scheduler import TaskScheduler

_SAMPLED_AT_FIRST: Final = 50
_CANDIDATES: Final = 64
"""The trials that a search without any is planned for: it breeds as many as one with them."""
_POLICIES: Final = ("default", "sketch.xgb", "sketch.random")


class SearchPolicy(ABC):
    """A task with the space that it is searched in, and what is known of it.

    `database` has what was measured, `cost_model` learns from it. `seed` makes the sampling
    reproducible; None takes one from the device. `verbose` 0 shows nothing where no options say
    otherwise. `init_search_callbacks` prepare the policy, see `preload`.
    """

    def __init__(
        self,
        task: SearchTask,
        program_cost_model: CostModel | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Iterable[SearchCallback] | None = None,
    ) -> None:
        if not isinstance(task, SearchTask):
            raise TuningError(f"a policy is of a SearchTask, got {task!r}")
        if program_cost_model is not None and not isinstance(program_cost_model, CostModel):
            raise TuningError(f"program_cost_model is a CostModel, got {program_cost_model!r}")
        self.search_task = task
        self.verbose = verbose
        self.cost_model = RandomModel(seed) if program_cost_model is None else program_cost_model
        self.database = MemoryDatabase()
        self.custom_rules: list[ScheduleRule] = []
        self._random = RandomState(-1 if seed is None else seed)
        callbacks = () if init_search_callbacks is None else init_search_callbacks
        for callback in instances(SearchCallback, "init_search_callbacks", callbacks):
            callback.apply(self)

    @abstractmethod
    def space_generator(self) -> SpaceGenerator:
        """Return the generator of the design spaces of the task."""

    def search_strategy(self) -> EvolutionarySearch:
        """Return the strategy that searches them."""
        return EvolutionarySearch()

    def context(self) -> TaskContext:
        """Return the task as the search takes it, with a seed of its own."""
        return TaskContext(
            self.search_task, self.space_generator(), self.search_strategy(), self._random.fork()
        )

    def tune(self, options: TuningOptions) -> Schedule | None:
        """Search, and return the best schedule: the best that was measured, None if all failed.

        With `num_measure_trials` 0 it is the one that the cost model expects most of.
        """
        if options.num_measure_trials == 0:
            return self._most_promising()
        measured_search([self], [1.0], options, GradientBased(), self.database)
        return self.best()

    def search(
        self,
        num_measure_trials: int,
        early_stopping: int | None = None,
        num_measures_per_round: int = 64,
        measurer: TuningOptions | None = None,
    ) -> Schedule | None:
        """Search as `tune` does, with what `measurer` says of how to measure."""
        extent = replace(
            measurer or TuningOptions(verbose=self.verbose),
            num_measure_trials=num_measure_trials,
            early_stopping=early_stopping,
            num_measures_per_round=num_measures_per_round,
        )
        return self.tune(extent)

    def continue_search_one_round(
        self, num_measure: int, measurer: TuningOptions | None = None
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Measure `num_measure` candidates more, and return them and what came of them.

        What earlier rounds have measured is known: a round goes on where the one before ended.
        """
        collected = CollectMeasurements()
        options = measurer or TuningOptions(verbose=self.verbose)
        options = replace(
            options,
            num_measure_trials=num_measure,
            num_measures_per_round=num_measure,
            measure_callbacks=[*options.callbacks(), collected],
        )
        measured_search([self], [1.0], options, GradientBased(), self.database, num_confirmed=0)
        return collected.inputs, collected.results

    def best(self) -> Schedule | None:
        """Return the best schedule that was measured, None without one."""
        task = self.search_task
        found = find_schedule(self.database, task.mod, task.target)
        return None if found is None else found.schedule

    def _most_promising(self) -> Schedule:
        with self._searching(_CANDIDATES) as strategy:
            candidates = strategy.generate_measure_candidates()
            if not candidates:
                why = strategy.why_nothing() or "all that the policy can find were measured"
                raise TuningError(f"there is no program of {self.search_task}: {why}")
        return candidates[0].sch

    @contextmanager
    def _searching(self, count: int) -> Iterator[EvolutionarySearch]:
        """Return a search of so many candidates, which begins with what is known."""
        context = self.context()
        strategy = context.search_strategy
        assert isinstance(strategy, EvolutionarySearch)
        learn_from_records(self.cost_model, self.database, context)
        context.pre_tuning(count, count, None, self.database, self.cost_model)
        try:
            yield strategy
        finally:
            context.post_tuning()


class SketchPolicy(SearchPolicy):
    """Derives sketches by rules and searches them by evolution, guided by a cost model.

    The rules are those that suit the target. `params` changes numbers of the search by Ansor's
    names, see `SketchParams`; what is not given has the defaults of this search, which are not
    always Ansor's. `params={"rules": "ansor"}` leaves out rules that Ansor does not have. Without
    `program_cost_model` the search is random, as Ansor's.

    The states of Ansor are schedules here: fully decided programs with their traces.
    """

    def __init__(
        self,
        task: SearchTask,
        program_cost_model: CostModel | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Iterable[SearchCallback] | None = None,
    ) -> None:
        self.params = SketchParams.of(params)
        super().__init__(task, program_cost_model, seed, verbose, init_search_callbacks)

    def space_generator(self) -> SpaceGenerator:
        """Return a generator with the rules of the user before those of the target.

        Layouts are rewritten as the task says.
        """
        task = self.search_task
        postprocs = [
            task.layout_rewrite_option.postproc() if isinstance(usual, RewriteLayout) else usual
            for usual in Postproc.create(preset_kind(task.target))
        ]
        return PostOrderApply(
            sch_rules=[*self.custom_rules, *self.params.schedule_rules(task.target)],
            postprocs=[postproc for postproc in postprocs if postproc is not None],
        )

    def search_strategy(self) -> EvolutionarySearch:
        """Return an evolutionary search with the numbers of the parameters."""
        return self.params.search_strategy()

    def generate_sketches(self, print_for_debug: bool = False) -> list[Sketch]:
        """Return the sketches of the task: its design spaces, printed as Ansor prints them."""
        task = self.search_task
        made = sketches(task.mod, task.target, self.space_generator())
        if print_for_debug:
            for sketch in made:
                sys.stdout.write(f"{sketch}\n")
        return made

    def sample_initial_population(self) -> list[Schedule]:
        """Return random programs of the sketches, `sample_init_min_population` of them or 50."""
        count = self.params.sample_init_min_population or _SAMPLED_AT_FIRST
        with self._searching(count) as strategy:
            return [candidate.sch for candidate in strategy.sample(count)]

    def evolutionary_search(
        self, init_populations: Sequence[Schedule], out_size: int
    ) -> list[Schedule]:
        """Return the best of an evolution from these programs, as the model sees them."""
        with self._searching(out_size) as strategy:
            return [candidate.sch for candidate in strategy.evolve(init_populations, out_size)]


class EmptyPolicy(SearchPolicy):
    """Leaves the program as it is; a search measures that once."""

    def __init__(
        self,
        task: SearchTask,
        init_search_callbacks: Iterable[SearchCallback] | None = None,
    ) -> None:
        super().__init__(task, init_search_callbacks=init_search_callbacks)

    def space_generator(self) -> SpaceGenerator:
        """Return a generator of one space, without choices."""
        return PostOrderApply(sch_rules=[], postprocs=[], mutator_probs={})

    def best(self) -> Schedule:
        """Return the schedule that does nothing."""
        return Schedule(self.search_task.mod)


def tune_task(
    task: SearchTask,
    tuning_options: TuningOptions,
    search_policy: SearchPolicy | None = None,
    adaptive_training: bool = False,
) -> Schedule | None:
    """Search for the best schedule of a task and return it, None if every trial failed.

    Without a policy it is a `SketchPolicy` with an `XGBModel`, for which `adaptive_training` is.
    With `num_measure_trials` 0 nothing is measured: the result is what the model expects most of.
    """
    if not isinstance(tuning_options, TuningOptions):
        raise TuningError(f"tuning_options is a TuningOptions(...), got {tuning_options!r}")
    if not isinstance(search_policy, SearchPolicy | None):
        raise TuningError(
            f"search_policy is a policy such as SketchPolicy(task, XGBModel()), got "
            f"{search_policy!r}"
        )
    given = "default" if search_policy is None else [search_policy]
    (policy,) = make_policies(given, [task], adaptive_training=adaptive_training)
    return policy.tune(tuning_options)


def make_policies(
    policy: str | Sequence[SearchPolicy],
    tasks: Sequence[SearchTask],
    params: Mapping[str, Any] | None = None,
    adaptive_training: bool = False,
    model_file: str | os.PathLike[str] | None = None,
    verbose: int = 1,
) -> list[SearchPolicy]:
    """Return a policy for each task, which share one cost model.

    `policy` is `"default"`, `"sketch.xgb"`, `"sketch.random"`, or the policies themselves, which
    have their parameters and their model already. TuningError for anything else, and for what the
    policy has no use for.
    """
    if not isinstance(policy, str):
        given: list[SearchPolicy] = instances(SearchPolicy, "search_policy", policy)
        of = [made.search_task for made in given]
        if of != list(tasks):
            raise TuningError(
                "search_policy has a policy for each task, in their order: it is of "
                f"{', '.join(map(str, of))}, the tasks are {', '.join(map(str, tasks))}"
            )
        if params is not None or model_file is not None or adaptive_training:
            raise TuningError(
                "finished policies have their parameters and their cost model: leave out "
                "search_policy_params, load_model_file and adaptive_training, and give them to "
                "SketchPolicy and XGBModel"
            )
        return given
    if policy not in _POLICIES:
        raise TuningError(
            f"search_policy is one of {', '.join(map(repr, _POLICIES))} or a policy for each task, "
            f"got {policy!r}"
        )
    model: CostModel
    if policy != "sketch.random":
        model = XGBModel(adaptive_training=adaptive_training, model_file=model_file)
    elif model_file is None and not adaptive_training:
        model = RandomModel()
    else:
        raise TuningError(
            "'sketch.random' learns nothing: leave out load_model_file and adaptive_training"
        )
    return [SketchPolicy(task, model, params, verbose=verbose) for task in tasks]


def measured_search(
    policies: Sequence[SearchPolicy],
    weights: Sequence[float],
    options: TuningOptions,
    scheduler: TaskScheduler,
    database: Database,
    *,
    per_task_early_stopping: int | None = None,
    num_confirmed: int = 4,
) -> None:
    """Search the task of each policy until the trials of `options` are made, or nothing is left.

    What is found goes to `database`, and what that has already is not measured again. The policies
    have one cost model, which learns from all tasks. Ctrl-C ends it as the
    options say; what was measured is kept.
    """
    config = TuneConfig(
        options.num_measure_trials,
        options.num_measures_per_round,
        num_confirmed=num_confirmed,
        early_stopping=options.early_stopping,
        early_stopping_per_task=per_task_early_stopping,
    )
    builder, runner = options.measuring_parts()
    with (
        tempfile.TemporaryDirectory(prefix="auto_scheduler_") as folder,
        TuningRun.open(
            [policy.context() for policy in policies],
            weights,
            folder,
            config,
            builder=builder,
            runner=runner,
            database=database,
            cost_model=_common_model(policies),
            measure_callbacks=[*MeasureCallback.create("default"), *options.callbacks()],
            task_scheduler=scheduler,
            verbose=options.verbose,
        ) as run,
    ):
        run.tune(options.on_interrupt)


def _common_model(policies: Sequence[SearchPolicy]) -> CostModel:
    """Return the model of the policies, of which those that know nothing count as one."""
    models = {id(policy.cost_model): policy.cost_model for policy in policies}
    first, *others = models.values()
    if others and any(model.trained for model in models.values()):
        raise TuningError(
            f"the policies of one search share a cost model, these have {len(models)}; pass the "
            "same program_cost_model to each"
        )
    return first
