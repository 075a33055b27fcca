"""Several tasks that share trials: objectives, ends, logs and tables."""

import pytest

import search as ms
from search.compat.auto_scheduler import (
    LogEstimatedLatency,
    PrintTableInfo,
    RandomModel,
    RecordToFile,
    SketchPolicy,
    TaskScheduler,
    XGBModel,
    load_records,
)
from tensorir.errors import IRValueError
from tests.search.compat.auto_scheduler.workloads import TARGET, Milliseconds, made_up, task_of


def tasks(*sizes):
    return [task_of("demo_mm", n, n, n, target=TARGET, desc=f"matmul {n}") for n in sizes]


def measured(log):
    """Return the number of schedules of each task in a log."""
    found = {}
    for record in load_records(log):
        found.setdefault(record.input.task.args[0], set()).add(record.trace_key)
    return {size: len(keys) for size, keys in found.items()}


def test_tasks_in_turn(tmp_path):
    log = tmp_path / "log.json"
    scheduler = TaskScheduler(iter(tasks(16, 32, 64)), strategy="round-robin")
    assert scheduler.best_costs == [1e10] * 3
    options = made_up(tmp_path, 12, RecordToFile(log), num_measures_per_round=2)
    scheduler.tune(options, "sketch.random")
    assert scheduler.task_cts == [2, 2, 2]
    assert measured(log) == {16: 4, 32: 4, 64: 4}
    fair = TaskScheduler(tasks(16, 32))
    fair.tune(made_up(tmp_path, 6), "sketch.random")
    assert max(fair.task_cts) <= 3, "a batch is at most the share of a task"


# ------------------------------------------------------------------------------------- going on


def test_a_search_goes_on_from_its_log(tmp_path):
    log = tmp_path / "log.json"
    both = tasks(16, 32)
    options = made_up(tmp_path, 8, RecordToFile(log), num_measures_per_round=2)
    TaskScheduler(both, strategy="round-robin").tune(options, "sketch.random")
    assert measured(log) == {16: 4, 32: 4}

    again = TaskScheduler(both, strategy="round-robin", load_log_file=log)
    assert len(again.database) >= 8
    again.tune(options, "sketch.random")
    assert measured(log) == {16: 8, 32: 8}, "no schedule twice"
    assert again.task_cts == [4, 4], "the batches of the log count"
    best = [
        min(r.mean_seconds for r in load_records(log) if r.input.task.args[0] == n)
        for n in (16, 32)
    ]
    assert again.best_costs == pytest.approx(best)


def test_a_model_is_loaded(tmp_path):
    log, file = tmp_path / "log.json", tmp_path / "model"
    TaskScheduler(tasks(16)).tune(made_up(tmp_path, 4, RecordToFile(log)), "sketch.random")
    model = XGBModel()
    model.update_from_file(log)
    model.save(file)
    loaded = TaskScheduler(tasks(32), load_model_file=file)
    loaded.tune(made_up(tmp_path, 2))
    with pytest.raises(ms.TuningError, match="there is no saved cost model"):
        TaskScheduler(tasks(32), load_model_file=tmp_path / "no").tune(made_up(tmp_path, 2))
    with pytest.raises(ms.TuningError, match=r"'sketch.random' does not learn: leave out load_m"):
        TaskScheduler(tasks(32), load_model_file=file).tune(made_up(tmp_path, 2), "sketch.random")


# -------------------------------------------------------------------------------------- policies


def test_policies_of_ones_own_share_a_model(tmp_path):
    model = XGBModel()
    both = tasks(16, 32)
    TaskScheduler(both).tune(
        made_up(tmp_path, 4), [SketchPolicy(task, model, seed=1) for task in both]
    )
    assert model.data_size == 4
    with pytest.raises(ms.TuningError, match="share a cost model, these have 2"):
        TaskScheduler(both).tune(made_up(tmp_path, 4), [SketchPolicy(t, XGBModel()) for t in both])
    TaskScheduler(both).tune(made_up(tmp_path, 4), [SketchPolicy(t, RandomModel()) for t in both])


def test_arguments_are_checked(tmp_path):
    both = tasks(16, 32)
    options = made_up(tmp_path, 4)
    for policy, error in (
        (
            "sketch.gp",
            "unknown search_policy 'sketch.gp'; expected one of 'default', 'sketch.xgb', ",
        ),
        ([], "search_policy has policies for ; expected one for each task in order: matmul 16, "),
        ([SketchPolicy(both[1])] * 2, "has policies for matmul 32, matmul 32; expected"),
    ):
        with pytest.raises(ms.TuningError, match=error):
            TaskScheduler(both).tune(options, policy)
    with pytest.raises(ms.TuningError, match="pass them to SketchPolicy and XGBModel"):
        both[0].tune(options, SketchPolicy(both[0]), adaptive_training=True)
    with pytest.raises(IRValueError, match="xgbb"):
        SketchPolicy(both[0], "xgbb")
    with pytest.raises(ms.TuningError, match="strategy is 'gradient' or 'round-robin', got 'x'"):
        TaskScheduler(both, strategy="x")
    with pytest.raises(
        ms.TuningError, match="needs tasks and a weight for each, got 2 tasks and 1"
    ):
        TaskScheduler(both, [1])
    with pytest.raises(IRValueError, match="tasks is a list of instances of SearchTask"):
        TaskScheduler(both[0])
    with pytest.raises(ms.TuningError, match="num_measure_trials is at least 2, one for each task"):
        TaskScheduler(both).tune(made_up(tmp_path, 1))


# ------------------------------------------------------------------------------------- callbacks


def test_the_latency_is_logged_after_each_batch(tmp_path):
    file = tmp_path / "total_latency.tsv"
    file.write_text("of an earlier search\n")
    scheduler = TaskScheduler(tasks(16, 32), [1, 2], callbacks=[LogEstimatedLatency(file)])
    options = made_up(tmp_path, 4, runner=Milliseconds(3, 4, 2, 5), num_measures_per_round=1)
    scheduler.tune(options, "sketch.random")
    rows = [line.split("\t") for line in file.read_text().splitlines()]
    assert {(row[0], row[2], row[4]) for row in rows} == {
        ("ElapsedTime(s)", "EstimatedLatency(ms)", "Trials")
    }
    assert [row[5] for row in rows] == ["1", "2", "3", "4"]
    assert [row[3] for row in rows[:2]] == ["N/A", "11.000"], "3 ms and twice 4 ms"
    assert float(rows[-1][3]) in (7.0, 10.0), "2 ms in place of either"


def test_the_table_is_printed_after_each_batch(tmp_path, capsys):
    scheduler = TaskScheduler(tasks(16, 32), callbacks=[PrintTableInfo()])
    scheduler.tune(made_up(tmp_path, 4, num_measures_per_round=1), "sketch.random")
    shown = capsys.readouterr().out
    assert shown.count("Total trials") == 4
    assert "matmul 16" in shown
