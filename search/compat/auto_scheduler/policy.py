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
from search import cost_model
from search.compat.auto_scheduler.callbacks import RecordToFile, TaskContext
from search.compat.auto_scheduler.history import to_database
from search.compat.auto_scheduler.options import TuningOptions
from search.compat.auto_scheduler.records import MeasureInput, MeasureResult, RecordReader
from search.compat.auto_scheduler.sketch_params import (
    checked_params,
    schedule_rules,
    search_strategy,
)
from search.compat.auto_scheduler.sketch_policy import Sketch, sketches
from search.compat.auto_scheduler.task import WorkloadTask
from search.context import TuneContext
from search.cost_model import CostModel, RandomModel, XGBConfig
from search.database import MemoryDatabase
from search.database.best_records import those_that_count
from search.errors import TuningError
from search.history.find_schedule import find_schedule
from search.kinds import instances
from search.loop import tune_run
from search.postproc import Postproc, RewriteLayout
from search.run import Run
from search.runs.learn_from_records import learn, learn_from_records
from search.search_strategy import EvolutionarySearch
from search.space_generator import PostOrderApply, SpaceGenerator
from search.space_generator.space_generator import preset_kind

if TYPE_CHECKING:
    from codegen import Target
    from search.database import TuningRecord, Workload
    from search.schedule_rule import ScheduleRule

_SAMPLED_AT_FIRST: Final = 50
_CANDIDATES: Final = 64
"""The trials that a search without any is planned for: it breeds as many as one with them."""
_POLICIES: Final = ("default", "sketch.xgb", "sketch.random")


class XGBModel(cost_model.XGBModel):
    """Ranks candidates by trees that learned from measurements; see `search.cost_model.XGBModel`.

    Until `num_warmup_sample` measurements scores are estimates from the loops of a program, where
    Ansor's are random up to 100. With `adaptive_training` it is trained again only once there is a
    fifth more data. Every `verbose_eval` rounds of training are logged. `model_file` is a file that
    `save` wrote.
    """

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 12,
        seed: int | None = None,
        model_file: str | os.PathLike[str] | None = None,
        adaptive_training: bool = False,
    ) -> None:
        super().__init__(
            config=XGBConfig() if seed is None else XGBConfig(seed=seed),
            verbose_eval=verbose_eval,
            num_warmup_samples=num_warmup_sample,
            adaptive_training=adaptive_training,
        )
        if model_file is not None:
            self.load(model_file)

    def update_from_file(
        self, file_name: str | os.PathLike[str], n_lines: int | None = None
    ) -> int:
        """Learn from the first `n_lines` records of a log (None: all); return from how many.

        Those that the model knows are left out, and so are those that cannot be replayed.
        """
        groups: dict[tuple[Workload, Target | None], list[TuningRecord]] = {}
        for record in to_database(file_name, n_lines=n_lines).get_all_tuning_records():
            groups.setdefault((record.workload, record.target), []).append(record)
        return sum(
            learn(self, TuneContext(workload.mod, target=target), those_that_count(records))
            for (workload, target), records in groups.items()
        )


class SearchCallback(ABC):
    """Is called once with a policy, when that is made."""

    @abstractmethod
    def apply(self, policy: SketchPolicy) -> None:
        """Prepare a policy."""


class SketchPolicy:
    """Derives sketches by rules and searches them by evolution, guided by a cost model.

    The rules are those that suit the target. Without `program_cost_model` the search is random, as
    Ansor's. The states of Ansor are schedules here: fully decided programs with their traces.

    `database` has what was measured, `cost_model` learns from it. `seed` makes the sampling
    reproducible; None takes one from the device. `verbose` 0 shows nothing where no options say
    otherwise. `init_search_callbacks` prepare the policy, see `preload`.

    `params` changes numbers of the search by Ansor's names; what is not given, or None, has the
    default of this search (in brackets), which is not always Ansor's and may follow the budget.

    | parameter | what it says |
    | --- | --- |
    | `eps_greedy` | the share of a batch that is chosen at random (0.05) |
    | `sample_init_min_population` | the least random individuals (16; of the first sample 50) |
    | `sample_init_use_measured_ratio` | the share of a population that was measured (0.25) |
    | `evolutionary_search_population` | the size of a generation (by the budget, 64 to 2048) |
    | `evolutionary_search_num_iters` | the number of generations (3) |
    | `evolutionary_search_mutation_prob` | the probability of a mutation (0.85), else a cross |
    | `cpu_multi_level_tiling_structure` | the levels of tiles (`"SSRSRS"`) |
    | `max_innermost_split_factor` | the longest innermost tile (64, on ARM 32) |
    | `max_vectorize_size` | the longest vector loop (64, on ARM 32; Ansor has 16) |
    | `disable_change_compute_location` | 1 leaves blocks that are not tiled where they are (0) |
    | `rules` | `"ansor"` leaves out what Ansor has no rule for: `RFactorOverLanes`, intrinsics |
    """

    def __init__(
        self,
        task: WorkloadTask,
        program_cost_model: CostModel | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Iterable[SearchCallback] | None = None,
    ) -> None:
        if not isinstance(task, WorkloadTask):
            raise TuningError(f"a policy is of a SearchTask, got {task!r}")
        if program_cost_model is not None and not isinstance(program_cost_model, CostModel):
            raise TuningError(f"program_cost_model is a CostModel, got {program_cost_model!r}")
        self.search_task = task
        self.params = checked_params(params)
        self.verbose = verbose
        self.cost_model = RandomModel(seed) if program_cost_model is None else program_cost_model
        self.database = MemoryDatabase()
        self.custom_rules: list[ScheduleRule] = []
        self._random = RandomState(-1 if seed is None else seed)
        callbacks = () if init_search_callbacks is None else init_search_callbacks
        for callback in instances(SearchCallback, "init_search_callbacks", callbacks):
            callback.apply(self)

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
            sch_rules=[*self.custom_rules, *schedule_rules(self.params, task.target)],
            postprocs=[postproc for postproc in postprocs if postproc is not None],
        )

    def context(self) -> TaskContext:
        """Return the task as the search takes it, with a seed of its own."""
        return TaskContext(
            self.search_task,
            space_generator=self.space_generator(),
            search_strategy=search_strategy(self.params),
            rand_state=self._random.fork(),
        )

    def tune(self, options: TuningOptions) -> Schedule | None:
        """Search, and return the best schedule: the best that was measured, None if all failed.

        With `num_measure_trials` 0 it is the one that the cost model expects most of.
        """
        if options.num_measure_trials == 0:
            return self._most_promising()
        measured_search([self], [1.0], options, database=self.database)
        return self.best()

    def continue_search_one_round(
        self, num_measure: int, measurer: TuningOptions | None = None
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Measure `num_measure` candidates more, and return them and what came of them.

        What earlier rounds have measured is known: a round goes on where the one before ended.
        `measurer` says how to measure.
        """
        options = measurer or TuningOptions(verbose=self.verbose)
        with tempfile.NamedTemporaryFile(prefix="auto_scheduler_") as log:
            options = replace(
                options,
                num_measure_trials=num_measure,
                num_measures_per_round=num_measure,
                measure_callbacks=[*options.callbacks(), RecordToFile(log.name)],
            )
            measured_search([self], [1.0], options, database=self.database, num_confirmed=0)
            return RecordReader(log.name).read_lines()

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
        count = self.params.get("sample_init_min_population", _SAMPLED_AT_FIRST)
        with self._searching(count) as strategy:
            return [candidate.sch for candidate in strategy.sample(count)]

    def evolutionary_search(
        self, init_populations: Sequence[Schedule], out_size: int
    ) -> list[Schedule]:
        """Return the best of an evolution from these programs, as the model sees them."""
        with self._searching(out_size) as strategy:
            return [candidate.sch for candidate in strategy.evolve(init_populations, out_size)]


class EmptyPolicy(SketchPolicy):
    """Leaves the program as it is; a search measures that once."""

    def __init__(
        self,
        task: WorkloadTask,
        init_search_callbacks: Iterable[SearchCallback] | None = None,
    ) -> None:
        super().__init__(task, init_search_callbacks=init_search_callbacks)

    def space_generator(self) -> SpaceGenerator:
        """Return a generator of one space, without choices."""
        return PostOrderApply(sch_rules=[], postprocs=[], mutator_probs={})

    def best(self) -> Schedule:
        """Return the schedule that does nothing."""
        return Schedule(self.search_task.mod)


def make_policies(
    policy: str | Sequence[SketchPolicy],
    tasks: Sequence[WorkloadTask],
    params: Mapping[str, Any] | None = None,
    adaptive_training: bool = False,
    model_file: str | os.PathLike[str] | None = None,
    verbose: int = 1,
) -> list[SketchPolicy]:
    """Return a policy for each task, which share one cost model.

    `policy` is `"default"`, `"sketch.xgb"`, `"sketch.random"`, or the policies themselves, which
    have their parameters and their model already. TuningError for anything else, and for what the
    policy has no use for.
    """
    if not isinstance(policy, str):
        given: list[SketchPolicy] = instances(SketchPolicy, "search_policy", policy)
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
    policies: Sequence[SketchPolicy],
    weights: Sequence[float],
    options: TuningOptions,
    **others: Any,
) -> None:
    """Search the task of each policy until the trials of `options` are made, or nothing is left.

    `others` are fields of `TuneConfig`: of a database that is given, what it has is not measured
    again. The policies have one cost model, which learns from all tasks. Ctrl-C ends the search as
    the options say; what was measured is kept.
    """
    models = {id(policy.cost_model): policy.cost_model for policy in policies}
    model, *more = models.values()
    if more and any(one.trained for one in models.values()):
        raise TuningError(
            f"the policies of one search share a cost model, these have {len(models)}; pass the "
            "same program_cost_model to each"
        )
    contexts = [policy.context() for policy in policies]
    with (
        tempfile.TemporaryDirectory(prefix="auto_scheduler_") as folder,
        Run.open(contexts, weights, folder, options.config(cost_model=model, **others)) as run,
    ):
        tune_run(run)
