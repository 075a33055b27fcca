"""Callbacks of tuners: logs, databases, progress, and the curves of many trials."""

from __future__ import annotations

import io

import pytest

from search import autotvm
from search.compat.autotvm import (
    MeasureInput,
    TemplateError,
)
from search.compat.autotvm.tuner import (
    GridSearchTuner,
)
from search.database import MemoryDatabase
from tests.search.compat.autotvm.fake_results import (
    best_index,
    bowl,
    failing,
    tuned,
    tutorial_task,
)


@pytest.fixture
def task():
    return tutorial_task()


def test_a_log_has_a_line_for_each_trial(task, tmp_path):
    path, text = tmp_path / "deep" / "x.log", io.StringIO()
    logs = [autotvm.callback.log_to_file(out) for out in (path, text)]
    tuned(GridSearchTuner(task), 3, callbacks=logs)
    assert path.read_text() == text.getvalue()
    assert [inp.config.index for inp, _ in autotvm.record.load_from_file(path)] == [0, 1, 2]
    with pytest.raises(TemplateError, match="only 'json' is supported"):
        autotvm.callback.log_to_file(path, protocol="pickle")


def test_the_database_of_a_tuner_gets_traces(task):
    database = MemoryDatabase()

    def results(inp):
        return failing(inp) if inp.config.index == 1 else bowl(inp)

    tuner = GridSearchTuner(task)
    tuner.database = database
    tuned(tuner, 64, results)
    records = database.get_all_tuning_records()
    assert [len(records), sum(record.is_valid for record in records)] == [64, 63]
    best = database.query_schedule(task.mod, task.target, "main")
    assert task.config_of(best).index == best_index(task)


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
