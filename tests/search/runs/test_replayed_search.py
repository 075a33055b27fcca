"""Searching again what was measured: nothing is measured, and nothing else is answered."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import search as ms
from schedule import Schedule
from search.database import JSONDatabase
from search.mutator import MutateTileSize
from search.reports.table import RunTable
from search.runner import RunnerResult
from search.search_strategy import EvolutionarySearch, ReplayTrace
from search.space_generator import ScheduleFn
from search.space_generator.restricted_space import RecordedSpace
from tensorir import IRModule
from tests.search.made_up_runs import TARGET, ScriptFiles, TimesOfScripts
from tests.search.programs import Matmul, adds_one, split_all, split_j

TRIALS = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search of sixteen trials, of which one failed and one was ended early."""
    made = tmp_path_factory.mktemp("run")
    endings = {2: RunnerResult(error_msg="it crashed"), 3: RunnerResult((1.0,), stopped=True)}
    ms.tune_tir(
        Matmul,
        TARGET,
        ms.TuneConfig(TRIALS, 4, num_confirmed=0),
        made,
        space=ScheduleFn(
            split_all, sch_rules=[], postprocs=[], mutator_probs={MutateTileSize(): 1.0}
        ),
        builder=ScriptFiles(made / "artifacts"),
        runner=TimesOfScripts(endings.get),
        cost_model="random",
        seed=1,
    )
    return made


@pytest.fixture(scope="module")
def past(folder: Path) -> ms.Replayed:
    return ms.Replayed(folder)


@pytest.mark.parametrize(
    ("strategy", "cost_model"),
    [
        ("replay-trace", None),
        (EvolutionarySearch(), ms.cost_model.XGBModel),
    ],
)
def test_a_replay_makes_the_trials_of_the_search_in_its_own_order(
    past: ms.Replayed, strategy: str | ms.SearchStrategy, cost_model: object
) -> None:
    run = past.tune(strategy, cost_model, num_trials_per_iter=4)
    before = times(past.recorded())
    assert len(run) == TRIALS
    after = times(run)
    assert after.items() <= before.items()
    assert strategy == "replay-trace" or len(after) == TRIALS, "draws may repeat, breeding does not"
    assert list(after) != list(before)
    assert run.trials[-1].time == pytest.approx(sum(trial.spent for trial in run.trials))


def times(run: RunTable) -> dict[str, tuple[str, tuple[float, ...]]]:
    """Return how each point ended."""
    points = (json.dumps(trial.decisions) for trial in run.trials)
    return {point: (t.stage, t.run_secs) for point, t in zip(points, run.trials, strict=True)}


def test_a_seed_gives_the_same_replay(past: ms.Replayed) -> None:
    def course(seed: int) -> list[object]:
        return [t.decisions for t in past.tune("replay-trace", None, seed=seed).trials]

    assert course(1) == course(1) != course(2)


def test_a_model_that_is_given_is_not_changed(past: ms.Replayed) -> None:
    model = ms.cost_model.XGBModel()
    past.tune(cost_model=model, max_trials=8)
    assert model.data_size == 0


def test_what_was_not_measured_is_not_answered(past: ms.Replayed) -> None:
    class FromTheWholeSpace(ReplayTrace):
        """Draws from all 8,000 points."""

        def pre_tuning(self, max_trials: int, *args: object) -> None:
            assert self.context is not None
            self.context.space_generator = ms.SpaceGenerator.create(split_all)
            self.context.initialize()
            super().pre_tuning(max_trials, *args)

    run = past.tune(FromTheWholeSpace(), None)
    assert len(run) < TRIALS


def test_steps_and_mixes_end_at_points_that_were_measured(past: ms.Replayed) -> None:
    (space,) = ms.design_spaces(Matmul, TARGET, split_all)
    rng = ms.TuneContext(rand_state=1).rand_state
    points = [space.sample(rng) for _ in range(20)]
    part = RecordedSpace(space, points)
    assert part.num_points == len(set(points))
    for point in points:
        step = part.neighbour(point, rng, among=[1])
        assert step in points
        assert step[1] != point[1]
        mix = part.admitted(space.crossover(point, points[0], rng))
        assert mix in points
        assert part.admitted(point) == point
    assert RecordedSpace(space, points[:1]).neighbour(points[0], rng) is None


def test_searches_are_compared_by_how_soon_they_are_good(past: ms.Replayed) -> None:
    compared = past.compare(
        {
            "by chance": {"strategy": "replay-trace", "cost_model": None},
            "bred": {"cost_model": "random"},
        },
        seeds=3,
        num_trials_per_iter=4,
    )
    assert len(compared.runs["bred"]) == 3
    curves = compared.curves("by chance")
    assert curves.shape == (3, TRIALS)
    assert (np.diff(curves) <= 0).all()
    assert (compared.curves("bred")[:, -1] == 1).all(), "all points are used up"
    until = compared.trials_until("bred", factor=1.0)
    assert all(count is not None and 1 <= count <= TRIALS for count in until)
    text = str(compared)
    assert text.startswith("16 measured points, the fastest ")
    assert [line.split("  ")[0] for line in text.splitlines()[2:]] == ["by chance", "bred"]
    assert "<table" in compared._repr_html_()


def test_the_curves_are_drawn(past: ms.Replayed) -> None:
    pytest.importorskip("matplotlib")
    axes = past.compare(["replay-trace"], seeds=[1, 2], max_trials=4).plot()
    assert [line.get_label() for line in axes.get_lines()] == ["replay-trace"]
    assert len(axes.get_lines()[0].get_xdata()) == 4


def test_each_task_is_replayed_alone(tmp_path: Path) -> None:
    def halves(sch: Schedule) -> None:
        (block,) = sch.get_child_blocks(sch.get_block("root"))
        first = sch.get_loops(block)[0]
        sch.split(first, sch.sample_perfect_tile(first, n=2))

    database = ms.tune_module(
        IRModule({"matmul": Matmul["main"], "add": adds_one}),
        TARGET,
        tmp_path,
        6,
        space=halves,
        special_space={"matmul": split_j},
        builder=ScriptFiles(tmp_path / "artifacts"),
        runner=TimesOfScripts(),
        cost_model="random",
        num_confirmed=0,
        seed=1,
    )
    past = ms.Replayed(tmp_path, database)
    assert sorted(past.tasks) == ["add", "matmul"]
    counts = {name: past.num_points(name) for name in past.tasks}
    assert sum(counts.values()) == 6
    run = past.tune("replay-trace", None, task="matmul")
    assert {trial.task for trial in run.trials} == {"matmul"}
    assert len(run) == counts["matmul"]
    with pytest.raises(ms.TuningError, match="several tasks, pass one of them: add, matmul"):
        past.tune()
    with pytest.raises(ms.TuningError, match=r"unknown task 'matmull'.*did you mean 'matmul'"):
        past.tune(task="matmull")


def test_a_directory_without_a_search_is_named(tmp_path: Path) -> None:
    with pytest.raises(ms.TuningError, match=f"there is no database in {tmp_path}"):
        ms.Replayed(tmp_path)
    JSONDatabase(work_dir=tmp_path).commit_workload(Matmul)
    (tmp_path / "database_tuning_record.json").touch()
    with pytest.raises(ms.TuningError, match=f"nothing was measured in {tmp_path}"):
        ms.Replayed(tmp_path)
