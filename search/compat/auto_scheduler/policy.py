"""Sketch policies: the design spaces and the search strategy of a task, by Ansor's names."""

from __future__ import annotations

import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from schedule import BlockRV, ExpiredHandleError, Schedule
from schedule.random_state import RandomState
from search import cost_model
from search.compat.auto_scheduler.callbacks import RecordToFile, TaskContext
from search.compat.auto_scheduler.history import to_database
from search.compat.auto_scheduler.options import TuningOptions
from search.compat.auto_scheduler.records import (
    MeasureInput,
    MeasureResult,
    RecordReader,
    load_records,
)
from search.compat.auto_scheduler.sketch_policy import Sketch, sketches
from search.compat.auto_scheduler.task import WorkloadTask
from search.context import TuneContext
from search.cost_model import CostModel, RandomModel, XGBConfig
from search.database import MemoryDatabase
from search.database.best_records import latest_records
from search.errors import TuningError
from search.history.find_schedule import find_schedule
from search.kinds import instances
from search.loop import tune_run
from search.postproc import Postproc, RewriteLayout
from search.run import Run
from search.runs.next_batch import learn, learn_from_records
from search.schedule_rule import RandomComputeLocation, ScheduleRule
from search.search_strategy import EvolutionarySearch
from search.space_generator import PostOrderApply, SpaceGenerator
from search.space_generator.annotations import SCHEDULE_RULE
from search.space_generator.space_generator import preset_kind

if TYPE_CHECKING:
    from codegen import Target
    from search.database import TuningRecord, Workload

MeetCondition: TypeAlias = "Callable[[SketchPolicy, Schedule, BlockRV], int]"
ApplyRule: TypeAlias = "Callable[[SketchPolicy, Schedule, BlockRV], Sequence[Any]]"


class SearchCallback(ABC):
    """Is called once with a policy, when the policy is made."""

    @abstractmethod
    def apply(self, policy: SketchPolicy) -> None:
        """Prepare a policy."""


class PreloadMeasuredStates(SearchCallback):
    """Loads the records that a log has of the task of a policy.

    They seed the search, teach the cost model, and are not measured again. Raises OSError for a log
    that cannot be opened.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = filename

    def apply(self, policy: SketchPolicy) -> None:
        """Load the records of the task."""
        key = policy.search_task.workload_key
        of_task = (r for r in load_records(self.filename) if r.input.task.workload_key == key)
        to_database(of_task, policy.database)


class PreloadCustomSketchRule(SearchCallback):
    """Adds a user-defined rule, which is applied to each block before the other rules.

    `meet_condition_func(policy, sch, block)` returns PASS to skip the rule, APPLY to keep the
    schedule without it as another sketch, or APPLY_AND_SKIP_REST to drop that. Then
    `apply_func(policy, sch, block)` may change `sch` and returns `[[schedule, next], ...]`: with
    the block for `next` the other rules are applied to the block of that schedule, with None they
    are not (Ansor returns the number of the next stage). A state of Ansor is a `Schedule` here, and
    a stage a block. The trace records the rule, and its samples are part of the search.
    """

    PASS: Final = 0
    APPLY: Final = 1
    APPLY_AND_SKIP_REST: Final = 2

    def __init__(
        self,
        meet_condition_func: MeetCondition,
        apply_func: ApplyRule,
        rule_name: str = "CustomSketchRule",
    ) -> None:
        self.meet_condition_func = meet_condition_func
        self.apply_func = apply_func
        self.rule_name = rule_name

    def apply(self, policy: SketchPolicy) -> None:
        """Add the rule."""
        policy.custom_rules.append(CustomSketchRule(self, policy))


class CustomSketchRule(ScheduleRule):
    """The rule of a `PreloadCustomSketchRule` as a rule of the search."""

    def __init__(self, rule: PreloadCustomSketchRule, policy: SketchPolicy) -> None:
        self._rule = rule
        self._policy = policy

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the schedules that the functions make of a block."""
        rule = self._rule
        condition = rule.meet_condition_func(self._policy, sch, block)
        if condition == rule.PASS:
            return [sch]
        made = [sch.copy()] if condition == rule.APPLY else []
        for result, following in rule.apply_func(self._policy, sch, block):
            if following not in (None, block):
                raise TuningError(
                    f"{self} must return [[schedule, next], ...] where next is the block or None, "
                    f"got {following!r}"
                )
            if following is None:
                with suppress(ExpiredHandleError):  # The rule may have removed the block.
                    result.get_sref(block)
                    result.annotate(block, SCHEDULE_RULE, "None")
            made.append(result)
        return made

    def __str__(self) -> str:
        return self._rule.rule_name


_FIRST_SAMPLE: Final = 50
_CANDIDATES: Final = 64
"""The number of candidates that a search without trials is planned for."""
_POLICIES: Final = ("default", "sketch.xgb", "sketch.random")

_STRATEGY_PARAMS: Final = {
    "eps_greedy": "eps_greedy",
    "sample_init_min_population": "init_min_unmeasured",
    "sample_init_use_measured_ratio": "init_measured_ratio",
    "evolutionary_search_population": "population_size",
    "evolutionary_search_num_iters": "genetic_num_iters",
    "evolutionary_search_mutation_prob": "genetic_mutate_prob",
}
_RULE_PARAMS: Final = {
    "cpu_multi_level_tiling_structure": "structure",
    "max_innermost_split_factor": "innermost",
    "max_vectorize_size": "vector",
}
_PARAMS: Final = (*_STRATEGY_PARAMS, *_RULE_PARAMS, "disable_change_compute_location")


class XGBModel(cost_model.XGBModel):
    """The cost model `search.cost_model.XGBModel` with Ansor's arguments.

    Up to `num_warmup_sample` measurements, scores are estimates from the loops of a program; in
    Ansor they are random up to 100. With `adaptive_training` it is trained again after a fifth more
    data. Every `verbose_eval` rounds of training are logged. `save` writes a `model_file`.
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
        """Learn from the first `n_lines` records of a log (None: all); return their number.

        Known records and records that do not replay are skipped.
        """
        groups: dict[tuple[Workload, Target | None], list[TuningRecord]] = {}
        for record in to_database(file_name, n_lines=n_lines).get_all_tuning_records():
            groups.setdefault((record.workload, record.target), []).append(record)
        return sum(
            learn(self, TuneContext(workload.mod, target=target), latest_records(records))
            for (workload, target), records in groups.items()
        )


class SketchPolicy:
    """Generates sketches by rules and searches them by evolution, guided by a cost model.

    The rules are those of the target. Without `program_cost_model` scores are random, as in Ansor.
    The states of Ansor are schedules here: fully decided programs with their traces.

    `database` holds the measurements, and `cost_model` learns from them. `seed` makes the sampling
    reproducible; None takes one from the device. `verbose` 0 shows nothing where no options say
    otherwise. `init_search_callbacks` prepare the policy (`SearchCallback`).

    `params` overrides numbers of the search by Ansor's names. The defaults are those of this search
    (in brackets), which may differ from Ansor's and depend on the number of trials.

    | parameter | meaning |
    | --- | --- |
    | `eps_greedy` | the fraction of random candidates in a batch (0.05) |
    | `sample_init_min_population` | the minimum of random individuals (16; first sample 50) |
    | `sample_init_use_measured_ratio` | the fraction of measured individuals (0.25) |
    | `evolutionary_search_population` | the size of a generation (64 to 2048) |
    | `evolutionary_search_num_iters` | the number of generations (3) |
    | `evolutionary_search_mutation_prob` | the probability of a mutation (0.85), else a cross |
    | `cpu_multi_level_tiling_structure` | the levels of tiles (`"SSRSRS"`) |
    | `max_innermost_split_factor` | the longest innermost tile (64, on ARM 32) |
    | `max_vectorize_size` | the longest vector loop (64, on ARM 32; Ansor has 16) |
    | `disable_change_compute_location` | 1 keeps the places of untiled blocks (0) |
    """

    def __init__(
        self,
        task: WorkloadTask,
        program_cost_model: str | CostModel | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Iterable[SearchCallback] | None = None,
    ) -> None:
        if not isinstance(task, WorkloadTask):
            raise TuningError(f"the task of a policy is a SearchTask, got {task!r}")
        self.search_task = task
        self.params = {name: v for name, v in (params or {}).items() if v is not None}
        for name in self.params:
            if name not in _PARAMS:
                known = ", ".join(_PARAMS)
                raise TuningError(f"unknown sketch policy parameter {name!r}; expected {known}")
        self.verbose = verbose
        self.cost_model: CostModel = RandomModel(seed)
        if program_cost_model is not None:
            self.cost_model = CostModel.kinds.part(program_cost_model)
        self.database = MemoryDatabase()
        self.custom_rules: list[ScheduleRule] = []
        self._random = RandomState(-1 if seed is None else seed)
        callbacks = () if init_search_callbacks is None else init_search_callbacks
        for callback in instances(SearchCallback, "init_search_callbacks", callbacks):
            callback.apply(self)

    def space_generator(self) -> SpaceGenerator:
        """Return a generator with the user's rules before those of the target.

        Layouts are rewritten by the option of the task.
        """
        kind = preset_kind(self.search_task.target)
        rules = ScheduleRule.create(kind, **self._overrides(_RULE_PARAMS))
        if self.params.get("disable_change_compute_location"):
            rules = [rule for rule in rules if not isinstance(rule, RandomComputeLocation)]
        postprocs = [
            self.search_task.layout_rewrite_option.postproc()
            if isinstance(usual, RewriteLayout)
            else usual
            for usual in Postproc.create(kind)
        ]
        return PostOrderApply(
            sch_rules=[*self.custom_rules, *rules],
            postprocs=[postproc for postproc in postprocs if postproc is not None],
        )

    def _overrides(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return the parameters in `names` under their names in this search."""
        return {names[name]: value for name, value in self.params.items() if name in names}

    def context(self) -> TaskContext:
        """Return the task of the search, with a new seed."""
        return TaskContext(
            self.search_task,
            space_generator=self.space_generator(),
            search_strategy=EvolutionarySearch(**self._overrides(_STRATEGY_PARAMS)),
            rand_state=self._random.fork(),
        )

    def tune(self, options: TuningOptions) -> Schedule | None:
        """Search, and return the best measured schedule, None if all trials failed.

        With `num_measure_trials` 0 it is the schedule with the best prediction.
        """
        if options.num_measure_trials > 0:
            measured_search([self], [1.0], options, database=self.database)
            return self.best()
        with self._searching(_CANDIDATES) as strategy:
            candidates = strategy.generate_measure_candidates()
            if not candidates:
                why = strategy.failure_summary() or "all candidates were measured before"
                raise TuningError(f"the search of {self.search_task} found no candidate: {why}")
        return candidates[0].sch

    def continue_search_one_round(
        self, num_measure: int, measurer: TuningOptions | None = None
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Measure `num_measure` more candidates, and return them and their results.

        A round resumes after the round before it. `measurer` has the builder and the runner.
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
        """Return the best measured schedule, None without one."""
        task = self.search_task
        found = find_schedule(self.database, task.mod, task.target)
        return None if found is None else found.schedule

    @contextmanager
    def _searching(self, count: int) -> Iterator[EvolutionarySearch]:
        """Yield a strategy for `count` candidates, trained on the earlier measurements."""
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
        """Return the sketches of the task: its design spaces, printed in Ansor's form."""
        task = self.search_task
        found = sketches(task.mod, task.target, self.space_generator())
        if print_for_debug:
            sys.stdout.writelines(f"{sketch}\n" for sketch in found)
        return found

    def sample_initial_population(self) -> list[Schedule]:
        """Return random programs of the sketches, `sample_init_min_population` of them or 50."""
        count = self.params.get("sample_init_min_population", _FIRST_SAMPLE)
        with self._searching(count) as strategy:
            return [candidate.sch for candidate in strategy.sample(count)]

    def evolutionary_search(
        self, init_populations: Sequence[Schedule], out_size: int
    ) -> list[Schedule]:
        """Evolve these programs, and return those with the best predictions."""
        with self._searching(out_size) as strategy:
            return [candidate.sch for candidate in strategy.evolve(init_populations, out_size)]


class EmptyPolicy(SketchPolicy):
    """Leaves the program unscheduled; a search measures it once."""

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
        """Return the empty schedule."""
        return Schedule(self.search_task.mod)


def make_policies(
    policy: str | Sequence[SketchPolicy],
    tasks: Sequence[WorkloadTask],
    params: Mapping[str, Any] | None = None,
    adaptive_training: bool = False,
    model_file: str | os.PathLike[str] | None = None,
    verbose: int = 1,
) -> list[SketchPolicy]:
    """Return a policy for each task; the policies share one cost model.

    `policy` is `"default"`, `"sketch.xgb"`, `"sketch.random"`, or the policies themselves.
    Raises TuningError for anything else, and for arguments that the policy would ignore.
    """
    if isinstance(policy, str):
        if policy not in _POLICIES:
            raise TuningError(
                f"unknown search_policy {policy!r}; expected one of "
                f"{', '.join(map(repr, _POLICIES))} or a policy for each task"
            )
        model: CostModel
        if policy != "sketch.random":
            model = XGBModel(adaptive_training=adaptive_training, model_file=model_file)
        elif model_file is None and not adaptive_training:
            model = RandomModel()
        else:
            raise TuningError(
                "'sketch.random' does not learn: leave out load_model_file and adaptive_training"
            )
        return [SketchPolicy(task, model, params, verbose=verbose) for task in tasks]
    given: list[SketchPolicy] = instances(SketchPolicy, "search_policy", policy)
    if [made.search_task for made in given] != list(tasks):
        raise TuningError(
            f"search_policy has policies for {', '.join(str(p.search_task) for p in given)}; "
            f"expected one for each task in order: {', '.join(map(str, tasks))}"
        )
    if params is not None or model_file is not None or adaptive_training:
        raise TuningError(
            "search_policy_params, load_model_file and adaptive_training are for a policy that is "
            "given by name; pass them to SketchPolicy and XGBModel"
        )
    return given


def measured_search(
    policies: Sequence[SketchPolicy],
    weights: Sequence[float],
    options: TuningOptions,
    **others: Any,
) -> None:
    """Search the task of each policy until the trials of `options` are used up.

    `others` are fields of `TuneConfig`; records of its database are not measured again. The
    policies share one cost model, which learns from all tasks.
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
