"""The data of the plots of a run, without their pixels."""

import math
import sys
import tracemalloc

import numpy as np
import pytest
from matplotlib import pyplot as plt

from schedule import Schedule
from search import plot
from search.errors import TuningError
from search.reports import RunTable, Trial
from search.space_generator.design_space import DesignSpace
from tensorir import T


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def trial(number, microseconds=None, *, stage="done", task="main", **rest):
    return Trial(
        task=task,
        workload="17",
        target="llvm",
        batch=number // 4,
        number=number,
        stage=stage,
        run_secs=() if microseconds is None else (microseconds * 1e-6,),
        build_secs=0.5,
        measure_secs=1.0,
        time=1000.0 + 2 * number,
        **rest,
    )


RUN = RunTable(
    [
        trial(0, 40.0, space=0, decisions=[[8, 16], 0], predicted=0.5),
        trial(1, stage="build", error="no registers left"),
        trial(2, 20.0, space=0, decisions=[[4, 32], 0], predicted=0.4),
        trial(3, 50.0, stage="stopped", space=0, decisions=[[2, 64], 0], predicted=0.1),
        trial(4, 25.0, space=0, decisions=[[4, 32], 0], predicted=0.7),
        trial(5, 10.0, space=0, decisions=[[8, 16], 0], predicted=0.9),
    ]
)


def points(line):
    return list(zip(*(map(float, axis) for axis in line.get_data()), strict=True))


def test_best_so_far_against_trials():
    ax = plot.best_so_far(RUN)
    (line,) = ax.lines
    expected = [(1, 40.0), (2, 40.0), (3, 20.0), (4, 20.0), (5, 20.0), (6, 10.0)]
    assert points(line) == [pytest.approx(point) for point in expected]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("trials", "best time so far (us)")
    _, ax = plt.subplots()
    assert plot.best_so_far(RUN, against="seconds", ax=ax) is ax, "with what was drawn before"
    assert list(ax.lines[0].get_xdata()) == [1.5, 3.5, 5.5, 7.5, 9.5, 11.5], "from the first build"
    with pytest.raises(TuningError, match='against is "trials" or "seconds", got \'time\''):
        plot.best_so_far(RUN, against="time")
    run = RunTable([trial(0, stage="run", error="crashed"), trial(1, 8.0)])
    assert points(plot.best_so_far(run).lines[0]) == [(2.0, pytest.approx(8.0))]


@pytest.mark.parametrize(
    ("slowest", "fastest", "ticks"),
    [
        (900, 700, "700 750 800 850 900"),
        (8000, 600, "1000 2000 5000"),
        (3e6, 9, "10 100 1000 10000 100000 1e+06"),
    ],
)
def test_times_are_plain_numbers(slowest, fastest, ticks):
    ax = plot.best_so_far(RunTable([trial(0, slowest), trial(1, fastest)]))
    ax.figure.canvas.draw()
    low, high = ax.get_ylim()
    shown = [t.label1.get_text() for t in ax.yaxis.get_major_ticks() if low <= t.get_loc() <= high]
    assert " ".join(shown) == ticks


def test_several_runs_on_one_picture():
    ax = plot.best_so_far({"six": RUN, "four": RUN[:4]})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["six", "four"]
    assert [len(line.get_xdata()) for line in ax.lines] == [6, 4]
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 2


def test_tasks_of_a_run_are_lines_of_their_own():
    both = RunTable(
        [trial(0, 8.0, task="conv"), trial(0, 2.0, task="dense"), trial(1, 6.0, task="conv")]
    )
    ax = plot.best_so_far({"today": both})
    drawn = {line.get_label(): [y for _, y in points(line)] for line in ax.lines}
    assert drawn == {
        "today: conv": [pytest.approx(8.0), pytest.approx(6.0)],
        "today: dense": [pytest.approx(2.0)],
    }


def test_predictions_against_speeds():
    ax = plot.predicted_against_measured(RUN)
    line = ax.lines[0]
    expected = [(0.25, 0.5), (0.5, 0.4), (0.4, 0.7), (1.0, 0.9)]
    assert points(line) == [pytest.approx(point) for point in expected]
    assert line.get_label() == "50% of pairs in order"
    line = plot.predicted_against_measured(RunTable([trial(0, 9.0, predicted=0.5)])).lines[0]
    assert line.get_label() == "no pairs"
    ax = plot.predicted_against_measured(RunTable([trial(0, 8.0)]))
    assert [text.get_text() for text in ax.texts] == ["no trial has a prediction"]


def test_predictions_for_trials_that_have_no_time():
    """A trial that was stopped after 50 us has at most a fifth of the speed of the best."""
    ax = plot.predicted_against_measured(RunTable([*RUN, trial(6, 30.0)]))
    stopped = ax.lines[1]
    assert points(stopped) == [pytest.approx((0.2, 0.1))]
    assert (stopped.get_marker(), stopped.get_markerfacecolor()) == ("<", "none")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "50% of pairs in order",
        "1 stopped, this fast at most",
        "1 failed: no dot",
        "1 had no prediction: no dot",
    ]


@pytest.mark.parametrize(
    ("predicted", "share"),
    [([1, 2, 3], 1.0), ([3, 2, 1], 0.0), ([5, 5, 5], 0.5), ([1, 3, 2], 2 / 3)],
)
def test_pairs_in_the_right_order(predicted, share):
    speed, batch = np.array([0.1, 0.2, 0.3]), np.zeros(3)
    assert plot.right_pairs(np.array(predicted), speed, batch) == pytest.approx(share)


def test_pairs_of_one_batch_and_of_different_speeds_count():
    predicted, speed = np.array([1.0, 2.0, 0.1, 0.2]), np.array([0.1, 0.2, 0.3, 0.4])
    assert plot.right_pairs(predicted, speed, np.array([0, 0, 1, 1])) == 1.0
    assert math.isnan(plot.right_pairs(np.array([1.0, 2.0]), np.array([3.0, 3.0]), np.zeros(2)))


def test_pairs_of_many_trials_take_no_more_memory_than_those_of_a_batch():
    trials, batch = 4096, 64
    numbers = np.random.default_rng(1).random(trials)
    tracemalloc.start()
    assert plot.right_pairs(numbers, numbers, np.arange(trials) // batch) == 1.0
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000, "a matrix of all pairs has 16 million entries"


def test_cost_against_each_number_that_varied():
    axes = plot.cost_by_decision(RunTable([one for one in RUN if one.stage == "done"]))
    assert [ax.get_title() for ax in axes if ax.get_visible()] == ["decision 0[0]", "decision 0[1]"]
    first = axes[0]
    assert [label.get_text() for label in first.get_xticklabels()] == ["4", "8"]
    drawn = [sorted(float(y) for y in line.get_ydata()) for line in first.lines]
    assert drawn == [
        [pytest.approx(20.0), pytest.approx(25.0)],
        [pytest.approx(10.0), pytest.approx(40.0)],
    ]
    assert [float(bar.get_segments()[0][0][1]) for bar in first.collections] == [
        pytest.approx(22.5),
        pytest.approx(25.0),
    ]


def test_cost_of_trials_that_were_stopped_and_of_those_that_failed():
    failed = trial(6, stage="build", error="no registers left", space=0, decisions=[[1, 128], 0])
    first = plot.cost_by_decision(RunTable([*RUN, failed]))[0]
    assert [label.get_text() for label in first.get_xticklabels()] == ["2", "4", "8"]
    hollow = [line for line in first.lines if line.get_marker() == "^"]
    assert [list(line.get_ydata()) for line in hollow] == [[pytest.approx(50.0)]]
    assert float(first.collections[0].get_segments()[0][0][1]) == pytest.approx(50.0)
    assert first.figure.get_suptitle() == (
        "4 trials measured, 1 stopped (hollow: this slow at least), 1 failed (no dot)"
    )


def test_cost_against_the_decisions_of_a_design_space():
    @T.prim_func
    def double(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        for i in range(128):
            with T.block("B"):
                vi = T.axis.spatial(128, i)
                B[vi] = A[vi] * 2.0

    sch = Schedule(double)
    (i,) = sch.get_loops("B")
    sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=64))
    space = DesignSpace.of(sch)
    run = RunTable([trial(k, 9.0 - k, space=0, decisions=[[128 >> k, 1 << k]]) for k in range(3)])
    axes = plot.cost_by_decision(run, space)
    assert axes[0].get_title() == f"{space.knobs[0].name}[0]"
    elsewhere = RunTable([trial(0, 9.0, space=1, decisions=[[128, 1]])])
    with pytest.raises(TuningError, match="no measured trial of the run has decisions"):
        plot.cost_by_decision(elsewhere, space)


def test_decisions_that_are_codes_are_named():
    @T.prim_func
    def double_twice(A: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
        B = T.alloc_buffer((128,), "float32")
        for i in range(128):
            with T.block("B"):
                vi = T.axis.spatial(128, i)
                B[vi] = A[vi] * 2.0
        for i in range(128):
            with T.block("C"):
                vi = T.axis.spatial(128, i)
                C[vi] = B[vi] * 2.0

    sch = Schedule(double_twice)
    sch.annotate(sch.get_block("C"), "unroll", sch.sample_categorical([0, 16, 64], [0.2, 0.4, 0.4]))
    block = sch.get_block("B")
    sch.compute_at(block, sch.sample_compute_location(block))
    run = RunTable(
        [trial(k, 9.0 + k, space=0, decisions=[k, place]) for k, place in enumerate((0, -1, -2))]
    )
    axes = plot.cost_by_decision(run, DesignSpace.of(sch))
    assert [[label.get_text() for label in ax.get_xticklabels()] for ax in axes] == [
        ["0", "16", "64"],
        ["inline", "loop 0", "root"],
    ]


def test_decisions_that_are_words():
    run = RunTable(
        [trial(k, 9.0, space=0, decisions=[word]) for k, word in enumerate(("rows", "columns"))]
    )
    (ax,) = plot.cost_by_decision(run)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["columns", "rows"]


def test_where_the_time_went():
    ax = plot.where_time_went(RUN)
    stages = [label.get_text() for label in ax.get_yticklabels()]
    # The last of six trials ends 11.5 s after the first began to be built; each measured for 1 s.
    assert dict(zip(stages, [bar.get_width() for bar in ax.patches], strict=True)) == {
        "build": 3.0,
        "measure": 6.0,
        "search and wait": 5.5,
    }
    assert ax.get_xlabel() == "time (s)"


def test_a_profiler_tells_searching_from_learning():
    class Spent:
        def get(self):
            return {
                "EvoSearch/Evolve/Mutation": 1.0,
                "EvoSearch/SampleInitPopulation": 0.5,
                "MeasureCallback/UpdateCostModel": 2.0,
                "WaitForBuilder": 0.25,
                "Measure": 6.0,
                "Total": 10.0,
            }

    ax = plot.where_time_went(RUN, profilers=Spent())
    stages = [label.get_text() for label in ax.get_yticklabels()]
    assert dict(zip(stages, [bar.get_width() for bar in ax.patches], strict=True)) == {
        "build": 3.0,
        "measure": 6.0,
        "search": 1.5,
        "learn": 2.0,
        "wait for builds": 0.25,
        "other": 0.25,
    }


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'tensorir\[notebook\]'"):
        plot.best_so_far(RUN)
