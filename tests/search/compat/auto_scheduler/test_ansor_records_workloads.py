"""Workloads by key, the numbers of a machine, and tasks."""

import numpy as np
import pytest

from codegen import Target
from search import TuningError, auto_scheduler
from search.compat.auto_scheduler import (
    HardwareParams,
    LayoutRewriteOption,
    SearchTask,
    SketchPolicy,
    workloads,
)
from tensorir import te
from tests.search.compat.auto_scheduler.workloads import demo_add, demo_mm

CPU = Target("llvm -num-cores=4")


@pytest.fixture(autouse=True)
def own_table(monkeypatch):
    """Forget the workloads of a test after it."""
    monkeypatch.setattr(workloads, "_functions", dict(workloads._functions))


# ---------------------------------------------------------------------------------------- workloads


def test_a_key_is_the_name_and_the_arguments():
    key = auto_scheduler.make_workload_key("demo_mm", (64, 32, 96))
    assert key == '["demo_mm", 64, 32, 96]'
    shapes = [t.shape for t in auto_scheduler.workload_of(key)]
    assert str(shapes) == "[(64, 96), (96, 32), (64, 32)]"


def test_a_name_is_taken_once():
    with pytest.raises(
        TuningError, match=r"'demo_mm' is already registered as .*workloads\.demo_mm"
    ):
        auto_scheduler.register_workload("demo_mm", lambda: None)
    auto_scheduler.register_workload("demo_mm", lambda n: demo_mm(n, n, n), override=True)
    key = auto_scheduler.make_workload_key("demo_mm", (4,))
    assert len(auto_scheduler.workload_of(key)) == 3


def test_a_function_that_is_defined_again_takes_its_own_place():
    for factor in (2.0, 3.0):

        @auto_scheduler.register_workload
        def again(n, factor=factor):
            A = te.placeholder((n,), name="A")
            return [A, te.compute((n,), lambda i: A[i] * factor, name="B")]

    program = SearchTask(again, (4,), target=CPU).mod
    assert "T.float32(3.0)" in program.script()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auto_scheduler.make_workload_key("demo_mn", ()), "do you mean 'demo_mm'"),
        (
            lambda: auto_scheduler.make_workload_key(len, ()),
            "unknown workload 'len'; registered are",
        ),
        (lambda: auto_scheduler.make_workload_key(demo_mm, 64), r"write \(n,\) for one argument"),
        (lambda: auto_scheduler.make_workload_key(demo_mm, (object(),)), "a log cannot hold"),
        (lambda: auto_scheduler.workload_of("demo_mm"), "a workload key is JSON of"),
        (lambda: auto_scheduler.register_workload(3), "is registered as a function, got int"),
    ],
)
def test_malformed_workloads_are_refused(call, message):
    with pytest.raises(TuningError, match=message):
        call()


def row_sums(dtype, length):
    A = te.placeholder((8, 64), dtype, name="A")
    k = te.reduce_axis((0, length), "k")
    return [A, te.compute((8,), lambda i: te.sum(A[i, k], axis=k), "B")]


def test_graphs_that_print_alike_are_workloads_of_their_own():
    graphs = [
        auto_scheduler.ComputeDAG(row_sums(*arguments))
        for arguments in [("float32", 64), ("float64", 64), ("float32", 32)]
    ]
    assert len(set(map(str, graphs))) == 1
    keys = [SearchTask(compute_dag=graph).workload_key for graph in graphs]
    for graph, key in zip(graphs, keys, strict=True):
        assert SearchTask(workload_key=key).compute_dag.tensors == graph.tensors


# ------------------------------------------------------------------------------------- the machine


def test_invalid_numbers_of_cores_are_refused():
    with pytest.raises(TuningError, match="num_cores is an int of at least 1, got 0"):
        HardwareParams(num_cores=0)


# ------------------------------------------------------------------------------------------- tasks


def test_candidates_are_measured_on_the_inputs_of_the_task():
    ones = np.ones((8, 8), "float32")
    task = SearchTask(demo_mm, (8, 8, 8), target=CPU, task_inputs={"A": ones})
    assert SketchPolicy(task).context().input_data[0] is ones
    with pytest.raises(TuningError, match="shape"):
        SketchPolicy(SearchTask(demo_mm, (8, 8, 9), task_inputs={"A": ones})).context()


def test_a_workload_may_be_a_program():
    task = SearchTask(demo_add, (16,), target=CPU)
    assert list(task.mod.functions) == ["main"]
    assert task.compute_dag is None


def test_the_cores_come_from_the_target_then_from_the_numbers():
    given = SearchTask(demo_mm, (8, 8, 8), target="llvm", hardware_params=HardwareParams(3))
    assert given.target.num_cores == 3
    assert given.given_target == Target("llvm")
    said = SearchTask(demo_mm, (8, 8, 8), target=CPU)
    assert said.target.num_cores == said.hardware_params.num_cores == 4
    here = SearchTask(demo_mm, (8, 8, 8), target="llvm")
    assert here.target == Target.host()
    assert said.hardware_params.as_numbers() == [4, 64, 64, 0, 0, 0, 0, 0]
    assert said.layout_rewrite_option is LayoutRewriteOption.INSERT_TRANSFORM_STAGE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs either func and args, or workload_key or compute_dag"),
        ({"workload_key": "[]", "args": (8,)}, r"args \(8,\) are given without func"),
        ({"workload_key": '["elsewhere", 3]'}, "unknown workload 'elsewhere'"),
        (
            {
                "func": demo_mm,
                "args": (1, 1, 1),
                "target": CPU,
                "hardware_params": HardwareParams(2),
            },
            "the target has 4 cores, hardware_params has 2; leave one of them out",
        ),
        (
            {"func": demo_mm, "args": (1,), "workload_key": "[]"},
            "either func and args, or workload",
        ),
        (
            {"func": demo_mm, "args": (8, 8, 8), "layout_rewrite_option": 9},
            r"layout_rewrite_option is one of NO_REWRITE \(0\)",
        ),
    ],
)
def test_invalid_tasks_are_refused(arguments, message):
    with pytest.raises(TuningError, match=message):
        SearchTask(**arguments)


def test_a_function_that_makes_no_program_is_named():
    auto_scheduler.register_workload("nothing", lambda: None)
    auto_scheduler.register_workload("without_inputs", lambda *sizes: demo_mm(*sizes)[2:])
    for name, arguments, message in (
        ("nothing", (), "the workload 'nothing' returned NoneType; it must return"),
        ("without_inputs", (8, 8, 8), "the workload 'without_inputs' raised .*tensor A is n"),
        ("demo_mm", (64,), r"(?s)the workload 'demo_mm' raised TypeError: .*\(64,\)"),
    ):
        with pytest.raises(TuningError, match=message):
            SearchTask(name, arguments)
