"""The learning of the models of tuners, and the choice of configurations by their scores."""

from __future__ import annotations

import numpy as np
import pytest

from search import autotvm
from search.compat.autotvm import (
    MeasureErrorNo,
    MeasureResult,
    SlowerThan,
)
from search.compat.autotvm.feature import ConfigFeatures
from search.compat.autotvm.tuner import (
    DropletTuner,
    EvolutionTuner,
    GridSearchTuner,
    XGBTuner,
    is_lower,
)
from search.database.records import FAILED
from tests.search.compat.autotvm.fake_results import (
    best_index,
    bowl,
    bowl_costs,
    tuned,
    tutorial_task,
)
from tests.search.compat.autotvm.templates import TUTORIAL


@pytest.fixture
def task():
    return tutorial_task()


def test_plans_are_small_where_the_space_is(task):
    assert XGBTuner(task).plan_size == 4
    large = autotvm.task.create("test/four_tiles", (64,), "llvm")
    assert XGBTuner(large).plan_size == 64
    assert XGBTuner(large, plan_size=16).plan_size == 16


def test_few_programs_are_made_for_each_trial(monkeypatch):
    large = autotvm.task.create("test/four_tiles", (64,), "llvm")
    tuner = XGBTuner(large, plan_size=4, feature_type="per_store", seed=1)
    described = []
    extract_from = ConfigFeatures.extract_from

    def counting(features, context, candidates):
        described.extend(candidates)
        return extract_from(features, context, candidates)

    def results(inp):
        return MeasureResult((1e-3 / (1 + inp.config.index),), MeasureErrorNo.NO_ERROR, 0.01, 0.0)

    monkeypatch.setattr(ConfigFeatures, "extract_from", counting)
    tuned(tuner, 24, results)
    assert 24 < len(described) <= 24 * 24, "an evolution of points would describe thousands"


def test_a_log_of_another_size_helps_from_the_first_trial(task, caplog):
    small = autotvm.task.create(TUTORIAL, (64, 64, 64, "float32"), "llvm")
    history = []
    tuned(
        GridSearchTuner(small),
        49,
        callbacks=[lambda _, i, r: history.extend(zip(i, r, strict=True))],
    )
    # The made-up times depend on the tiles, and not on what loops of such tiles would take.
    tuner = XGBTuner(task, feature_type="knob", seed=1)
    tuner.load_history(history, min_seed_records=40)
    indices = tuned(tuner, 12)
    ranks = [sorted(bowl_costs(task), key=bowl_costs(task).get).index(k) for k in indices]
    assert np.mean(ranks[:4]) < 12, "random ones would be at 32"
    assert tuner.cost_model.data_size == 49 + 12
    XGBTuner(task).load_history(history, min_seed_records=50)
    assert "49 usable records, fewer than 50" in caplog.text


def test_a_droplet_descends_to_the_lowest_of_its_neighbours(task):
    measured = tuned(DropletTuner(task, [0, 0], seed=1), 40)
    knobs = [task.space.point2knob(index) for index in measured]
    assert all(max(knob) == 1 for knob in knobs[1:4]), "steps of one, up, come first"
    assert best_index(task) in measured[:30]


def test_a_droplet_steps_to_what_is_significantly_faster():
    assert is_lower([1.0], [2.0], 0.05)
    assert is_lower([1.0, 1.1, 0.9, 1.0], [2.0, 2.1, 1.9, 2.0], 0.05)
    assert not is_lower([1.0, 3.0, 0.5, 2.0], [2.0, 2.1, 1.9, 2.0], 0.05)
    costs, known = [1.0, 1.2, 1.1, 1.3], [1.2, 1.4, 1.25, 1.5]
    p = 0.0943  # of scipy.stats.ttest_ind(costs, known, equal_var=False)
    assert is_lower(costs, known, p + 0.01)
    assert not is_lower(costs, known, p - 0.01)


@pytest.mark.parametrize("kind", [XGBTuner, EvolutionTuner])
def test_models_learn_how_long_a_run_takes_at_least(task, monkeypatch, kind):
    def ended_early(inp):
        if inp.config.index % 2:
            return MeasureResult.failed(MeasureErrorNo.RUN_TIMEOUT, SlowerThan(0.05))
        return bowl(inp)

    tuner, monitor, seen = kind(task, seed=1), autotvm.callback.Monitor(), []
    monkeypatch.setattr(tuner.cost_model, "update", lambda *args: seen.extend(args[2]))
    indices = tuned(tuner, 16, ended_early, callbacks=[monitor])
    odd = [k for k, index in enumerate(indices) if index % 2]
    assert {monitor.trial_scores()[k] for k in odd} == {0}, "none of them was measured"
    assert {r.run_secs for r in seen if r.stopped} == {(0.05,)}
    assert any(not r.stopped for r in seen)
    stored = [record.run_secs for record in tuner.database.get_all_tuning_records()]
    assert (0.05, FAILED) in stored
    assert (0.05,) not in stored, "a bound is no time"
