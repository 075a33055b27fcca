"""What search strategies do when there is little to find."""

from __future__ import annotations

from pathlib import Path

import pytest

import search as ms
from schedule import Schedule
from search.postproc import Postproc
from search.search_strategy import SearchStrategy
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
    reason = str(strategy_of(context).why_nothing())
    count = 320 if kind == "evolutionary" else 100
    assert reason == (
        f"all {count} schedules that were sampled were rejected, {count} by AcceptEvery()"
    )


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_search_goes_on_with_the_few_that_are_accepted(kind: str) -> None:
    postproc = AcceptEvery(90)
    context = started(kind, postproc)
    candidates = context.generate_measure_candidates()
    assert candidates
    assert strategy_of(context).why_nothing() is None
    assert postproc.seen <= 90 * 8


@pytest.mark.parametrize("kind", STRATEGIES)
def test_loops_of_an_extent_that_is_not_constant_are_named(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    func = parse(ADAPTIVE_POOLING)
    assert isinstance(func, PrimFunc)
    config = ms.TuneConfig(8, strategy=kind)
    assert ms.tune_tir(func, "llvm -num-cores=1", config, tmp_path, cost_model="random") is None
    (said,) = [x for x in capsys.readouterr().out.splitlines() if "cannot be tuned" in x]
    assert 'Task #0 "main" cannot be tuned: all ' in said
    assert "by DisallowDynamicLoop() (the extent of loop r is not constant: " in said
