"""Search strategies in spaces with little to find."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import search as ms
from schedule import Schedule
from search.cost_model import CostModel
from search.errors import TuningError
from search.mutator import MutateTileSize
from search.postproc import Postproc
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate
from search.search_strategy import EvolutionarySearch, ReplayTrace, SearchStrategy
from search.space_generator import ScheduleFn
from tensorir import parse
from tensorir.function import PrimFunc
from tests.search.programs import Matmul, split_all

STRATEGIES = ["replay-trace", "replay-func", "evolutionary"]

ADAPTIVE_POOLING = """
@T.prim_func
def main(A: T.Buffer((13,), "float32"), B: T.Buffer((3,), "float32")):
    for i in range(3):
        with T.block("pool"):
            vi = T.axis.spatial(3, i)
            T.reads(A[0:13])
            T.writes(B[vi])
            B[vi] = T.float32(0)
            for r in range((vi * 13 + 15) // 3 - vi * 13 // 3):
                B[vi] = T.max(B[vi], A[vi * 13 // 3 + r])
"""


OF_OPEN_SIZE = """
@T.prim_func
def main(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        with T.block("A"):
            vi = T.axis.spatial(n, i)
            A[vi] = T.float32(1)
"""


class AcceptEvery(Postproc):
    """Rejects all schedules but each n-th; 0 rejects all."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.seen = 0

    def apply(self, sch: Schedule) -> bool:
        self.seen += 1
        return self.n > 0 and self.seen % self.n == 0


def started(kind: str, postproc: Postproc, trials: int = 8) -> ms.TuneContext:
    context = ms.TuneContext(
        Matmul,
        target="llvm -num-cores=1",
        space_generator=ScheduleFn(split_all, postprocs=[postproc], mutator_probs={}),
        search_strategy=kind,
        rand_state=1,
    )
    context.pre_tuning(trials, 8)
    return context


def strategy_of(context: ms.TuneContext) -> SearchStrategy:
    assert context.search_strategy is not None
    return context.search_strategy


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_search_ends_if_all_is_rejected_and_says_by_whom(kind: str) -> None:
    context = started(kind, AcceptEvery(0))
    assert context.generate_measure_candidates() is None
    reason = str(strategy_of(context).failure_summary())
    count = 320 if kind == "evolutionary" else 100
    assert reason == (f"all {count} sampled schedules were rejected, {count} by AcceptEvery()")


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_search_goes_on_with_the_few_that_are_accepted(kind: str) -> None:
    postproc = AcceptEvery(90)
    context = started(kind, postproc)
    candidates = context.generate_measure_candidates()
    assert candidates
    assert strategy_of(context).failure_summary() is None
    assert postproc.seen <= 90 * 8


def test_a_batch_that_was_cut_short_counts_as_what_it_was() -> None:
    context = ms.TuneContext(
        Matmul,
        target="llvm -num-cores=1",
        space_generator=ScheduleFn(split_all, postprocs=[AcceptEvery(4)], mutator_probs={}),
        search_strategy=ReplayTrace(max_fail_count=4),
        rand_state=1,
    )
    context.pre_tuning(6, 5)
    sizes = []
    while batch := context.generate_measure_candidates():
        sizes.append(len(batch))
        batch = batch[:2]  # the others were not measured
        context.notify_runner_results(batch, [RunnerResult(run_secs=(1.0,))] * len(batch))
    assert sizes == [5, 4, 2]


def test_sizes_that_are_left_open_are_named(tmp_path: Path) -> None:
    func = parse(OF_OPEN_SIZE)
    assert isinstance(func, PrimFunc)
    config = ms.TuneConfig(8)
    with pytest.raises(TuningError, match=r"buffer 'A' has the symbolic shape \(n\); give it ext"):
        ms.tune_tir(func, "llvm -num-cores=1", config, tmp_path, cost_model="random")


def test_windows_whose_extent_follows_from_an_axis_are_tuned(
    tmp_path: Path, measured: dict[str, object]
) -> None:
    func = parse(ADAPTIVE_POOLING)
    assert isinstance(func, PrimFunc)
    config = ms.TuneConfig(8, num_confirmed=0)
    best = ms.tune_tir(func, "llvm -num-cores=1", config, tmp_path, **measured)
    assert best is not None
    assert "for r in range((vi * 13 + 15) // 3 - vi * 13 // 3)" in best.mod.script()


class CountFactors(CostModel):
    """Scores a candidate by how many iterations its innermost loops have."""

    def __init__(self) -> None:
        self.asked: list[list[MeasureCandidate]] = []

    def load(self, path: object) -> None: ...

    def save(self, path: object) -> None: ...

    def update(self, context: object, candidates: object, results: object) -> None: ...

    def predict(self, context, candidates):
        self.asked.append(list(candidates))
        return np.array([float(innermost(c)) for c in candidates])


def innermost(candidate: MeasureCandidate) -> int:
    return prod(decision[-1] for decision in candidate.sch.trace.decisions.values())


def batches(
    model: CostModel, trials: int, per_batch: int, **options: object
) -> list[list[MeasureCandidate]]:
    """Return the batches of a search that a cost model guides from the start."""
    context = ms.TuneContext(
        Matmul,
        target="llvm -num-cores=1",
        space_generator=ScheduleFn(split_all, postprocs=[], mutator_probs={MutateTileSize(): 1.0}),
        search_strategy=EvolutionarySearch(**options),
        rand_state=1,
    )
    context.pre_tuning(trials, per_batch, cost_model=model)
    found = []
    while candidates := context.generate_measure_candidates():
        found.append(candidates)
        context.notify_runner_results(candidates, [RunnerResult(run_secs=(1.0,))] * len(candidates))
    return found


def test_a_share_of_small_batches_is_random_as_well() -> None:
    """A fifth of ten batches of two are four random candidates, mostly not among the best."""
    small = {"population_size": 16, "init_min_unmeasured": 8, "genetic_num_iters": 1}
    guided = batches(CountFactors(), 20, 2, eps_greedy=0.0, **small)
    mixed = batches(CountFactors(), 20, 2, eps_greedy=0.2, **small)
    assert [len(batch) for batch in mixed] == [2] * 10
    low = [sum(innermost(c) <= 512 for batch in run for c in batch) for run in (guided, mixed)]
    assert low[0] < low[1]


def test_an_evolution_starts_from_the_most_promising_of_the_one_before() -> None:
    model = CountFactors()
    first, _ = batches(model, 10, 5, population_size=40, genetic_num_iters=0, eps_greedy=0.0)[:2]
    before, after = model.asked[:2]
    assert [len(population) for population in (before, after)] == [40, 40]
    best = sorted(before, key=innermost, reverse=True)
    left = [c.sch for c in best[:20] if c.sch not in [chosen.sch for chosen in first]]
    assert len(left) == 20 - len(first)
    assert all(sch in [c.sch for c in after] for sch in left)


# --------------------------------------------------------------------------- steps of an evolution


class WideIsGood(CostModel):
    """Prefers programs by the last part of their first tile."""

    def load(self, path: object) -> None: ...
    def save(self, path: object) -> None: ...
    def update(self, context: object, candidates: object, results: object) -> None: ...

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> NDArray[np.float64]:
        return np.array([width(candidate) for candidate in candidates], np.float64)


def width(candidate: MeasureCandidate) -> int:
    return int(next(iter(candidate.sch.trace.decisions.values()))[-1])


def test_an_evolution_step_by_step() -> None:
    context = started("evolutionary", AcceptEvery(1))
    strategy = strategy_of(context)
    assert isinstance(strategy, EvolutionarySearch)
    sampled = strategy.sample(5)
    assert len({str(candidate.sch.trace) for candidate in sampled}) == 5
    context.post_tuning()

    context.space_generator.mutator_probs = {MutateTileSize(): 1.0}
    context.pre_tuning(8, 8, cost_model=WideIsGood())
    best = strategy.evolve([candidate.sch for candidate in sampled], 4)
    widths = [width(candidate) for candidate in best]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] >= max(map(width, sampled))
    assert [candidate.predicted for candidate in best] == widths


def test_there_are_no_steps_without_a_search() -> None:
    strategy = EvolutionarySearch()
    with pytest.raises(ms.TuningError, match="pre_tuning"):
        strategy.sample(1)
    with pytest.raises(ms.TuningError, match="pre_tuning"):
        strategy.evolve([], 1)
