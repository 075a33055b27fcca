"""Nothing that is passed to a function that tunes is dropped or noticed late."""

from __future__ import annotations

from pathlib import Path

import pytest

import search as ms
from search.search_strategy import SearchStrategy
from search.tir_integration import tune_tir
from tensorir import IRModule
from tests.search.programs import Matmul, adds_one, split_j
from tests.search.test_tune_calls import FEW, OF_TVM, PRETENDED, TARGET, SplitTheSecond

BOTH = IRModule({"matmul": Matmul["main"], "add": adds_one})


def later(folder: Path, **arguments: object) -> object:
    """Call `tune_tir` by its later signature."""
    return tune_tir(
        mod=Matmul, target=TARGET, work_dir=folder, max_trials_global=2, **{**OF_TVM, **arguments}
    )


def test_blocks_are_named(tmp_path: Path) -> None:
    best = ms.tune_tir(
        Matmul,
        TARGET,
        FEW,
        tmp_path,
        blocks=["C"],
        sch_rules=[SplitTheSecond()],
        postprocs=[],
        **PRETENDED,
    )
    assert best is not None
    assert [inst.kind.name for inst in best.trace.insts].count("SamplePerfectTile") == 1


class Empty(SearchStrategy):
    """Has nothing to measure, and says so by an empty list."""

    def __init__(self) -> None:
        self.asked = 0

    def pre_tuning(self, *_: object, **__: object) -> None: ...

    def post_tuning(self) -> None: ...

    def generate_measure_candidates(self) -> list[ms.MeasureCandidate]:
        self.asked += 1
        return []

    def notify_runner_results(self, *_: object) -> None: ...


@pytest.mark.parametrize("scheduler", ["gradient", "round-robin"])
def test_a_strategy_of_empty_batches_ends(
    tmp_path: Path, scheduler: str, capsys: pytest.CaptureFixture[str]
) -> None:
    strategy = Empty()
    later(tmp_path, strategy=strategy, space=split_j, task_scheduler=scheduler)
    assert (
        'Task #0 "main" ends: its search strategy gave 3 empty batches' in capsys.readouterr().err
    )


def test_a_search_without_a_good_trial_does_not_doubt_its_own_database(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = ms.TuneConfig(2, strategy=Empty())
    assert ms.tune_tir(Matmul, TARGET, config, tmp_path, space=split_j) is None
    assert not [record for record in caplog.records if record.name == "tensorir.search"]
