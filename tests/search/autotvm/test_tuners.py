"""Tuners, on results that a function makes up: no program is built or run."""

from __future__ import annotations

import io
import logging
import math

import numpy as np
import pytest
from scipy import stats

from schedule import Schedule
from search import autotvm
from search.autotvm import (
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    SpaceIndexError,
    TemplateError,
    measured_by,
    measured_from,
)
from search.autotvm.tuner import (
    DropletTuner,
    EvolutionTuner,
    GATuner,
    GridSearchTuner,
    RandomTuner,
    XGBTuner,
)
from search.autotvm.tuner.annealing import SimulatedAnnealingOptimizer
from search.autotvm.tuner.diversity import submodular_pick
from search.autotvm.tuner.metric import (
    average_recall,
    cover_curve,
    max_curve,
    mean_curve,
    recall_curve,
)
from search.autotvm.tuner.welch import welch_p_value
from search.autotvm.tuner.xgb_cost_model import XGBoostCostModel
from search.database import MemoryDatabase
from tests.search.autotvm.templates import TUTORIAL, product

ARGS = (128, 128, 128, "float32")
ALL = [GridSearchTuner, RandomTuner, GATuner, XGBTuner, DropletTuner, EvolutionTuner]


@autotvm.template("test/two_filtered_tiles")
def filtered(n):
    sch = product(n, 8, n, "float32")
    y, x, _ = sch.get_loops(sch.get_block("C"))
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.multi_filter(lambda e: 32 <= e["tile_y"].size[1] * e["tile_x"].size[1] < 1024)
    cfg["tile_y"].apply(sch, y)
    cfg["tile_x"].apply(sch, x)
    return sch


@autotvm.template("test/four_tiles")
def four_tiles(n):
    sch = product(n, n, n, "float32")
    cfg = autotvm.get_config()
    for name, loop in zip("yxk", sch.get_loops(sch.get_block("C")), strict=True):
        cfg.define_split(name, loop, num_outputs=4)
        cfg[name].apply(sch, loop)
    return sch


@pytest.fixture
def task():
    return autotvm.task.create(TUTORIAL, ARGS, "llvm -num-cores=1")


def bowl(inp: MeasureInput) -> MeasureResult:
    """Return a time that is lowest, 1 ms, for tiles of 16 x 32, and rises from there."""
    y, x = (math.log2(entity._value[1]) for entity in inp.config.entity_map.values())
    cost = 1e-3 * (1 + 0.3 * (y - 4) ** 2 + 0.2 * (x - 5) ** 2)
    return MeasureResult((cost,), MeasureErrorNo.NO_ERROR, 0.01, 1000.0 + inp.config.index)


def failing(_: MeasureInput) -> MeasureResult:
    return MeasureResult(("it broke",), MeasureErrorNo.RUNTIME_DEVICE, 0.01, 1000.0)


def best_index(task) -> int:
    costs = {k: bowl(MeasureInput(None, task, task.space.get(k))).mean_cost for k in range(64)}
    return min(costs, key=costs.__getitem__)


def tuned(tuner, n_trial, results=bowl, **kwargs):
    """Tune on made-up results; return the indices that were measured, in order."""
    indices = []

    def note(_, inputs, __):
        indices.extend(inp.config.index for inp in inputs)

    callbacks = [note, *kwargs.pop("callbacks", [])]
    tuner.tune(n_trial, measured_by(results), callbacks=callbacks, **kwargs)
    return indices


# --------------------------------------------------------------------------------------- all tuners


@pytest.mark.parametrize("kind", ALL)
def test_a_tuner_keeps_the_fastest(task, kind):
    tuner = kind(task, seed=1)
    indices = tuned(tuner, 20)
    assert len(indices) <= 20
    speeds = {k: 1 / bowl(MeasureInput(None, task, task.space.get(k))).mean_cost for k in indices}
    fastest = max(indices, key=speeds.__getitem__)
    assert tuner.best_config.index == fastest
    assert tuner.best_flops == pytest.approx(task.flop * speeds[fastest])
    assert tuner.best_iter == indices.index(fastest)
    inp, result = tuner.best_measure_pair
    assert (inp.config, result) == (tuner.best_config, bowl(inp))


@pytest.mark.parametrize("kind", ALL)
def test_the_same_seed_gives_the_same_trials(task, kind):
    assert tuned(kind(task, seed=3), 12) == tuned(kind(task, seed=3), 12)


@pytest.mark.parametrize("kind", [GridSearchTuner, RandomTuner, XGBTuner])
def test_a_whole_space_is_measured_once(task, kind):
    assert sorted(tuned(kind(task, seed=1), 1000)) == list(range(64))


@pytest.mark.parametrize("kind", [GATuner, DropletTuner, EvolutionTuner])
def test_no_configuration_is_measured_twice_while_others_are_left(task, kind):
    indices = tuned(kind(task, seed=1), 20)
    assert len(set(indices)) == len(indices)


@pytest.mark.parametrize(
    ("kind", "trials"), [(GATuner, 64), (XGBTuner, 24), (DropletTuner, 40), (EvolutionTuner, 24)]
)
def test_what_learns_finds_the_best(task, kind, trials):
    tuner = kind(task, seed=1)
    tuned(tuner, trials)
    assert tuner.best_config.index == best_index(task)


@pytest.mark.parametrize("kind", ALL)
def test_a_filter_is_kept_to(kind):
    task = autotvm.task.create("test/two_filtered_tiles", (128,), "llvm -num-cores=1")
    indices = tuned(kind(task, seed=1), 16)
    assert all(task.space.is_index_valid(index) for index in indices)


@pytest.mark.parametrize("kind", ALL)
def test_a_tuner_survives_that_all_fails(task, kind, caplog):
    tuner = kind(task, seed=1)
    tuned(tuner, 20, failing)
    assert tuner.best_config is None
    assert "trials succeeded. All errors are in " in caplog.text
    path = caplog.text.split("All errors are in ")[1].split()[0]
    with open(path) as file:
        assert "MeasureErrorNo.RUNTIME_DEVICE: it broke" in file.read()


@pytest.mark.parametrize("kind", ALL)
def test_a_log_goes_on_where_it_ended(task, kind, tmp_path):
    log = str(tmp_path / "logs" / "first.log")
    done = tuned(RandomTuner(task, seed=1), 16, callbacks=[autotvm.callback.log_to_file(log)])
    tuner = kind(task, seed=2)
    records = list(autotvm.record.load_from_file(log))
    tuner.update(*zip(*records, strict=True))
    indices = tuned(tuner, 16)
    if kind not in (GATuner, DropletTuner):  # those begin with configurations of their own
        assert not set(done) & set(indices)


def test_early_stopping_counts_from_the_best_trial(task):
    tuner = GridSearchTuner(task)
    best = best_index(task)
    indices = tuned(tuner, 64, early_stopping=5)
    better = [k for k in indices if k <= tuner.best_iter]
    assert len(indices) == len(better) + 4 == tuner.best_iter + 5
    assert tuner.ttl == 0
    assert indices[-1] < best, "the grid stopped in front of it"


def test_ctrl_c_keeps_what_was_measured(task, tmp_path, caplog):
    def interrupted(inp):
        if inp.config.index == 11:
            raise KeyboardInterrupt
        return bowl(inp)

    log = str(tmp_path / "x.log")
    tuner = GridSearchTuner(task)
    seen = []
    tuner.update = lambda inputs, _: seen.extend(inp.config.index for inp in inputs)
    option = measured_by(interrupted)
    option["runner"].each = lambda inputs, _: map(interrupted, inputs)
    tuner.tune(64, option, callbacks=[autotvm.callback.log_to_file(log)])
    assert seen == list(range(11))
    assert [inp.config.index for inp, _ in autotvm.record.load_from_file(log)] == seen
    assert "Interrupted after 11 trials: what has been measured is kept" in caplog.text
    assert not autotvm.GLOBAL_SCOPE.in_tuning


def test_trials_are_told_at_debug_level(task, caplog):
    caplog.set_level(logging.DEBUG, "autotvm")
    tuned(GridSearchTuner(task), 2, si_prefix="M")
    first, second = (record.message for record in caplog.records if "No: " in record.message)
    speeds = [
        task.flop / bowl(MeasureInput(None, task, task.space.get(k))).mean_cost for k in (0, 1)
    ]
    assert first.startswith(f"No: 1\tMFLOPS: {speeds[0] / 1e6:.2f}/{speeds[0] / 1e6:.2f}\tresult: ")
    assert second.endswith("\t[('tile_y', [-1, 2]), ('tile_x', [-1, 1])],None,1")


def test_many_failures_in_a_row_are_told(task, caplog):
    logger = logging.getLogger("autotvm")
    before = logger.level
    tuner = GridSearchTuner(task)
    tuner.set_error_threshold(3)
    levels = []

    def results(inp):
        return bowl(inp) if inp.config.index == 6 else failing(inp)

    tuned(tuner, 8, results, callbacks=[lambda *_: levels.append(logger.level)])
    assert levels == [before] * 3 + [logging.DEBUG] * 3 + [before] * 2
    assert "4 trials in a row failed" in caplog.text


def test_templates_know_that_they_are_tuned(task):
    seen = []
    tuned(
        GridSearchTuner(task), 1, callbacks=[lambda *_: seen.append(autotvm.GLOBAL_SCOPE.in_tuning)]
    )
    assert seen == [True]
    assert not autotvm.GLOBAL_SCOPE.in_tuning


def test_what_a_tuner_cannot_be_is_refused(task):
    option = measured_by(bowl)
    for make, error, text in (
        (lambda: GridSearchTuner(task).tune(1, option, si_prefix="GB"), TemplateError, "si_prefix"),
        (lambda: GridSearchTuner(task, (3, 64)), SpaceIndexError, r"in \[0, 64\)"),
        (lambda: GATuner(task, pop_size=2, elite_num=3), TemplateError, "elite_num is at most"),
        (lambda: XGBTuner(task, feature_type="loops"), TemplateError, "feature_type is one of"),
        (lambda: XGBTuner(task, loss_type="l2"), TemplateError, "loss_type is one of"),
        (lambda: XGBTuner(task, optimizer="hill"), TemplateError, "optimizer is 'sa'"),
        (lambda: XGBTuner(task, plan_size=0), TemplateError, "plan_size is at least 1"),
        (lambda: XGBTuner(task, diversity_filter_ratio=0.5), TemplateError, "at least 1"),
        (lambda: DropletTuner(task, [0, 8]), TemplateError, "start_position"),
        (
            lambda: measured_from([])["runner"].run(
                [MeasureInput(None, task, task.space.get(0))], []
            ),
            TemplateError,
            "the log has no measurement",
        ),
    ):
        with pytest.raises(error, match=text):
            make()


# ------------------------------------------------------------------------------------------- indices


def test_a_window_of_a_filtered_space_has_few_configurations():
    task = autotvm.task.create("test/two_filtered_tiles", (128,), "llvm")
    assert tuned(GridSearchTuner(task, (8, 15)), 100)[0] == 12
    assert len(tuned(RandomTuner(task, (8, 15)), 100)) == 4
    assert len(tuned(RandomTuner(task), 100)) == 34


def test_random_order_is_a_uniform_permutation_of_a_space_of_any_size(task):
    firsts = [tuned(RandomTuner(task, seed=seed), 1)[0] for seed in range(1, 641)]
    counts = np.bincount(firsts, minlength=64)
    assert stats.chisquare(counts).pvalue > 1e-3
    large = autotvm.task.create("test/four_tiles", (4096,), "llvm")
    assert large.space.range_length > 10**7
    assert len(set(tuned(RandomTuner(large, seed=1), 20, failing))) == 20


# -------------------------------------------------------------------------------------------- models


@pytest.mark.parametrize("features", ["knob", "itervar", "curve"])
@pytest.mark.parametrize("loss", ["reg", "rank", "rank-binary"])
def test_a_model_learns_the_order_of_configurations(task, features, loss):
    model = XGBoostCostModel(task, features, loss)
    speeds = np.array([1 / seconds for seconds in bowl_costs(task).values()])
    known = [k for k in range(64) if k % 4]
    model.fit(known, list(speeds[known]), plan_size=32)
    unseen = list(range(0, 64, 4))
    assert stats.spearmanr(model.predict(unseen), speeds[unseen]).statistic > 0.8


def test_plans_are_small_where_the_space_is(task):
    assert XGBTuner(task).plan_size == 4
    large = autotvm.task.create("test/four_tiles", (64,), "llvm")
    assert XGBTuner(large).plan_size == 64
    assert XGBTuner(large, plan_size=16).plan_size == 16


def test_a_log_of_another_size_helps_from_the_first_trial(task, caplog):
    small = autotvm.task.create(TUTORIAL, (64, 64, 64, "float32"), "llvm")
    history = []
    tuned(
        GridSearchTuner(small),
        49,
        callbacks=[lambda _, i, r: history.extend(zip(i, r, strict=True))],
    )
    tuner = XGBTuner(task, seed=1)
    tuner.load_history(history, min_seed_records=40)
    indices = tuned(tuner, 12)
    ranks = [sorted(bowl_costs(task), key=bowl_costs(task).get).index(k) for k in indices]
    assert np.mean(ranks[:4]) < 12, "random ones would be at 32"
    XGBTuner(task).load_history(history)
    assert "49 usable records" in caplog.text


def bowl_costs(task):
    return {k: bowl(MeasureInput(None, task, task.space.get(k))).mean_cost for k in range(64)}


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


def test_annealing_finds_the_maxima_of_a_large_space():
    large = autotvm.task.create("test/four_tiles", (64,), "llvm")
    space = large.space

    class Sums:
        def predict(self, xs):
            return np.array([sum(space.point2knob(x)) / sum(space.dims) for x in xs])

    optimizer = SimulatedAnnealingOptimizer(large)
    best = space.range_length - 1
    found = optimizer.find_maximums(Sums(), 8, {best})
    scores = Sums().predict(found)
    assert best not in found
    assert len(set(found)) == 8
    assert list(scores) == sorted(scores, reverse=True)
    assert scores[-1] > 0.9


def test_a_small_space_is_scored_as_a_whole(task):
    class Indices:
        def predict(self, xs):
            return np.array(xs, float)

    found = SimulatedAnnealingOptimizer(task).find_maximums(Indices(), 3, {63, 61})
    assert found == [62, 60, 59]


def test_diverse_candidates_have_new_values_first():
    knobs = [[0, 0], [0, 1], [1, 1], [2, 2]]
    assert submodular_pick([0.9, 0.8, 0.1, 0.0], knobs, 3) == [0, 2, 3]
    assert submodular_pick([0.9, 0.8, 0.1, 0.0], knobs, 3, knob_weight=0) == [0, 1, 2]
    assert submodular_pick([1.0], [[0]], 5) == [0]


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


# ----------------------------------------------------------------------------------------- callbacks


def test_a_log_has_a_line_for_each_trial(task, tmp_path):
    path, text = tmp_path / "deep" / "x.log", io.StringIO()
    logs = [autotvm.callback.log_to_file(out) for out in (path, text)]
    tuned(GridSearchTuner(task), 3, callbacks=logs)
    assert path.read_text() == text.getvalue()
    assert [inp.config.index for inp, _ in autotvm.record.load_from_file(path)] == [0, 1, 2]
    with pytest.raises(TemplateError, match="'json', not as 'pickle'"):
        autotvm.callback.log_to_file(path, protocol="pickle")


def test_a_database_gets_traces(task):
    database = MemoryDatabase()

    def results(inp):
        return failing(inp) if inp.config.index == 1 else bowl(inp)

    tuned(
        GridSearchTuner(task), 64, results, callbacks=[autotvm.callback.log_to_database(database)]
    )
    assert len(database) == 63
    best = database.query_schedule(task.mod, task.target, "main")
    assert task.config_of(best).index == best_index(task)


def test_a_store_of_ones_own_is_asked_to_save(task):
    class Store(list):
        def save(self, inp, result):
            self.append((inp.config.index, result))

    store = Store()
    tuned(GridSearchTuner(task), 2, callbacks=[autotvm.callback.log_to_database(store)])
    assert [index for index, _ in store] == [0, 1]


def test_a_monitor_has_the_speed_and_time_of_each_trial(task):
    monitor = autotvm.callback.Monitor()

    def results(inp):
        return failing(inp) if inp.config.index == 1 else bowl(inp)

    tuned(GridSearchTuner(task), 3, results, callbacks=[monitor])
    assert [score > 0 for score in monitor.trial_scores()] == [True, False, True]
    assert monitor.trial_timestamps() == [1000.0, 1000.0, 1002.0]
    monitor.reset()
    assert monitor.trial_scores() == []


def test_a_bar_tells_current_and_best_speed(task, capsys):
    tuned(GridSearchTuner(task), 3, callbacks=[autotvm.callback.progress_bar(3, prefix="[1/1]")])
    said = capsys.readouterr().err
    assert "[1/1]: 100%" in said
    speed = task.flop / bowl(MeasureInput(None, task, task.space.get(2))).mean_cost / 1e9
    assert f"Current/Best: {speed:.2f}/{speed:.2f} GFLOPS" in said


def test_curves_of_trials():
    assert list(max_curve([1, 3, 2])) == [1, 3, 3]
    assert list(mean_curve([1, 3, 2])) == [1, 2, 2]
    assert list(recall_curve([0, 1, 2])) == [1, 1, 1]
    assert list(recall_curve([2, 1, 0])) == pytest.approx([0, 1 / 2, 1])
    assert list(recall_curve([2, 0, 1], top=2)) == [0, 1 / 2, 1]
    assert list(cover_curve([1, 0, 2])) == [0, 1, 1]
    labels = np.array([3.0, 1.0, 2.0])
    assert average_recall(labels * 2, labels, 2) == 1
    assert average_recall(-labels, labels, 2) < 0.5


# ------------------------------------------------------------------------------------- spaces, whole


def test_any_space_of_the_search_can_be_tuned():
    def split_k(sch: Schedule) -> None:
        block = sch.get_block("C")
        k = sch.get_loops(block)[-1]
        sch.split(k, sch.sample_perfect_tile(k, n=2, max_innermost_factor=16))

    mod = product(32, 64, 32, "float32").mod
    task = autotvm.task_of_space(mod, "llvm -num-cores=1", split_k)

    def results(inp):
        (tiles,) = inp.config.get_other_option().values()
        cost = 1e-3 * (1 + abs(tiles[1] - 8))
        return MeasureResult((cost,), MeasureErrorNo.NO_ERROR, 0.01, 0.0)

    for kind in (GridSearchTuner, RandomTuner, GATuner, DropletTuner, EvolutionTuner):
        tuner = kind(task, seed=1)
        tuned(tuner, 16, results)
        assert list(tuner.best_config.get_other_option().values()) == [[8, 8]], kind
