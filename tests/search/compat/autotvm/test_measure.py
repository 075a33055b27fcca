"""Measuring configurations: the failure of one is its own result, with an error number."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

import numpy as np
import pytest

import codegen
import search
from schedule import Schedule
from search import autotvm
from search.compat.autotvm import (
    MeasureErrorNo,
    MeasureInput,
    TemplateError,
    create_measure_batch,
)
from search.errors import TuningError
from tests.search import programs
from tests.search.compat.autotvm.templates import TUTORIAL, matmul

TARGET = "llvm -num-cores=1"
PROGRAMS = {
    "adds one": programs.adds_one,
    "adds two": programs.adds_two,
    "aborts": programs.aborts,
    "computes for minutes": programs.computes_for_minutes,
    "refused": programs.adds_one,
    "template fails": programs.adds_one,
    "build fails": programs.adds_one.with_attr("build", "fails"),
    "build hangs": programs.adds_one.with_attr("build", "hangs"),
    "build dies": programs.adds_one.with_attr("build", "dies"),
}


@autotvm.template("test/programs")
def any_program():
    cfg = autotvm.get_config()
    cfg.define_knob("program", list(PROGRAMS))
    cfg.add_flop(4)
    name = cfg["program"].val
    if name == "refused":
        cfg.raise_error("it is not wanted")
    if name == "template fails":
        raise ZeroDivisionError("of its own")
    return Schedule(PROGRAMS[name])


def build(mod, target, note=""):
    """Build as usual, but for programs that say otherwise."""
    how = str(mod["main"].attrs.get("build", "")).strip('"')
    if how == "fails":
        raise ValueError(f"it does not build {note}")
    if how == "hangs":
        time.sleep(60)
    if how == "dies":
        os._exit(3)
    return codegen.build(mod, target)


@pytest.fixture(scope="module")
def task():
    return autotvm.task.create("test/programs", (), TARGET)


@contextmanager
def processes(timeout, build_timeout):
    runner = autotvm.LocalRunner(timeout=timeout, number=2, repeat=5)
    builder = autotvm.LocalBuilder(
        timeout=build_timeout,
        n_parallel=1,
        build_func=build,
        build_kwargs={"note": "today"},
        allow_externs=["abort"],
    )
    yield autotvm.measure_option(builder, runner)
    builder.close()
    runner.close()


@pytest.fixture(scope="module")
def option():
    with processes(60, 60) as option:
        yield option


@pytest.fixture
def impatient():
    with processes(2, 3) as option:
        yield option


def measure(task, option, *names):
    inputs = [
        MeasureInput(task.target, task, task.space.get(list(PROGRAMS).index(name)))
        for name in names
    ]
    return create_measure_batch(task, option)(inputs)


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("refused", MeasureErrorNo.INSTANTIATION_ERROR, "it is not wanted"),
        ("template fails", MeasureErrorNo.COMPILE_HOST, "ZeroDivisionError: of its own"),
        ("build fails", MeasureErrorNo.COMPILE_HOST, "it does not build today"),
        ("build dies", MeasureErrorNo.RUNTIME_DEVICE, "exited with 3"),
        ("aborts", MeasureErrorNo.RUNTIME_DEVICE, "SIGABRT"),
    ],
)
def test_what_goes_wrong_costs_one_configuration(task, option, name, number, text):
    failed, good = measure(task, option, name, "adds one")
    assert failed.error_no == number
    assert text in failed.costs[0]
    assert good.error_no == MeasureErrorNo.NO_ERROR


def test_a_build_that_hangs_is_killed(task, impatient):
    (result,) = measure(task, impatient, "build hangs")
    assert result.error_no == MeasureErrorNo.BUILD_TIMEOUT
    assert "killed after 3 seconds" in result.costs[0]


def test_a_slow_configuration_is_timed_until_the_time_is_over_if_asked(task, option, impatient):
    impatient["runner"].end_hopeless = False
    mixed = {"builder": option["builder"], "runner": impatient["runner"]}
    _, slow = measure(task, mixed, "adds one", "computes for minutes")
    assert slow.error_no == MeasureErrorNo.RUN_TIMEOUT
    assert "killed after 2 seconds" in slow.costs[0]


def test_results_are_compared_with_those_of_the_unscheduled_program(task, option, monkeypatch):
    monkeypatch.setattr(option["runner"], "check_correctness", True)
    wrong, right = measure(task, option, "adds two", "adds one")
    assert wrong.error_no == MeasureErrorNo.WRONG_ANSWER
    assert "argument 1 (B) is wrong in 4 of 4 elements" in wrong.costs[0]
    assert right.error_no == MeasureErrorNo.NO_ERROR


def test_arrays_of_the_user_are_run_on(task, option, monkeypatch):
    arrays = [np.zeros(4, np.float32), np.zeros(4, np.float32)]
    monkeypatch.setattr(option["runner"], "ref_input", arrays)
    (result,) = measure(task, option, "adds one")
    assert result.error_no == MeasureErrorNo.NO_ERROR
    monkeypatch.setattr(option["runner"], "ref_input", arrays[:1])
    with pytest.raises(TemplateError, match=r"ref_input has 1 array\(s\), the program has 2"):
        measure(task, option, "adds one")
    monkeypatch.setattr(option["runner"], "ref_input", [np.zeros(5, np.float32), arrays[0]])
    with pytest.raises(TuningError, match=r"has the shape \(5,\)"):
        measure(task, option, "adds one")


def test_a_hopeless_configuration_is_ended_in_its_first_call(task, option):
    _, hopeless, good = measure(task, option, "adds one", "computes for minutes", "adds one")
    assert hopeless.error_no == MeasureErrorNo.RUN_TIMEOUT
    assert hopeless.slower_than == 0.05, "the minimum limit of a first call"
    assert str(hopeless.costs[0]).startswith("ended in its first call after 0.05")
    assert good.error_no == MeasureErrorNo.NO_ERROR


def test_configurations_are_measured_with_pauses_between_them(task, option, monkeypatch):
    pauses = []
    monkeypatch.setattr("search.runner.local_runner.sleep", pauses.append)
    measure(task, option, "adds one", "adds one")
    assert not pauses
    slow = {**option, "runner": autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=1000)}
    measure(task, slow, "adds one", "refused", "adds one")
    slow["runner"].close()
    assert len(pauses) == 1, "what is not built is not measured"
    assert 900 < pauses[0] <= 1000


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: autotvm.measure_option("remote", "local"), "the builder of measure_option"),
        (lambda: autotvm.measure_option("local", 5), "the runner of measure_option"),
        (lambda: autotvm.LocalBuilder(build_func="ndk"), "build_func is 'default' or a function"),
    ],
)
def test_what_there_is_not_is_refused(make, text):
    with pytest.raises(TemplateError, match=text):
        make()


def test_an_option_that_is_none_is_refused(task):
    with pytest.raises(TemplateError, match="no builder and no runner"):
        autotvm.tuner.GridSearchTuner(task).tune(1, {})


def test_builders_and_runners_are_those_of_the_search():
    runner, builder = autotvm.LocalRunner(), autotvm.LocalBuilder(n_parallel=2)
    assert isinstance(runner, search.runner.LocalRunner)
    assert isinstance(builder, search.builder.LocalBuilder)
    assert (builder.max_workers, builder.timeout_sec, runner.timeout_sec) == (2, 10, 10)
    assert runner.cooldown_sec == 0, "where AutoTVM has 0.1"
    config = runner.evaluator_config
    assert (config.number, config.repeat, config.min_repeat_ms) == (4, 3, 0)


def test_the_tutorial_from_a_template_to_a_library(tmp_path):
    log = tmp_path / "matmul.log"
    args = (32, 32, 32, "float32")
    task = autotvm.task.create(TUTORIAL, args=args, target="llvm")
    option = autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=5))
    tuner = autotvm.tuner.RandomTuner(task)
    tuner.tune(
        n_trial=2,
        measure_option=option,
        callbacks=[autotvm.callback.log_to_file(str(log))],
    )
    records = list(autotvm.record.load_from_file(log))
    assert len(records) == 2
    assert tuner.best_measure_pair[1] == min((r for _, r in records), key=lambda r: r.mean_cost)
    with autotvm.apply_history_best(str(log)), codegen.Target("llvm"):
        sch = matmul(*args)
    assert task.config_of(sch).index == tuner.best_config.index
    a, b = np.random.default_rng(0).random((2, 32, 32), np.float32)
    c = codegen.empty((32, 32), "float32")
    codegen.build(sch.mod, "llvm")["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
