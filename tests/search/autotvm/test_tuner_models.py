"""What models of tuners learn, and how configurations are chosen by what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from search import autotvm
from search.autotvm import (
    MeasureErrorNo,
    MeasureResult,
    SlowerThan,
)
from search.autotvm.feature import FEATURES, ConfigFeatures
from search.autotvm.tuner import (
    DropletTuner,
    EvolutionTuner,
    GridSearchTuner,
    XGBTuner,
)
from search.autotvm.tuner.droplet_tuner import welch_p_value
from search.context import TuneContext
from search.cost_model import XGBModel
from search.database.records import FAILED
from search.measuring.measure_candidate import MeasureCandidate
from search.runner import RunnerResult
from tests.search.autotvm.made_up_results import (
    bowl,
    bowl_costs,
    tuned,
    tutorial_task,
)
from tests.search.autotvm.templates import TUTORIAL


@pytest.fixture
def task():
    return tutorial_task()


@pytest.mark.parametrize("features", FEATURES)
def test_a_model_learns_the_order_of_configurations(task, features):
    model = XGBModel(extractor=ConfigFeatures(task, features))
    context = TuneContext(task.mod, target=task.target)
    costs = np.array(list(bowl_costs(task).values()))

    def candidates(indices):
        return [MeasureCandidate(task.instantiate(task.space.get(k)), []) for k in indices]

    known = [k for k in range(64) if k % 4]
    model.update(context, candidates(known), [RunnerResult((cost,)) for cost in costs[known]])
    unseen = list(range(0, 64, 4))
    scores = model.predict(context, candidates(unseen))
    assert stats.spearmanr(scores, -costs[unseen]).statistic > 0.8


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
    XGBTuner(task).load_history(history)
    assert "49 usable records" in caplog.text


def test_history_teaches_the_model_of_the_search(task):
    small = autotvm.task.create(TUTORIAL, (64, 64, 64, "float32"), "llvm -num-cores=1")
    history = []
    tuned(
        GridSearchTuner(small),
        49,
        callbacks=[lambda _, i, r: history.extend(zip(i, r, strict=True))],
    )
    tuner = EvolutionTuner(task, seed=1)
    tuner.load_history(history)
    tuner.has_next()
    assert tuner.cost_model.data_size == 49


def test_a_diverse_plan_is_a_plan(task):
    tuner = XGBTuner(task, diversity_filter_ratio=2, seed=1)
    assert sorted(tuned(tuner, 64)) == list(range(64))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 3.0, 4.0, 5.0, 6.0]),
        ([3.0, 3.1, 2.9, 3.2], [5.0, 7.0, 6.5]),
        ([1.0, 1.1], [1.05, 1.0, 0.9, 1.1, 1.2, 30.0]),
        ([1.0, 1.0001], [9.0, 9.0001]),
    ],
)
def test_means_are_compared_as_welch_does(a, b):
    assert welch_p_value(a, b) == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)


def test_samples_without_variance_differ_or_not():
    assert welch_p_value([1, 1], [1, 1]) == 1
    assert welch_p_value([1, 1], [2, 2]) == 0


def test_a_droplet_stays_where_nothing_is_significantly_better(task):
    def noisy(inp):
        cost = bowl(inp).mean_cost
        return MeasureResult((cost * 0.1, cost * 1.9), MeasureErrorNo.NO_ERROR, 0.01, 0.0)

    tuner = DropletTuner(task, [4, 4])
    tuned(tuner, 64, noisy)
    assert tuner.best_knob == [4, 4]
    tuner = DropletTuner(task, [4, 4], pvalue=1.0)
    tuned(tuner, 64, noisy)
    assert tuner.best_knob == [4, 5]


def test_a_droplet_that_ends_on_the_lower_hill_begins_again_on_another(task):
    near, far = np.array([1, 1]), np.array([6, 3])

    def two_hills(inp):
        at = np.array(task.space.point2knob(inp.config.index))
        lower = 1 + 0.1 * np.abs(at - near).sum()
        higher = 0.5 + 0.4 * np.abs(at - far).max()
        cost = min(lower, higher) * 1e-3
        return MeasureResult((cost,), MeasureErrorNo.NO_ERROR, 0.01, 0.0)

    tuner = DropletTuner(task, [0, 0], seed=1)
    tuned(tuner, 20, two_hills)
    assert tuner.best_knob == [1, 1], "no straight way from there meets the higher hill"
    tuned(tuner, 20, two_hills)
    assert tuner.best_knob == [6, 3]
    assert tuner.best_config.index == task.space.knob2point([6, 3])


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
    assert (FAILED,) in stored
    assert (0.05,) not in stored, "a bound is no time"
