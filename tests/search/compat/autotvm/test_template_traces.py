"""A template is a stochastic schedule: traces work on it, and schedules are tasks."""

from __future__ import annotations

import json
import logging

import pytest

import search as ms
from schedule import Schedule, Trace
from schedule.random_state import RandomState
from search import DesignSpace, TuneContext, autotvm
from search.compat.autotvm import InstantiationError, KnobError, TemplateError, TemplateSpace
from search.database import MemoryDatabase
from search.mutator import MutateTileSize
from tensorir import structural_equal, te, workloads
from tests.search.compat.autotvm.templates import DEMO, TUTORIAL, product
from tests.search.made_up_runs import ScriptFiles, TimesOfScripts

TARGET = "llvm -num-cores=1"


@pytest.fixture(autouse=True)
def table(monkeypatch):
    """Forget the templates that a test registers."""
    monkeypatch.setattr("search.compat.autotvm.task.TASK_TABLE", dict(autotvm.TASK_TABLE))


def task_of(name=DEMO, args=(16, 24, 32, "float32")):
    return autotvm.task.create(name, args, TARGET)


def accepted(task, count):
    """Return some configurations that the template takes, with their schedules."""
    found = []
    index = 1
    while len(found) < count:
        index = (index * 31 + 7) % task.config_space.range_length
        try:
            config = task.config_space.get(index)
            found.append((config, task.instantiate(config)))
        except InstantiationError:
            continue
    return found


def test_traces_replay_and_tell_their_configuration():
    task = task_of()
    for config, sch in accepted(task, 12):
        saved = json.loads(json.dumps(sch.trace.as_json()))
        text = "\n".join(sch.trace.as_python())
        for trace in (Trace.from_json(saved), Trace.from_python(text)):
            replay = Schedule(task.mod)
            trace.apply_to_schedule(replay, remove_postproc=False)
            assert structural_equal(replay.mod, sch.mod)
            found = task.config_of(trace)
            assert (found.index, str(found)) == (config.index, str(config))


def test_the_mutator_of_tile_sizes_knows_splits():
    task = task_of(TUTORIAL)
    sch = task.instantiate(task.config_space.get(13))
    mutator, rng = MutateTileSize(), RandomState(1)
    found = {task.config_of(mutator.apply(sch.trace, rng)).index for _ in range(40)}
    assert 13 not in found
    assert len(found) > 5


def structural():
    """Return a task whose template reads one knob in Python, and filters two."""

    @autotvm.template("test/structural")
    def template(n):
        sch = product(n, n, n, "float32")
        y, x, k = sch.get_loops(sch.get_block("C"))
        cfg = autotvm.get_config()
        cfg.define_split("tile_y", y, num_outputs=2)
        cfg.define_split("tile_x", x, num_outputs=2)
        cfg.define_knob("parallel", [False, True])
        cfg.multi_filter(lambda v: v["tile_y"].size[-1] * v["tile_x"].size[-1] <= 16)
        yo, yi = cfg["tile_y"].apply(sch, y)
        xo, xi = cfg["tile_x"].apply(sch, x)
        sch.reorder(yo, xo, k, yi, xi)
        if cfg["parallel"].val:
            sch.parallel(yo)
        return sch

    return autotvm.task.create("test/structural", (16,), TARGET)


def design_spaces(task, space):
    context = TuneContext(task.mod, target=TARGET, space_generator=space, rand_state=1)
    return context, [DesignSpace.of(sch) for sch in context.generate_design_space()]


def tuned(task, work_dir, **options):
    """Return the best schedule of a search with times that are made up, and its records."""
    database = MemoryDatabase()
    best = ms.tune_tir(
        task.mod,
        TARGET,
        ms.TuneConfig(4, num_confirmed=0, **options.pop("config")),
        work_dir,
        space=TemplateSpace(task),
        builder=ScriptFiles(work_dir / "artifacts"),
        runner=TimesOfScripts(),
        database=database,
        seed=1,
        **options,
    )
    return best, database.get_all_tuning_records()


def test_tune_tir_takes_a_template(tmp_path):
    task = structural()
    best, records = tuned(task, tmp_path, cost_model="random", config={"num_trials_per_iter": 4})
    configs = [task.config_of(record.trace) for record in records]
    assert len({config.index for config in configs}) == len(records) == 4
    assert all(task.config_space.is_index_valid(config.index) for config in configs)
    for config, record in zip(configs, records, strict=True):
        assert structural_equal(task.instantiate(config).mod, record.schedule().mod)
    assert task.config_of(best).index in [config.index for config in configs]


def test_a_model_guides_a_search_of_orders_and_marks(tmp_path):
    task = task_of(args=(16, 16, 16, "float32"))
    small = {"population_size": 16, "init_min_unmeasured": 8}
    _, records = tuned(
        task, tmp_path, config={"num_trials_per_iter": 2, "search_strategy_config": small}
    )
    assert len({task.config_of(record.trace).index for record in records}) == 4


def test_a_template_tunes_its_own_program_only():
    task = structural()
    other = workloads.create("GMM", n=16, m=16, k=16)
    context = TuneContext(other, target=TARGET, space_generator=TemplateSpace(task))
    with pytest.raises(TemplateError, match=r"schedules another program.*pass task.mod"):
        context.generate_design_space()


def test_a_template_that_looks_at_loops():
    """It does not ask the knob, but how long the loop is that the knob has split."""

    @autotvm.template("test/looks")
    def looks(n):
        sch = product(n, n, n, "float32")
        y, x, k = sch.get_loops(sch.get_block("C"))
        cfg = autotvm.get_config()
        cfg.define_split("tile_y", y, num_outputs=2)
        cfg.define_split("tile_x", x, num_outputs=2)
        yo, yi = cfg["tile_y"].apply(sch, y)
        xo, xi = cfg["tile_x"].apply(sch, x)
        sch.reorder(yo, xo, k, yi, xi)
        if sch.get(xi).extent.value > 1:
            sch.vectorize(xi)
        return sch

    task = autotvm.task.create("test/looks", (16,), TARGET)
    assert task.config_space.reads == set()
    _, spaces = design_spaces(task, TemplateSpace(task))
    assert task.config_space.reads == {"tile_x"}
    assert [space.num_points for space in spaces] == [5] * 5
    assert ["sch.vectorize" in str(space.trace) for space in spaces] == [False] + [True] * 4


def test_a_knob_that_changes_the_program(caplog):
    @autotvm.template("test/program")
    def template(n):
        cfg = autotvm.get_config()
        cfg.define_knob("order", ["ijk", "jik"])
        left = cfg["order"].val == "ijk"
        a = te.placeholder((n, n), name="A")
        return Schedule(
            te.create_prim_func(
                [
                    a,
                    te.compute(
                        (n, n), lambda i, j: a[i, j] * 2.0 if left else 2.0 * a[i, j], name="B"
                    ),
                ]
            )
        )

    task = autotvm.task.create("test/program", (4,), TARGET)
    with caplog.at_level(logging.WARNING, "autotvm"):
        _, spaces = design_spaces(task, TemplateSpace(task))
    assert len(spaces) == 1
    assert "other values of order: 1 of 2 design spaces are skipped" in caplog.text


def test_a_template_that_always_refuses():
    @autotvm.template("test/never")
    def never(n):
        cfg = autotvm.get_config()
        cfg.define_knob("x", [1, 2])
        cfg.raise_error("no")
        return product(n, n, n, "float32")

    task = autotvm.task.create("test/never", (4,), TARGET)
    mod = product(4, 4, 4, "float32").mod
    context = TuneContext(mod, target=TARGET, space_generator=TemplateSpace(task))
    with pytest.raises(TemplateError, match=r"refuses every configuration that was tried"):
        context.generate_design_space()


# --------------------------------------------------------------------- the space of a schedule


def stochastic(sch):
    block = sch.get_block("Z")
    _, i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=4))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=8))
    sch.reorder(i0, j0, k, i1, j1)
    sch.annotate(i0, "step", sch.sample_categorical([0, 16, 64], [0.2, 0.3, 0.5]))


def gmm():
    return workloads.create("GMM", n=16, m=16, k=16)


def test_a_schedule_function_is_a_space_for_tuners():
    task = autotvm.task_of_space(gmm(), TARGET, stochastic)
    assert str(task.config_space) == (
        "ConfigSpace (len=36, range_length=36, space_map=\n"
        "   0 tile of loop 1 of Z: OtherOption([[4, 4], [8, 2], [16, 1]]) len=3\n"
        "   1 tile of loop 2 of Z: OtherOption([[2, 8], [4, 4], [8, 2], [16, 1]]) len=4\n"
        "   2 step of l7: OtherOption([0, 1, 2]) len=3\n"
        ")"
    )
    assert task.flop == 2 * 16**3
    for index in (0, 17, 35):
        config = task.config_space.get(index)
        sch = task.instantiate(config)
        assert task.config_of(sch).index == index
        rows = [config[name].val for name in task.config_space.space_map]
        sizes = [int(sch.get(loop).extent.value) for loop in sch.get_loops(sch.get_block("Z"))]
        assert sizes == [1, rows[0][0], rows[1][0], 16, rows[0][1], rows[1][1]]


def test_a_space_with_postprocessors_is_completed_by_them():
    spaces = ms.design_spaces(gmm(), TARGET)
    task = autotvm.task_of_space(gmm(), TARGET, "post-order-apply", index=len(spaces) - 1)
    for index in task.space.sample_ints(3, rng=RandomState(1)):
        sch = task.instantiate(task.space.get(index))
        assert "meta_schedule.vectorize" in str(task.design.trace)
        assert "meta_schedule.vectorize" not in str(sch.mod)
        assert task.config_of(sch).index == index
    with pytest.raises(
        TemplateError, match=f"there are {len(spaces)} design spaces, index is None; choose"
    ):
        autotvm.task_of_space(gmm(), TARGET, "post-order-apply")
    with pytest.raises(TemplateError, match=r"index is 99; choose one in"):
        autotvm.task_of_space(gmm(), TARGET, "post-order-apply", index=99)


def test_a_template_is_such_a_space_too():
    task = task_of(TUTORIAL)
    twin = autotvm.task_of_space(task.mod, TARGET, TemplateSpace(task))
    assert twin.config_space.dims == task.config_space.dims
    for index in (0, 13, 29):
        a = task.instantiate(task.config_space.get(index))
        b = twin.instantiate(twin.config_space.get(index))
        assert structural_equal(a.mod, b.mod)


def test_a_trace_of_something_else():
    task = autotvm.task_of_space(gmm(), TARGET, stochastic)
    with pytest.raises(KnobError, match=r"the trace is not one of Task"):
        task.config_of(Schedule(gmm()))
    sch = structural().instantiate(structural().space.get(0))
    with pytest.raises(KnobError, match=r"unknown knob 'tile_y'; the configuration has none"):
        autotvm.ConfigSpace().config_of(sch)
