"""Tuners, on fake results."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from schedule import Schedule
from search import autotvm
from search.compat.autotvm import (
    MeasureErrorNo,
    MeasureResult,
    SpaceIndexError,
    TemplateError,
    measured_by,
)
from search.compat.autotvm.tuner import (
    DropletTuner,
    EvolutionTuner,
    GATuner,
    GridSearchTuner,
    RandomTuner,
    XGBTuner,
)
from tests.search.compat.autotvm.fake_results import (
    best_index,
    bowl,
    failing,
    tuned,
    tutorial_task,
)
from tests.search.compat.autotvm.templates import product

ALL = [GridSearchTuner, RandomTuner, GATuner, XGBTuner, DropletTuner, EvolutionTuner]


@pytest.fixture
def task():
    return tutorial_task()


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
    indices = tuned(kind(task, seed=1), 8)
    assert all(task.space.is_index_valid(index) for index in indices)


@pytest.mark.parametrize("kind", ALL)
def test_a_log_goes_on_where_it_ended(task, kind, tmp_path):
    log = str(tmp_path / "logs" / "first.log")
    done = tuned(RandomTuner(task, seed=1), 12, callbacks=[autotvm.callback.log_to_file(log)])
    tuner = kind(task, seed=2)
    records = list(autotvm.record.load_from_file(log))
    tuner.update(*zip(*records, strict=True))
    assert not set(done) & set(tuned(tuner, 8))


def test_ctrl_c_keeps_what_was_measured(task, tmp_path):
    def interrupted(inp):
        assert autotvm.GLOBAL_SCOPE.in_tuning
        if inp.config.index == 11:
            raise KeyboardInterrupt
        return bowl(inp)

    log = str(tmp_path / "x.log")
    tuner = GridSearchTuner(task)
    seen = []
    tuner.update = lambda inputs, _: seen.extend(inp.config.index for inp in inputs)
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(64, measured_by(interrupted), callbacks=[autotvm.callback.log_to_file(log)])
    assert seen == list(range(11))
    assert [inp.config.index for inp, _ in autotvm.record.load_from_file(log)] == seen
    assert not autotvm.GLOBAL_SCOPE.in_tuning
    tuner.tune(64, measured_by(bowl))
    assert seen == list(range(64)), "those that were sent off are measured first"


@pytest.mark.parametrize("kind", ALL)
def test_a_tuner_survives_that_all_fails(task, kind, capsys):
    tuner = kind(task, seed=1)
    indices = tuned(tuner, 8, failing)
    assert tuner.best_config is None
    said = capsys.readouterr().err
    assert f"all of its {len(indices)} trials failed, each with: MeasureErrorNo.RUNTIME" in said


def test_a_refused_configuration_is_a_trial(task):
    refusing = autotvm.task.create("test/refuses_odd_tiles", (16,), "llvm -num-cores=1")
    results = {}

    def note(_, inputs, measured):
        results.update((i.config.index, r) for i, r in zip(inputs, measured, strict=True))

    def fine(inp):
        return MeasureResult((1e-3,), MeasureErrorNo.NO_ERROR, 0.01, 0.0)

    tuned(GridSearchTuner(refusing), 5, fine, callbacks=[note])
    assert {index: int(result.error_no) for index, result in results.items()} == {
        0: MeasureErrorNo.INSTANTIATION_ERROR,
        1: MeasureErrorNo.NO_ERROR,
        2: MeasureErrorNo.COMPILE_HOST,
        3: MeasureErrorNo.NO_ERROR,
        4: MeasureErrorNo.NO_ERROR,
    }
    assert "the template fails: ZeroDivisionError" in results[2].costs[0]


def test_what_a_tuner_cannot_be_is_refused(task):
    option = measured_by(bowl)
    for make, error, text in (
        (lambda: GridSearchTuner(task).tune(1, option, si_prefix="GB"), TemplateError, "si_prefix"),
        (lambda: GridSearchTuner(task, (3, 64)), SpaceIndexError, r"in \[0, 64\)"),
        (
            lambda: XGBTuner(task, feature_type="loops"),
            TemplateError,
            "unknown feature_type 'loops'; expected",
        ),
        (
            lambda: XGBTuner(task, feature_type="itervar"),
            TemplateError,
            "'nest' replaces 'itervar'",
        ),
        (
            lambda: XGBTuner(task, loss_type="reg"),
            TemplateError,
            "loss_type 'reg'; expected 'rank'",
        ),
        (lambda: XGBTuner(task, optimizer="sa"), TemplateError, "expected 'evolutionary'"),
        (lambda: XGBTuner(task, plan_size=0), TemplateError, "plan_size is 0; expected at least 1"),
        (lambda: DropletTuner(task, [0, 8]), TemplateError, "start_position"),
    ):
        with pytest.raises(error, match=text):
            make()


def test_a_window_of_a_filtered_space_has_few_configurations():
    task = autotvm.task.create("test/two_filtered_tiles", (128,), "llvm")
    assert tuned(GridSearchTuner(task, (8, 15)), 100)[0] == 12
    assert len(tuned(RandomTuner(task, (8, 15)), 100)) == 4
    assert len(tuned(RandomTuner(task), 100)) == 34


def test_random_order_is_a_uniform_permutation_of_a_space_of_any_size(task):
    firsts = [RandomTuner(task, seed=seed).next_batch(1)[0].index for seed in range(1, 641)]
    counts = np.bincount(firsts, minlength=64)
    assert stats.chisquare(counts).pvalue > 1e-3
    large = autotvm.task.create("test/four_tiles", (4096,), "llvm")
    assert large.space.range_length > 10**7
    assert len(set(tuned(RandomTuner(large, seed=1), 20, failing))) == 20


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
