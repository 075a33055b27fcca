"""How the functions that tune are called; `test_refusals` has what cannot be meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import search as ms
from schedule import BlockRV, Schedule
from search import tir_integration
from search.builder import Builder, BuilderInput, BuilderResult
from search.database import JSONDatabase, MemoryDatabase
from search.mutator import MutateTileSize
from search.postproc import DisallowDynamicLoop
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.schedule_rule import ScheduleRule
from search.search_strategy import SearchStrategy
from tensorir import IRModule
from tests.search.programs import Matmul, adds_one, split_j

TARGET = "llvm -num-cores=1"


class Pretend(Builder):
    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult("nowhere") for _ in build_inputs]


class OneMillisecond(Runner):
    def run(self, runner_inputs: list[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture.ready(RunnerResult((1e-3,))) for _ in runner_inputs]


PRETENDED = {"builder": Pretend(), "runner": OneMillisecond(), "cost_model": "random", "seed": 1}
OF_TVM = {**PRETENDED, "database": "memory", "num_confirmed": 0}
FEW = ms.TuneConfig(2, num_confirmed=0)


class SplitTheSecond(ScheduleRule):
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        loops = sch.get_loops(block)
        if len(loops) == 3:
            sch.split(loops[1], sch.sample_perfect_tile(loops[1], n=2))
        return [sch]


def split_first(sch: Schedule) -> None:
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    first = sch.get_loops(block)[0]
    sch.split(first, sch.sample_perfect_tile(first, n=2))


def test_tune_tir_returns_a_schedule_and_has_one_signature(tmp_path: Path) -> None:
    best = ms.tune_tir(Matmul, TARGET, FEW, tmp_path, space=split_j, **PRETENDED)
    assert isinstance(best, Schedule)
    names = list(inspect.signature(ms.tune_tir).parameters)
    assert names[:4] == ["mod", "target", "config", "work_dir"]


def test_without_a_directory_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ms.tune_tir(Matmul, TARGET, FEW, space=split_j, **PRETENDED) is not None
    assert not list(tmp_path.iterdir())


def test_tune_module_tunes_every_function(tmp_path: Path) -> None:
    both = IRModule({"matmul": Matmul["main"], "add": adds_one})
    database = ms.tune_module(
        both, TARGET, tmp_path, 4, num_trials_per_iter=2, space=split_first, **PRETENDED
    )
    assert ms.compile_tir(database, Matmul["main"], TARGET) is not None
    assert ms.compile_tir(database, adds_one, TARGET) is not None
    chosen = {"add": None, "matmul": split_j}
    again = ms.tune_module(
        both, TARGET, tmp_path, 2, database="memory", special_space=chosen, **PRETENDED
    )
    assert ms.compile_tir(again, adds_one, TARGET) is None


@pytest.mark.parametrize(
    "call",
    [
        lambda folder: tir_integration.tune_tir(Matmul, TARGET, folder, 2, space=split_j, **OF_TVM),
        lambda folder: tir_integration.tune_tir(
            mod=Matmul,
            target=TARGET,
            work_dir=str(folder),
            max_trials_global=2,
            num_trials_per_iter=1,
            strategy="replay-trace",
            space=split_j,
            **OF_TVM,
        ),
        lambda folder: tir_integration.tune_tir(
            Matmul,
            TARGET,
            folder,
            max_trials_global=2,
            special_space={"main": split_j},
            **OF_TVM,
        ),
    ],
)
def test_the_other_tune_tir_of_tvm_is_tune_module(
    tmp_path: Path, call: Callable[[Path], object]
) -> None:
    database = call(tmp_path)
    assert isinstance(database, MemoryDatabase)
    assert len(database) == 2


@pytest.mark.parametrize("form", [lambda parts: parts, lambda parts: lambda: parts])
def test_rules_are_given_as_a_list_or_by_a_function(
    tmp_path: Path, form: Callable[[object], object]
) -> None:
    best = ms.tune_tir(
        Matmul,
        TARGET,
        FEW,
        tmp_path,
        sch_rules=form([SplitTheSecond()]),
        postprocs=form([DisallowDynamicLoop()]),
        mutator_probs=form({MutateTileSize(): 1.0}),
        **PRETENDED,
    )
    assert best is not None
    assert [inst.kind.name for inst in best.trace.insts].count("SamplePerfectTile") == 1


def test_the_winner_is_returned_though_the_time_to_measure_others_again_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trial k of 5 takes 1 + k / 100 ms, but 2 ms and more when it is measured again.

    Between, the unscheduled program takes 9 ms.
    """
    monkeypatch.setattr("search.run._LEAST_SECONDS", 0.0)
    monkeypatch.setattr("search.run._SHARE", 0.0)

    class Slower(Runner):
        def __init__(self) -> None:
            self.count = 0

        def run(self, runner_inputs: list[RunnerInput]) -> list[RunnerFuture]:
            k, self.count = self.count, self.count + 1
            again = (2.2, 2.0, 2.1, 2.3)[(k - 6) % 4]
            seconds = (1 + k / 100 if k < 5 else 9 if k == 5 else again) * 1e-3
            return [RunnerFuture.ready(RunnerResult((seconds,)))]

    parts = {**PRETENDED, "runner": Slower()}
    config = ms.TuneConfig(5)
    best = ms.tune_tir(Matmul, TARGET, config, tmp_path, space=split_j, **parts)
    database = JSONDatabase(work_dir=tmp_path)
    records = database.get_all_tuning_records()
    assert len(records) == 10
    assert best is not None
    later = ms.compile_tir(database, Matmul, TARGET)
    assert later is not None
    assert str(later.trace) == str(best.trace)
    assert str(best.trace) == str(records[1].trace)


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
    tir_integration.tune_tir(
        Matmul, TARGET, tmp_path, 2, strategy=strategy, space=split_j, task_scheduler=scheduler,
        **OF_TVM,
    )  # fmt: skip
    assert (
        'Task #0 "main" ends: its search strategy gave 3 empty batches' in capsys.readouterr().err
    )


def test_a_search_without_a_good_trial_does_not_doubt_its_own_database(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = ms.TuneConfig(2, strategy=Empty())
    assert ms.tune_tir(Matmul, TARGET, config, tmp_path, space=split_j) is None
    assert not [record for record in caplog.records if record.name == "tensorir.search"]
