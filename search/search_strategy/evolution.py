"""Generations of individuals, each bred from those before that a cost model scores best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from schedule import Trace
from schedule.random_state import RandomState
from search.errors import blamed_on
from search.reports.profiler import Profiler
from search.runner.measure_candidate import MeasureCandidate, described
from search.search_strategy.breeding import Breeding
from search.search_strategy.individual import Individual, Key
from search.space_generator.annotations import PRAGMA_AUTO_UNROLL_MAX_STEP

if TYPE_CHECKING:
    from schedule import Schedule
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.search_strategy.trace_application import TraceApplication
    from search.space_generator.design_space import DesignSpace

_FEWER_PROGRAMS: Final = 8
"""The factor by which fewer programs are made if the model could read other points."""

_SEED: Final = 1
_POINTS: Final = 96
"""The random points that are scored of each space, for each structure of its program."""
_STRUCTURES: Final = 3
"""The random structures of a space that are tried: of each, some ten points are replayed."""
_GENERATIONS: Final = 5
_CHILDREN: Final = 64
_SPACES: Final = 5
"""The spaces at most that points of are scored."""
_LOG_SPEED: Final = 1.5
"""How much less the best of some random programs of these may score."""
_PROGRAMS: Final = 16
"""The programs at most that are made of a generation where points have other structures."""
_LEAST_PROGRAMS: Final = 1
_INSTRUCTIONS: Final = 2400
"""The instructions at most that these programs apply, all together; each takes a fraction of a
millisecond."""


class Scored(NamedTuple):
    """The individuals that were scored, and those that were rejected; the others were left out."""

    scored: list[Individual]
    rejected: list[Individual]


class Scoring:
    """Scores individuals by their decisions where the model can, else by their programs.

    Making a program takes as long as scoring hundreds of points.
    """

    def __init__(self, context: TuneContext, cost_model: CostModel, breeding: Breeding) -> None:
        self._context = context
        self._model = cost_model
        self._breeding = breeding

    def score(self, individuals: Sequence[Individual], most_programs: int) -> Scored:
        """Give each of them its score.

        At most so many programs are made; what would need more is left out, here and there.
        """
        by_space: dict[int, list[Individual]] = {}
        unread: list[Individual] = []
        for individual in individuals:
            if individual.space is None:
                unread.append(individual)
            else:
                by_space.setdefault(individual.space.index, []).append(individual)
        scored: list[Individual] = []
        for of_space in by_space.values():
            self._score_points(of_space, scored, unread)
        most = most_programs if not scored else -(-most_programs // _FEWER_PROGRAMS)
        unread = unread[:: max(1, -(-len(unread) // most))]
        wanted = self._breeding.replay if self._model.reads_drafts else self._breeding.complete
        made = [x for x in unread if wanted(x)]
        self._score_programs(made)
        rejected = [x for x in unread if x.sch is None]
        return Scored([*scored, *made], rejected)

    def _score_points(
        self, group: Sequence[Individual], scored: list[Individual], unread: list[Individual]
    ) -> None:
        """Add points of one space to those that are scored, or whose programs the model wants."""
        space = group[0].space
        assert space is not None
        decisions = [x.decisions for x in group if x.decisions is not None]
        with blamed_on(self._model, lambda: f"{len(group)} point(s) of\n{space}"):
            scores = self._model.score_points(self._context, space, decisions)
        if scores is None:
            unread.extend(group)
            return
        twins = [0] * len(group) if scores.twins is None else scores.twins.tolist()
        for individual, mean, std, number in zip(
            group, scores.mean.tolist(), scores.std.tolist(), twins, strict=True
        ):
            individual.mean, individual.std, individual.twins = mean, std, number
            (unread if math.isnan(mean) else scored).append(individual)

    def _score_programs(self, made: Sequence[Individual]) -> None:
        if not made:
            return
        candidates = [self._breeding.draft(x) for x in made]
        with blamed_on(self._model, lambda: described(candidates)):
            scores = self._model.predict(self._context, candidates)
        for individual, score in zip(made, scores, strict=True):
            individual.mean, individual.std = float(score), 0.0


@dataclass(frozen=True, eq=False)
class Evolution:
    """Breeds generations with a probability of mutation, each child in so many attempts.

    `known` are the keys of what was measured or rejected: such individuals may be parents, but
    they are not bred again and not found. What scoring rejects is added to them.
    """

    breeding: Breeding
    scoring: Scoring
    known: set[Key]
    rng: RandomState
    mutate_prob: float
    max_fail_count: int
    exploration: float

    def run(
        self,
        first: Sequence[Individual],
        generations: int,
        size: int,
        most_programs: int,
        report: Callable[[int], None],
        scored: Sequence[Individual] = (),
    ) -> list[Individual]:
        """Return all individuals that were scored and are not known, in the order of their birth.

        A generation has `size` individuals, of which `most_programs` may be replayed. `report` is
        called with the number of each generation that was scored. Where some of the first one are
        left out, those that are `scored` already are parents, too.
        """
        pool: dict[Key, Individual] = {}
        born: Sequence[Individual] = first
        for number in range(generations + 1):
            before = [x.key for x in born]
            with Profiler.timeit("EvoSearch/Evolve/PredictNormalizedScore"):
                found, rejected = self.scoring.score(born, most_programs)
            self.known.update(x.key for x in rejected)
            # What became something else by the repair of its decisions is not tried again.
            self.known.update(key for key, x in zip(before, born, strict=True) if key != x.key)
            for individual in found:
                pool.setdefault(individual.key, individual)
            if number == 0 and len(found) < len(born):
                pool.update((x.key, x) for x in scored)
            report(number)
            if number == generations or not pool:
                break
            with Profiler.timeit("EvoSearch/Evolve/Mutation"):
                born = self._next_generation(pool, size)
        return [x for x in pool.values() if x.key not in self.known]

    def _next_generation(self, pool: dict[Key, Individual], size: int) -> list[Individual]:
        """Return up to `size` children of the best `size` individuals."""
        parents = sorted(pool.values(), key=lambda x: -(x.mean + self.exploration * x.std))[:size]
        children: dict[Key, Individual] = {}
        for _ in range(size):
            for _ in range(self.max_fail_count + 1):
                child = self._child(parents)
                if child is None or child.key in self.known:
                    continue
                if child.key not in pool and child.key not in children:
                    children[child.key] = child
                    break
        return list(children.values())

    def _child(self, parents: Sequence[Individual]) -> Individual | None:
        parent = parents[front_place(len(parents), self.rng)]
        if self.rng.uniform_real() >= self.mutate_prob:
            other = parents[front_place(len(parents), self.rng)]
            return self.breeding.crossed(parent, other)
        return self.breeding.mutated(parent)


def front_place(count: int, rng: RandomState) -> int:
    """Return an index below `count`; half of the draws are in the first quarter."""
    return int(count * rng.uniform_real() ** 2)


def first_designs(
    context: TuneContext,
    spaces: Sequence[DesignSpace],
    application: TraceApplication,
    model: CostModel,
    scored: Sequence[Individual] = (),
) -> list[Individual]:
    """Return points of the spaces with their scores, the most promising first.

    They are the best that a short evolution finds, from random points of each space and those that
    are `scored` already. Most points
    of a space differ from one another by numbers only, such as the extents of tiles, and are scored
    together without replaying them; of the structures that programs of a space can have (the places
    of blocks) a few are tried. Spaces with decisions that models know nothing of are left out, if
    there are others (`is_described`). The same program, spaces and scores give the same designs.
    Whether the postprocessors accept them is for the caller to find out.
    """
    spaces = [space for space in spaces if is_described(space.trace)] or spaces
    rng = RandomState(_SEED)
    breeding = Breeding(context, spaces, application, rng)
    evolution = Evolution(
        breeding,
        Scoring(context, model, breeding),
        set(),
        rng,
        mutate_prob=0.85,
        max_fail_count=10,
        exploration=0.0,
    )
    first = [point for space in spaces for point in _random_points(space, rng)]
    longest = max((len(space.trace.insts) for space in spaces), default=1)
    instructions = min(_INSTRUCTIONS, context.budget.left)
    programs = int(instructions // ((_GENERATIONS + 1) * longest))
    programs = min(max(programs, _LEAST_PROGRAMS), _PROGRAMS)
    pool = evolution.run(first, _GENERATIONS, _CHILDREN, programs, lambda _: None, scored)
    return sorted(pool, key=lambda individual: -individual.mean)


def is_described(trace: Trace) -> bool:
    """Return True if features have all decisions of a trace: they have no pragmas of single loops."""
    sampled = {output for inst in trace.insts if inst.kind.has_decision for output in inst.outputs}
    return not any(
        inst.kind.name == "Annotate"
        and inst.value_of("ann_key") == PRAGMA_AUTO_UNROLL_MAX_STEP
        and inst.value_of("ann_val") in sampled
        for inst in trace.insts
    )


def promising_spaces(
    context: TuneContext,
    spaces: Sequence[DesignSpace],
    samples: Mapping[int, Sequence[Schedule]],
    model: CostModel,
) -> tuple[list[DesignSpace], list[Individual]]:
    """Return the spaces that a few random schedules of each promise most of, the best first.

    `samples` are schedules before postprocessing by the index of their space; those that are points
    of the spaces are returned with their scores.
    """
    candidates = [MeasureCandidate(sch) for space in spaces for sch in samples.get(space.index, ())]
    with blamed_on(model, lambda: described(candidates)):
        scores = iter(model.predict(context, candidates).tolist())
    of_space: dict[DesignSpace, list[tuple[float, Schedule]]] = {
        space: [(next(scores), sch) for sch in samples.get(space.index, ())] for space in spaces
    }
    best = {space: max([s for s, _ in made], default=-inf) for space, made in of_space.items()}
    ranked = sorted(spaces, key=lambda space: -best[space])[:_SPACES]
    kept = [space for space in ranked if best[space] >= best[ranked[0]] - _LOG_SPEED]
    points = []
    for space in kept:
        for score, sch in of_space[space]:
            point = Individual.of_trace(sch.trace, [space])
            if point.space is not None:
                point.mean, point.sch = score, sch
                points.append(point)
    return kept, points


def _random_points(space: DesignSpace, rng: RandomState) -> list[Individual]:
    """Return random points of a space that have few structures between them."""
    structural = space.structural_knobs
    found: dict[object, Individual] = {}
    for _ in range(_STRUCTURES if structural else 1):
        structure = space.sample(rng)
        for _ in range(_POINTS):
            point = list(space.sample(rng))
            for k in structural:
                point[k] = structure[k]
            allowed = space.admitted(tuple(point))
            if allowed is not None:
                individual = Individual.at(space, allowed)
                found[individual.key] = individual
    return list(found.values())
