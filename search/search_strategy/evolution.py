"""Generations of individuals, each bred from the individuals with the best scores so far."""

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
from search.runner.measure_candidate import MeasureCandidate, describe_candidates
from search.search_strategy.breeding import Breeding
from search.search_strategy.individual import Individual, Key
from search.space_generator.annotations import (
    PRAGMA_AUTO_UNROLL_MAX_STEP,
    UNROLL_EXPLICIT,
    UNROLL_IMPLICIT,
)

if TYPE_CHECKING:
    from schedule import Schedule
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.search_strategy.trace_application import TraceApplication
    from search.space_generator.design_space import DesignSpace

_FEWER_PROGRAMS: Final = 8
"""The factor by which fewer programs are made if the model can score other points directly."""

_SEED: Final = 1
_POINTS: Final = 96
"""The number of random points to score for each structure of a space."""
_STRUCTURES: Final = 3
"""The number of random structures of a space; some ten points of each are replayed."""
_GENERATIONS: Final = 5
_CHILDREN: Final = 64
_SPACES: Final = 5
"""The maximum number of spaces whose points are scored."""
_LOG_SPEED: Final = 1.0
"""The maximum distance of a space from the best one, by the best score of its samples."""
_UNROLLING_PAYS: Final = 0.05
"""The least gain in log speed for which a loop of a default schedule is unrolled."""
_PROGRAMS: Final = 16
"""The maximum number of programs to make in a generation."""
_LEAST_PROGRAMS: Final = 1
_INSTRUCTIONS: Final = 2400
"""The maximum number of instructions that these programs apply, in all generations."""


class Scored(NamedTuple):
    """The scored and the rejected individuals; all others were left out."""

    scored: list[Individual]
    rejected: list[Individual]


class Scoring:
    """Scores individuals by their decisions if the model can, else by their programs.

    Making one program takes as long as scoring hundreds of points.
    """

    def __init__(self, context: TuneContext, cost_model: CostModel, breeding: Breeding) -> None:
        self._context = context
        self._model = cost_model
        self._breeding = breeding

    def score(self, individuals: Sequence[Individual], most_programs: int) -> Scored:
        """Score individuals, making at most `most_programs` programs.

        If more programs are needed, evenly spaced individuals are left out.
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
        """Score points of one space; add points whose programs the model needs to `unread`."""
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
        with blamed_on(self._model, lambda: describe_candidates(candidates)):
            scores = self._model.predict(self._context, candidates)
        for individual, score in zip(made, scores, strict=True):
            individual.mean, individual.std = float(score), 0.0


@dataclass(frozen=True, eq=False)
class Evolution:
    """Breeds generations by mutation with a probability, else by crossover.

    `known` are the keys of measured and rejected individuals, which may be parents but are not
    returned. Individuals that scoring rejects are added to them. A child is bred in at most
    `max_fail_count` + 1 attempts.
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
        """Return all scored individuals that are not known, in the order of their birth.

        A generation has `size` individuals; `most_programs` of them may be replayed. `report` is
        called with the number of each scored generation. If some individuals of the first
        generation are left out, those in `scored` are parents, too.
        """
        pool: dict[Key, Individual] = {}
        born: Sequence[Individual] = first
        for number in range(generations + 1):
            before = [x.key for x in born]
            with Profiler.timeit("EvoSearch/Evolve/PredictNormalizedScore"):
                found, rejected = self.scoring.score(born, most_programs)
            self.known.update(x.key for x in rejected)
            # A point whose decisions were repaired is marked as known.
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
            return self.breeding.cross(parent, other)
        return self.breeding.mutate(parent)


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

    A short evolution starts from random points of each space, and from those in `scored`. Most
    points of a space differ in numbers only, such as tile sizes, and are scored together without
    replaying. A few structures (compute locations) of each space are tried. Spaces with decisions
    that features do not cover (`is_described`) are left out if there are others. The result depends
    only on the program, the spaces and the scores. The first one unrolls no loop unless that raises
    its score by some percent. The postprocessors may still reject them.
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
    ranked = sorted(pool, key=lambda individual: -individual.mean)
    rolled = _least_unrolled(ranked[0]) if ranked else None
    if rolled is not None:
        evolution.scoring.score([rolled], _LEAST_PROGRAMS)
        if rolled.mean > ranked[0].mean - _UNROLLING_PAYS:
            rolled.mean = max(rolled.mean, ranked[0].mean)  # scores this close count as equal
            ranked.insert(0, rolled)
    return ranked


def _least_unrolled(point: Individual) -> Individual | None:
    """Return a point with the least unrolling, None if it is the same.

    Scores tell little about unrolling: they do not count the size of code and spilled registers.
    """
    if point.space is None or point.decisions is None:
        return None
    decisions = list(point.decisions)
    for k, knob in enumerate(point.space.knobs):
        if knob.purpose in (UNROLL_EXPLICIT, UNROLL_IMPLICIT) and knob.size is not None:
            limits = [knob.numbers(decision) or () for decision in range(knob.size)]
            decisions[k] = limits.index(min(limits))
    return (
        None
        if tuple(decisions) == point.decisions
        else Individual.at(point.space, tuple(decisions))
    )


def is_described(trace: Trace) -> bool:
    """Return True if features cover all decisions of a trace; they ignore pragmas of loops."""
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
    """Return the most promising spaces, by the scores of a few random schedules.

    Spaces with the shortest traces come first: scores of random schedules do not rank the spaces
    any further, and a budget of replays suffices for more short traces. `samples` are schedules
    before postprocessing, by the index of their space. Those of the returned spaces are returned as
    individuals with their scores.
    """
    candidates = [MeasureCandidate(sch) for space in spaces for sch in samples.get(space.index, ())]
    with blamed_on(model, lambda: describe_candidates(candidates)):
        scores = iter(model.predict(context, candidates).tolist())
    of_space: dict[DesignSpace, list[tuple[float, Schedule]]] = {
        space: [(next(scores), sch) for sch in samples.get(space.index, ())] for space in spaces
    }
    best = {space: max([s for s, _ in made], default=-inf) for space, made in of_space.items()}
    ranked = sorted(spaces, key=lambda space: -best[space])[:_SPACES]
    kept = [space for space in ranked if best[space] >= best[ranked[0]] - _LOG_SPEED]
    kept.sort(key=lambda space: len(space.trace.insts))
    points = []
    for space in kept:
        for score, sch in of_space[space]:
            point = Individual.of_trace(sch.trace, [space])
            if point.space is not None:
                point.mean, point.sch = score, sch
                points.append(point)
    return kept, points


def _random_points(space: DesignSpace, rng: RandomState) -> list[Individual]:
    """Return random points of a space with a few different structures."""
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
