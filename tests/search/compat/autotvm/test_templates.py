"""Templates and their tasks: registered, called, instantiated, refused."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import codegen
from schedule import Schedule
from search import autotvm
from search.compat.autotvm import (
    ArgumentsError,
    InstantiationError,
    KnobError,
    TemplateError,
    UnknownKnobError,
)
from search.compat.autotvm.arguments import as_tuples, deserialize_args, serialize_args
from search.compat.autotvm.task import compute_flop
from tensorir import structural_equal, te
from tests.search.compat.autotvm.templates import DEMO, TUTORIAL, matmul, product

ARGS = (16, 24, 32, "float32")


def task_of(name=TUTORIAL, args=ARGS):
    return autotvm.task.create(name, args, "llvm")


@pytest.fixture
def table(monkeypatch):
    """Forget the templates that a test registers."""
    monkeypatch.setattr("search.compat.autotvm.task.TASK_TABLE", dict(autotvm.TASK_TABLE))


def test_the_tutorial():
    task = task_of(args=(512, 512, 512, "float32"))
    assert str(task.config_space) == (
        "ConfigSpace (len=100, range_length=100, space_map=\n"
        "   0 tile_y: Split(policy=factors, product=512, num_outputs=2) len=10\n"
        "   1 tile_x: Split(policy=factors, product=512, num_outputs=2) len=10\n"
        ")"
    )
    assert task.flop == 2 * 512**3
    assert task.workload == (TUTORIAL, 512, 512, 512, "float32")
    sch = task.instantiate(task.config_space.get(34))
    extents = [int(sch.get(loop).extent.value) for loop in sch.get_loops(sch.get_block("C"))]
    assert extents == [32, 64, 512, 16, 8]


def test_every_configuration_computes_the_product():
    task = task_of(DEMO)
    a = np.random.default_rng(0).random((16, 24), dtype=np.float32)
    b = np.random.default_rng(1).random((24, 32), dtype=np.float32)
    space = task.config_space
    for index in range(5, space.range_length, space.range_length // 3):
        try:
            sch = task.instantiate(space.get(index))
        except InstantiationError:
            continue  # It vectorizes the reduction.
        c = np.zeros((16, 32), np.float32)
        codegen.build(sch.mod, "llvm")(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_a_call_gets_the_configuration_of_the_context():
    task = task_of()
    config = task.config_space.get(13)
    with autotvm.ApplyConfig(config):
        sch = matmul(*ARGS)
    assert structural_equal(sch.mod, task.instantiate(config).mod)
    with pytest.raises(TemplateError, match=r"got dtype by name; its arguments are positional"):
        matmul(16, 24, 32, dtype="float32")


def test_a_template_that_returns_no_schedule(table):
    autotvm.template("test/nothing", lambda: None)
    with pytest.raises(
        TemplateError, match=r"'test/nothing' returned NoneType; expected a Schedule"
    ):
        task_of("test/nothing", ())


def test_unknown_templates():
    with pytest.raises(
        TemplateError, match=r"unknown template 'test/matmull'; do you mean 'test/matmul'"
    ):
        task_of("test/matmull")
    missing = autotvm.Task("elsewhere/conv", (1,))
    assert missing.workload == ("elsewhere/conv", 1)
    with pytest.raises(
        TemplateError,
        match=r"unknown template 'elsewhere/conv'.*Import the module that registers it",
    ):
        missing.instantiate(autotvm.ConfigEntity(0, None, {}))


def test_a_name_is_taken_once(table):
    autotvm.template("test/partial", functools.partial(product, 4, 4, 4))

    def define():
        @autotvm.template("test/again")
        def again():
            return product(4, 4, 4, "float32")

        return again

    define()
    define()  # as when a cell of a notebook is run again
    with pytest.raises(
        TemplateError, match=r"the name 'test/again' is taken by the template .*define"
    ):
        autotvm.template("test/again", lambda: None)


def test_arguments_as_logs_have_them():
    tensor = te.placeholder((4, 8), dtype="float16")
    args = (tensor, [1, (2.5, None)], "NCHW", True)
    encoded = (("TENSOR", (4, 8), "float16"), (1, (2.5, None)), "NCHW", True)
    assert serialize_args(args) == encoded
    assert as_tuples([["TENSOR", [4, 8], "float16"], [1, [2.5, None]], "NCHW", True]) == encoded
    placeholder = deserialize_args(encoded)[0]
    assert placeholder.op.name == "placeholder"
    assert serialize_args([placeholder]) == encoded[:1]
    assert serialize_args((np.int64(4), np.shape(np.ones((2, 3))))) == (4, (2, 3))
    with pytest.raises(ArgumentsError, match=r"the arguments of a task are a tuple, got int: 16"):
        task_of(args=16)
    with pytest.raises(ArgumentsError, match=r"argument 1\[0\] of a task is a dict"):
        task_of(args=(1, [{}]))
    with pytest.raises(RuntimeError, match=r"argument 0 of a task is a object"):
        task_of(args=(object(),))


def test_a_template_that_fails_is_named_with_its_arguments():
    with pytest.raises(
        TemplateError, match=r"Task\(func_name=test/matmul, args=\(16,\).* missing 3 required"
    ):
        task_of(args=(16,))
    with pytest.raises(TemplateError, match=r'registered by name, as in @template\("ns/name"\)'):
        autotvm.template(matmul)
    with pytest.raises(TemplateError, match=r"unknown template <function"):
        task_of(matmul)
    with pytest.raises(KnobError, match=r"3 is not a configuration of Task"):
        task_of().instantiate(3)


# ---------------------------------------------------------------------------------- operations


def test_comparisons_count_and_indices_do_not():
    a = te.placeholder((8, 8), name="A")
    half = te.compute((4, 8), lambda i, j: te.max(a[i * 2 + 1, j], 0.0), name="B")
    assert compute_flop(Schedule(te.create_prim_func([a, half])).mod) == 32
    inside = te.compute(
        (8, 8),
        lambda i, j: te.Select(te.all(a[i, j] > 0.0, te.logical_not(a[i, j] > 1.0)), a[i, j], 0.0),
        name="B",
    )
    assert compute_flop(Schedule(te.create_prim_func([a, inside])).mod) == 4 * 64


def test_copies_have_no_operations(table):
    @autotvm.template("test/copy")
    def copy(counted):
        a = te.placeholder((8,), name="A")
        b = te.compute((8,), lambda i: a[i], name="B")
        if counted:
            autotvm.get_config().add_flop(64)
        return Schedule(te.create_prim_func([a, b]))

    with pytest.raises(TemplateError, match=r"declare its number of operations by cfg.add_flop"):
        task_of("test/copy", (False,))
    assert task_of("test/copy", (True,)).flop == 64


# ------------------------------------------------------------------------------------- refusals


def test_a_knob_that_changed_since_the_configuration_was_logged():
    task = task_of()
    row = task.config_space.get(5).to_json_dict()

    def instantiate(*entities):
        config = autotvm.ConfigEntity.from_json_dict({**row, "entity": entities})
        return task.instantiate(config)

    y, x = row["entity"]
    instantiate(y, x)
    with pytest.raises(
        UnknownKnobError,
        match=r"unknown knob 'tile_x'; the configuration has tile_y, tile_w.*another version of the template",
    ):
        instantiate(y, ["tile_w", "sp", [-1, 4]])
    with pytest.raises(KnobError, match=r"'tile_x' differs from .* it is a SplitEntity, the conf"):
        instantiate(y, ["tile_x", "ot", 4])
    with pytest.raises(
        KnobError, match=r"'tile_x' .* \[-1, 4, 4\]; a split must have 2 integer sizes"
    ):
        instantiate(y, ["tile_x", "sp", [-1, 4, 4]])


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"index": 1, "entity": [["tile_y", "sp"]]},
        {"index": "1", "entity": []},
        {"index": 1, "entity": [["tile_y", "xx", [1]]]},
        {"index": 1, "entity": [["tile_y", "sp", 3]]},
        {"index": 1, "entity": [["tile_y", "sp", []]]},
        {"index": 1, "entity": [["tile_y", "sp", [-1, 0]]]},
        {"index": 1, "entity": [["tile_y", "sp", ["4", "4"]]]},
        {"index": 1, "entity": [["order", "re", [0, 2]]]},
        {"index": 1, "entity": [["ann", "an", ["none", {}]]]},
        {"index": 1, "entity": [["tile_y", "sp", [1]], ["tile_y", "sp", [2]]]},
        {"index": 1, "entity": [[["tile_y"], "sp", [1]]]},
        {"index": 1, "entity": [["tile_y", ["sp"], [1]]]},
        None,
    ],
)
def test_what_is_no_configuration(row):
    with pytest.raises(KnobError):
        autotvm.ConfigEntity.from_json_dict(row)


def test_a_filter_that_leaves_nothing(table):
    @autotvm.template("test/empty")
    def empty(n):
        sch = product(n, n, n, "float32")
        cfg = autotvm.get_config()
        cfg.define_knob("a", [1, 2])
        cfg.multi_filter(lambda values: values["a"].val > 2)
        return sch

    with pytest.raises(KnobError, match=r"filter of the space accepts no configuration"):
        task_of("test/empty", (4,))


# ------------------------------------------------------------------------------- configurations


def test_features_of_a_configuration():
    config = task_of(DEMO, (256, 384, 128, "float32")).config_space.get(28193)
    row = config.get_flatten_feature()
    assert row.dtype == np.float32
    assert row[:7].tolist() == [-1, 32, -1, 16, 0, 2, 1]
    assert row[7:16].tolist() == [1, 0, 0, 0, 0, 1, 0, 1, 0]
    assert row[16:].tolist() == [8]
    assert config.get_other_option() == {"unroll_k": 8}
