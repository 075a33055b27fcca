"""A task with the parts that search it."""

from __future__ import annotations

import copy
import html
import logging
from collections.abc import Callable, Sequence
from typing import Any, Self

from numpy.typing import NDArray

from codegen import Target
from schedule import Schedule, Trace
from schedule.random_state import RandomState
from search.cost_model.cost_model import CostModel, RandomModel
from search.database.database import Database
from search.database.keyed_database import MemoryDatabase
from search.errors import TuningError
from search.runner import RunnerResult
from search.runner.arguments import InputData, checked_input_data
from search.runner.measure_candidate import MeasureCandidate
from search.runner.objective import Objective, ObjectiveArg
from search.search_strategy.individual import trace_key
from search.search_strategy.initial_schedules import InitialSchedules, traces_that_replay
from search.search_strategy.search_strategy import SearchStrategy
from search.space_generator.design_space import DesignSpace
from search.space_generator.restricted_space import Constraint, ConstraintFunction, constrain_spaces
from search.space_generator.space_generator import SpaceArg, SpaceGenerator
from search.task import Task
from tensorir.function import IRModule, PrimFunc

logger = logging.getLogger("tensorir.search")


class TuneContext(Task):
    """One program to tune for one target, with its space generator and search strategy.

    `space_generator` and `search_strategy` may be short names, and the former a schedule function.
    `rand_state` -1 means a random seed. `num_threads` is a count, `"physical"` or `"logical"` for
    the cores of this machine. A target without `num-cores` gets the number of cores of this
    machine.

    `input_data` has arrays to check and to measure the program on, by the names of parameters or of
    their buffers, or is a function that returns such a mapping; other arguments are random.
    Raises TuningError for names, shapes and dtypes that the program does not have.

    `initial_schedules` are measured before the candidates of the strategy, see `InitialSchedules`.
    `constraint` is a function of the decisions of a schedule by name (`NamedDecisions`), which
    returns True if the schedule may be tried. It is called before a candidate is built, for random
    samples, offspring, and records of the database. `initial_schedules` that are points of the
    design spaces have to satisfy it, others need not. `objective` ranks candidates, see
    `Objective`.

    The context initialises both parts; give each context its own, or `clone` it.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc | None = None,
        *,
        target: str | Target | None = None,
        space_generator: SpaceGenerator | str | Callable[..., Any] | None = None,
        search_strategy: SearchStrategy | str | None = None,
        task_name: str = "main",
        rand_state: int = -1,
        num_threads: int | str = "physical",
        logger: logging.Logger | None = None,
        input_data: InputData | None = None,
        initial_schedules: InitialSchedules | None = None,
        constraint: ConstraintFunction | None = None,
        objective: ObjectiveArg | None = None,
    ) -> None:
        super().__init__(mod, target, task_name, rand_state, num_threads, logger)
        self.space_generator: SpaceGenerator | None = (
            None if space_generator is None else SpaceGenerator.create(space_generator)
        )
        self.search_strategy: SearchStrategy | None = (
            None if search_strategy is None else SearchStrategy.create(search_strategy)
        )
        self.input_data = self._check_input_data(input_data)
        """The arguments that are not random, by position."""
        self.initial_schedules = self._replayable(initial_schedules)
        """The traces that are measured first."""
        self.default_traces: tuple[Trace, ...] = ()
        """The traces that are measured after those, not part of what a resumed run compares."""
        self.constraint = None if constraint is None else Constraint(constraint)
        self.objective = Objective.of(objective)
        """The function of a trial that is minimised."""
        self._points: tuple[Sequence[Schedule] | None, list[DesignSpace]] = None, []
        """The design spaces whose points were found last, which takes replays, and these points."""
        self.initialize()

    def _check_input_data(self, input_data: InputData | None) -> dict[int, NDArray[Any]]:
        if input_data is None:
            return {}
        return checked_input_data(self.program.prim_func("main"), input_data)

    def _replayable(self, given: InitialSchedules | None) -> tuple[Trace, ...]:
        if given is None:
            return ()
        return traces_that_replay(given, self.program, self.task_name)

    def initialize(self) -> None:
        """Initialise the space generator and the strategy with this context."""
        if self.space_generator is not None:
            self.space_generator._initialize_with_tune_context(self)
        if self.search_strategy is not None:
            self.search_strategy._initialize_with_tune_context(self)

    def is_finished_by(self, postproc: type[object]) -> bool | None:
        """Return True if a postprocessor of a class finishes each candidate; None if unknown."""
        if self.space_generator is None:
            return None
        return any(isinstance(part, postproc) for part in self.space_generator.postprocs)

    def clone(self) -> Self:
        """Return a context with cloned parts and a forked random stream, initialised anew."""
        twin = copy.copy(self)
        twin._points = None, []
        if self.space_generator is not None:
            twin.space_generator = self.space_generator.clone()
        if self.search_strategy is not None:
            twin.search_strategy = self.search_strategy.clone()
        twin.rand_state = RandomState(self.fork_seed())
        twin.initialize()
        return twin

    def points_of(
        self,
        design_spaces: Sequence[Schedule],
        seen: Callable[[int, Schedule], None] | None = None,
    ) -> list[DesignSpace]:
        """Return the points of design spaces of the task that its constraint allows.

        Spaces without an allowed point are left out. Some random points of each space are replayed;
        `seen` is called with the index of the space and the schedule of each. Raises TuningError if
        the constraint allows nothing.
        """
        given, known = self._points
        if seen is None and given is design_spaces:
            return known
        program = self.program
        spaces = [DesignSpace.of(sch, k, program, seen) for k, sch in enumerate(design_spaces)]
        if self.space_generator is not None:
            spaces = [self.space_generator.part_of(space) for space in spaces]
        if self.constraint is not None:
            spaces = constrain_spaces(spaces, self.constraint)
        self._points = design_spaces, spaces
        return spaces

    def allows(self, sch: Schedule) -> bool:
        """Return True if a schedule may be tried, and be the winner."""
        if self.constraint is None or self.constraint.allows_schedule(sch):
            return True
        return trace_key(sch.trace) in map(trace_key, self.initial_schedules)

    def __repr__(self) -> str:
        parts = [self.space_generator, self.search_strategy]
        names = ", ".join(type(part).__name__ for part in parts if part is not None)
        return f'<TuneContext "{self.task_name}" for {self.target}{names and f": {names}"}>'

    def _repr_html_(self) -> str:
        program = "" if self.mod is None else self.mod._repr_html_()
        return f"<p>{html.escape(repr(self))}</p>{program}"

    # ----------------------------------------------------------------------- delegated to the parts

    def generate_design_space(self, most: int | None = None) -> list[Schedule]:
        """Return the design spaces of the program, up to `most` of them if that is given."""
        if self.space_generator is None:
            raise TuningError(
                f'task "{self.task_name}" has no space generator: pass one to TuneContext'
            )
        if most is not None:
            return self.space_generator.some_design_spaces(self.program, most)
        return self.space_generator.generate_design_space(self.program)

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int = 64,
        design_spaces: Sequence[Schedule] | None = None,
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Start the search; by default with new spaces, a new database and a random model."""
        self._strategy().pre_tuning(
            max_trials,
            num_trials_per_iter,
            self.generate_design_space() if design_spaces is None else design_spaces,
            MemoryDatabase() if database is None else database,
            RandomModel(seed=self.fork_seed()) if cost_model is None else cost_model,
        )

    def post_tuning(self) -> None:
        """End the search."""
        self._strategy().post_tuning()

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch of candidates, None when the search is finished."""
        return self._strategy().generate_measure_candidates()

    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Give the strategy the results of the last batch, as the objective ranks them."""
        judged = [self.objective.judged(result) for result in results]
        self._strategy().notify_runner_results(candidates, judged)

    def _strategy(self) -> SearchStrategy:
        if self.search_strategy is None:
            raise TuningError(
                f'task "{self.task_name}" has no search strategy: pass one to TuneContext'
            )
        return self.search_strategy


def design_spaces(
    mod: IRModule | PrimFunc,
    target: str | Target,
    space: SpaceArg = "post-order-apply",
    seed: int = 1,
) -> list[DesignSpace]:
    """Return the design spaces of a search of a program, each with its points.

    `space` is that of `tune_tir`; `seed` determines the decisions of the traces. Raises TuningError
    for a module of several functions.
    """
    context = TuneContext(mod, target=target, space_generator=space, rand_state=seed)
    return context.points_of(context.generate_design_space())
