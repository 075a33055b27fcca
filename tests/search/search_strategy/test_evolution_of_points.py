"""An evolutionary search moves between points of design spaces, and replays what it must."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import search as ms
from schedule import Schedule, Trace
from schedule.instruction import LoopArg, Number, Sampled, primitive
from schedule.random_state import RandomState
from schedule.state import ScheduleState
from search.cost_model import CostModel
from search.cost_model.cost_model import Scores
from search.database import MemoryDatabase
from search.database.records import TuningRecord
from search.mutator import MutateTileSize, Mutator
from search.postproc import Postproc
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate
from search.search_strategy import EvolutionarySearch
from search.space_generator import ScheduleFn
from search.space_generator.design_space import Decisions, DesignSpace
from tests.search.programs import Matmul, split_all

LARGE_INNER_TILES: dict[Mutator, float] = {MutateTileSize(): 1.0}


class Counting(Postproc):
    """Keeps what was decided in the schedules; a picky one rejects those without inner loop."""

    def __init__(self, picky: bool = False) -> None:
        self.picky = picky
        self.seen: list[Decisions] = []

    def apply(self, sch: Schedule) -> bool:
        first = tuple(sch.trace.decisions.values())
        self.seen.append(first)
        return not (self.picky and first[0][-1] == 1)


class InnerTiles(CostModel):
    """Scores a point by how many iterations its innermost loops have, and programs above all."""

    def __init__(self) -> None:
        self.asked: list[Sequence[Decisions]] = []

    def load(self, path: object) -> None: ...

    def save(self, path: object) -> None: ...

    def update(self, context: object, candidates: object, results: object) -> None: ...

    def predict(self, context, candidates):
        return np.full(len(candidates), 1e9)

    def score_points(self, context, space, decisions):
        self.asked.append(decisions)
        mean = np.array([float(np.prod([tile[-1] for tile in point])) for point in decisions])
        return Scores(mean, np.zeros(len(decisions)))


class HalfBlind(InnerTiles):
    """Wants the programs of points with an odd first factor, as they are before postprocessing."""

    reads_drafts = True

    def __init__(self) -> None:
        super().__init__()
        self.drafts: list[Decisions] = []

    def predict(self, context, candidates):
        assert all(candidate.sch.state.before_postproc is None for candidate in candidates)
        self.drafts += [candidate.decisions for candidate in candidates]
        return super().predict(context, candidates)

    def score_points(self, context, space, decisions):
        scores = super().score_points(context, space, decisions)
        odd = np.array([point[0][0] % 2 == 1 for point in decisions])
        return scores._replace(mean=np.where(odd, np.nan, scores.mean))


class Search:
    """A search of the matmul whose trials take as long as their decisions say."""

    def __init__(
        self,
        model: CostModel,
        trials: int,
        per_batch: int = 8,
        postproc: Postproc | None = None,
        mutators: dict[Mutator, float] | None = None,
        schedule: object = split_all,
        database: MemoryDatabase | None = None,
        **options: object,
    ) -> None:
        self.database = MemoryDatabase() if database is None else database
        self.context = ms.TuneContext(
            Matmul,
            target="llvm -num-cores=1",
            space_generator=ScheduleFn(
                schedule,
                postprocs=[] if postproc is None else [postproc],
                mutator_probs=LARGE_INNER_TILES if mutators is None else mutators,
            ),
            search_strategy=EvolutionarySearch(**options),
            rand_state=1,
        )
        self.context.pre_tuning(trials, per_batch, database=self.database, cost_model=model)
        self.batches: list[list[MeasureCandidate]] = []

    def run(self, seconds: float = 1.0) -> list[MeasureCandidate]:
        """Return all candidates; `seconds` is what one takes whose inner loops do nothing."""
        assert self.context.mod is not None
        workload = self.database.commit_workload(self.context.mod)
        while batch := self.context.generate_measure_candidates():
            self.batches.append(batch)
            results = [RunnerResult(run_secs=(self._time(c, seconds),)) for c in batch]
            self.context.notify_runner_results(batch, results)
            for candidate, result in zip(batch, results, strict=True):
                trace, target = candidate.sch.trace, self.context.target
                record = TuningRecord(trace, workload, result.run_secs, target)
                self.database.commit_tuning_record(record)
        return [candidate for batch in self.batches for candidate in batch]

    @staticmethod
    def _time(candidate: MeasureCandidate, seconds: float) -> float:
        tiles = candidate.sch.trace.decisions.values()
        return seconds / float(np.prod([np.max(tile) for tile in tiles]))


def test_only_what_is_measured_is_replayed() -> None:
    model, postproc = InnerTiles(), Counting()
    found = Search(model, 16, postproc=postproc, eps_greedy=0.0).run()
    assert len(found) == 16
    assert len(postproc.seen) == 16
    assert sum(map(len, model.asked)) > 16 * 10


def test_a_candidate_says_which_point_it_is_and_what_was_expected_of_it() -> None:
    found = Search(InnerTiles(), 4, eps_greedy=0.0).run()
    for candidate in found:
        assert candidate.space_index == 0
        assert candidate.decisions == tuple(candidate.sch.trace.decisions.values())
        assert candidate.predicted == np.prod([tile[-1] for tile in candidate.decisions])


def test_nothing_was_expected_of_a_candidate_that_was_drawn_at_random() -> None:
    found = Search(InnerTiles(), 12, eps_greedy=1.0).run()
    assert {candidate.predicted for candidate in found} == {None}


class Counted(MutateTileSize):
    """Counts how often it is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = 0

    def neighbour(self, *arguments: object) -> Decisions | None:
        self.draws += 1
        return super().neighbour(*arguments)  # type: ignore[arg-type]


def test_mutators_are_drawn_in_proportion_to_their_weights() -> None:
    often, seldom = Counted(), Counted()
    Search(InnerTiles(), 16, mutators={seldom: 1.0, often: 9.0}).run()
    assert often.draws > 5 * seldom.draws > 0


def test_points_that_were_rejected_are_not_tried_again() -> None:
    postproc = Counting(picky=True)
    found = Search(InnerTiles(), 40, postproc=postproc, eps_greedy=0.3).run()
    assert len(found) == 40
    assert len(postproc.seen) == len(set(postproc.seen)) > 40


def test_a_model_gets_drafts_of_the_points_that_it_cannot_read() -> None:
    model, postproc = HalfBlind(), Counting()
    found = Search(model, 12, postproc=postproc, eps_greedy=0.0).run()
    assert model.drafts
    assert all(point[0][0] % 2 == 1 for point in model.drafts)
    assert all(candidate.sch.state.before_postproc is not None for candidate in found)
    assert len(postproc.seen) < 2 * len(found), "what is only scored is not postprocessed"


def test_the_population_grows_with_what_a_trial_takes() -> None:
    fast, slow = InnerTiles(), InnerTiles()
    Search(fast, 6).run(seconds=1e-3)
    Search(slow, 6).run(seconds=1e4)
    assert max(map(len, slow.asked)) > 10 * max(map(len, fast.asked))


def test_what_a_database_has_is_recognised_and_not_measured_again() -> None:
    database = MemoryDatabase()
    before = Search(InnerTiles(), 12, database=database).run()
    known = len(database)
    postproc = Counting()
    after = Search(InnerTiles(), 12, database=database, postproc=postproc).run()
    assert known == 12
    assert not {c.decisions for c in before} & {c.decisions for c in after}
    assert len(postproc.seen) == 12, "no record was replayed"


def test_the_same_seed_and_times_give_the_same_search() -> None:
    options = {"trials": 24, "population_size": 32}
    first, second = (Search(InnerTiles(), **options).run() for _ in range(2))
    assert [c.decisions for c in first] == [c.decisions for c in second]


def test_few_trials_are_several_batches() -> None:
    """The model learns at least twice, from its own choices once."""
    search = Search(InnerTiles(), 16, per_batch=64)
    search.run()
    assert len(search.batches) >= 3


class Untrained(InnerTiles):
    trained = False


def test_without_a_model_half_of_a_batch_are_steps_from_the_best_measured() -> None:
    search = Search(Untrained(), 32, first_batch=8, database=MemoryDatabase())
    search.run()
    first, second = ([c.decisions for c in batch] for batch in search.batches[:2])
    near = [d for d in second if any(steps(d, other) == 1 for other in first)]
    assert len(near) >= 4


def steps(a: Decisions | None, b: Decisions | None) -> int:
    assert a is not None
    assert b is not None
    return sum(x != y for x, y in zip(a, b, strict=True))


class UnrollInnermost(Mutator):
    """Leaves the design space: traces get an instruction more."""

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        sch = Schedule(Matmul, seed=1)
        trace.apply_to_schedule(sch, remove_postproc=True)
        innermost = sch.get_loops(sch.get_block("C"))[-1]
        if sch.get(innermost).kind.name != "SERIAL":
            return None
        sch.unroll(innermost)
        return sch.trace


def test_a_mutator_may_lead_out_of_the_space() -> None:
    """What comes of it is scored by its program, which this model prefers to any point."""
    search = Search(
        InnerTiles(),
        8,
        mutators={UnrollInnermost(): 1.0},
        population_size=8,
        init_min_unmeasured=8,
        genetic_num_iters=1,
        genetic_mutate_prob=1.0,
    )
    found = search.run()
    unrolled = [c for c in found if "T.unroll" in c.mod.script()]
    assert unrolled
    assert all(c.decisions is None and c.space_index is None for c in unrolled)


@primitive("SampleThreeOrFive", pure=True)
def sample_three_or_five(
    state: ScheduleState, loop: LoopArg, *, rng: RandomState, decision: int | None = None
) -> Number:
    """Sample 3 or 5, without saying what the alternatives are."""
    value = (3, 5)[rng.uniform_int(0, 2)] if decision is None else decision
    return Sampled(value, value)


def note_a_number(sch: Schedule) -> None:
    loop = sch.get_loops(sch.get_block("C"))[0]
    sch.annotate(loop, "number", sch.sample_three_or_five(loop))


def test_what_declares_no_alternatives_is_sampled_and_told_apart() -> None:
    search = Search(Untrained(), 8, schedule=note_a_number, mutators={})
    assert sorted(c.decisions for c in search.run()) == [(3,), (5,)]


def test_spaces_are_scored_one_by_one() -> None:
    class NamesSpaces(InnerTiles):
        def score_points(self, context, space: DesignSpace, decisions):
            assert all(len(d) == len(space.knobs) for d in decisions)
            return super().score_points(context, space, decisions)

    def two_spaces(sch: Schedule) -> list[Schedule]:
        other = sch.copy()
        split_all(sch)
        loops = other.get_loops(other.get_block("C"))
        other.split(loops[0], other.sample_perfect_tile(loops[0], n=2))
        return [sch, other]

    found = Search(NamesSpaces(), 16, schedule=two_spaces, eps_greedy=0.5).run()
    assert {c.space_index for c in found} == {0, 1}
