"""Tuning a task: options, what is kept in the log, and going on from it."""

import json
import subprocess
import sys

import numpy as np
import pytest

import codegen
import search as ms
from search.compat.auto_scheduler import (
    EmptyPolicy,
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    PreloadMeasuredStates,
    RecordToFile,
    SketchPolicy,
    TuningOptions,
    XGBModel,
    load_best_record,
    load_records,
)
from search.compat.auto_scheduler.workloads import register_program
from search.runner import RunnerResult
from tensorir.errors import TensorIRError
from tests.search.compat.auto_scheduler.workloads import TARGET, Milliseconds, made_up, task_of
from tests.search.made_up_runs import TimesOfScripts

RANDOM = "sketch.random"
"""A policy that takes no time to learn."""


def matmul():
    return task_of("demo_mm", 32, 32, 32, target=TARGET)


def traces(log):
    """The distinct schedules of a log, in order."""
    return list(dict.fromkeys(json.dumps(record.input.rows) for record in load_records(log)))


# -------------------------------------------------------------------------------------- the options


def test_options_are_checked():
    for options, error in (
        ({"num_measure_trials": -1}, "num_measure_trials is an int of at least 0, got -1"),
        ({"early_stopping": 0}, "early_stopping is an int of at least 1, got 0"),
        ({"measure_callbacks": ["log.json"]}, "measure_callbacks holds 'log.json'"),
    ):
        with pytest.raises(TensorIRError, match=error):
            TuningOptions(**options)
    with pytest.raises(ms.TuningError, match="build_func is 'default' or a function"):
        LocalBuilder(build_func="ndk")


def test_builder_and_runner_have_the_defaults_of_ansor():
    builder, runner = LocalBuilder(), LocalRunner()
    assert (builder.timeout_sec, builder.max_workers) == (15, codegen.target.host.logical_cores())
    assert runner.timeout_sec == 10
    assert runner.evaluator_config == ms.EvaluatorConfig(3, 1, 100, False)
    flushed = LocalRunner(enable_cpu_cache_flush=True, number=7)
    assert flushed.evaluator_config == ms.EvaluatorConfig(1, 1, 0, True)


def test_the_package_is_loaded_when_it_is_asked_for():
    code = """
import sys, search.tune
assert not any("auto_scheduler" in name or "autotvm" in name for name in sys.modules)
import search.compat.auto_scheduler as before
from search import auto_scheduler
assert before.SearchTask is auto_scheduler.SearchTask
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------------------ the flow of a user


def test_tune_apply_build_and_go_on(tmp_path):
    """The only test here that compiles and measures."""
    log = tmp_path / "logs" / "matmul.json"
    task = matmul()
    builder, runner = LocalBuilder(n_parallel=1), LocalRunner(min_repeat_ms=10)
    options = TuningOptions(
        2, verbose=0, builder=builder, runner=runner, measure_callbacks=[RecordToFile(log)]
    )
    sch = task.tune(options)
    assert sch.mod.script() == task.apply_best(log)[0].mod.script()

    sch, args = task.apply_best(log)
    assert [arg.name for arg in args] == ["A", "B", "C"]
    a, b = np.random.default_rng(1).random((2, 32, 32), np.float32)
    c = np.empty((32, 32), np.float32)
    codegen.build(sch.mod, task.target)(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    assert "sch.get_block" in task.print_best(log)

    model = XGBModel(seed=1)
    assert model.update_from_file(log) == 2
    policy = SketchPolicy(task, model, init_search_callbacks=[PreloadMeasuredStates(log)])
    task.tune(options, search_policy=policy)
    assert len(traces(log)) == 4, "nothing was measured twice"
    builder.close()
    runner.close()


def test_each_measurement_is_a_line(tmp_path):
    log = tmp_path / "matmul.json"
    results = [
        RunnerResult(run_secs=(2e-3,), seconds=0.25),
        RunnerResult(error_msg="a" * 600, ending="crash"),
        RunnerResult(error_msg="late", ending="timeout"),
        RunnerResult(error_msg="C differs", stage="check"),
        RunnerResult(run_secs=(1.0,), stopped=True),
        RunnerResult(run_secs=(1e-3, 3e-3)),
    ]
    runner = TimesOfScripts(lambda k: results[k] if k < len(results) else None)
    matmul().tune(made_up(tmp_path, 6, RecordToFile(log), runner=runner), RANDOM)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(line["i"][0][0] == '["demo_mm", 32, 32, 32]' for line in lines)
    assert all(line["i"][1][1][0][0] == "TR" for line in lines)
    assert [line["r"][:2] for line in lines[:6]] == [
        [[2e-3], MeasureErrorNo.NO_ERROR],
        [[1e10], MeasureErrorNo.RUNTIME_DEVICE],
        [[1e10], MeasureErrorNo.RUN_TIMEOUT],
        [[1e10], MeasureErrorNo.WRONG_ANSWER],
        [[1e10], MeasureErrorNo.RUN_TIMEOUT],
        [[1e-3, 3e-3], MeasureErrorNo.NO_ERROR],
    ]
    assert lines[0]["r"][2] == pytest.approx(2.25), "2 s of building, 0.25 s of measuring"
    assert [line.get("slower_than") for line in lines[:6]] == [None] * 4 + [1.0, None]


def test_any_search_writes_a_log(tmp_path):
    """Its workload is the program, under its hash."""
    log = tmp_path / "log.json"
    options = made_up(tmp_path, 2, RecordToFile(log))
    mod = matmul().mod
    ms.tune_tir(
        mod,
        TARGET,
        ms.TuneConfig(2),
        tmp_path / "work",
        builder=options.builder,
        runner=options.runner,
        database="memory",
        cost_model="random",
        measure_callbacks=options.callbacks(),
    )
    best, _ = load_best_record(log)
    assert best.task.workload_key == register_program(mod["main"])
    assert best.task.mod.script() == mod.script()


def test_early_stopping(tmp_path):
    log = tmp_path / "matmul.json"
    options = made_up(
        tmp_path,
        20,
        RecordToFile(log),
        runner=Milliseconds(3, 2, 4),
        num_measures_per_round=1,
        early_stopping=3,
    )
    matmul().tune(options, RANDOM)
    assert len(traces(log)) == 2 + 3


# ------------------------------------------------------------------------------------- going on


def test_a_model_learns_the_first_lines_of_a_log(tmp_path):
    log = tmp_path / "matmul.json"
    matmul().tune(made_up(tmp_path, 6, RecordToFile(log)), RANDOM)
    model = XGBModel(verbose_eval=5, num_warmup_sample=7, seed=3, adaptive_training=True)
    assert (model.verbose_eval, model.num_warmup_samples, model.config.seed) == (5, 7, 3)
    assert model.adaptive_training > XGBModel().adaptive_training
    assert model.update_from_file(log, n_lines=2) == 2
    assert model.update_from_file(log) == 4, "only new records"
    assert model.data_size == 6
    model.save(tmp_path / "model")
    assert XGBModel(model_file=tmp_path / "model").data_size == 6


# --------------------------------------------------------------------------------- other searches


def test_no_trials_are_a_search_by_the_model_alone(tmp_path):
    task = matmul()
    runner = TimesOfScripts()
    sch = task.tune(made_up(tmp_path, 0, runner=runner))
    assert runner.log == []
    assert sch.trace.decisions


def test_the_empty_policy_leaves_the_program_unscheduled(tmp_path):
    log = tmp_path / "matmul.json"
    task = matmul()
    sch = task.tune(made_up(tmp_path, 8, RecordToFile(log)), EmptyPolicy(task))
    assert sch.mod.script() == task.mod.script()
    for line in load_records(log):
        assert line.input.schedule().mod.script() == task.mod.script()
    sch, _ = task.apply_best(log)
    assert sch.mod.script() == task.mod.script()
