"""rfactor: partial results first, then their reduction."""

import json

import numpy as np
import pytest

from schedule import Schedule, Trace
from tensorir import assert_structural_equal, parse, te
from tensorir.function import IRModule, PrimFunc
from tensorir.interp import interpret, random_arguments
from tests.schedule.cases import program as named_program

ROW_SUM = """
@T.prim_func
def main(A: T.Buffer((5, 12), "float32"), C: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
ARGMAX = named_program("ARGMAX", "rfactor")


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def assert_same_result(func: PrimFunc, sch: Schedule) -> None:
    expected = random_arguments(func)
    actual = [array.copy() for array in expected]
    interpret(func, *expected)
    interpret(sch.mod, *actual)
    for got, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def factored(text: str, split: int, which: int, factor_axis: int) -> Schedule:
    sch = Schedule(program(text))
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    loops = sch.get_loops(block)
    parts = sch.split(loops[-1], [None, split])
    sch.rfactor(parts[which], factor_axis)
    return sch


@pytest.mark.parametrize("split", [3, 4, 5, 12])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("factor_axis", [0, 1, -1, -2])
def test_any_part_and_any_axis(split: int, which: int, factor_axis: int) -> None:
    sch = factored(ROW_SUM, split, which, factor_axis)
    assert_same_result(program(ROW_SUM), sch)
    again = Schedule(IRModule({"main": program(ROW_SUM)}))
    trace = Trace.from_json(json.loads(json.dumps(sch.trace.as_json())))
    trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    assert any("sch.rfactor(loop=" in line for line in trace.as_python())


def test_blocks_of_several_factorings_have_names_of_their_own() -> None:
    sch = Schedule(program(ROW_SUM))
    block = sch.get_block("C")
    names = []
    for lanes in (4, 2):
        _, lane = sch.split(sch.get_loops(block)[-1], [None, lanes])
        names.append(sch.get(sch.rfactor(lane, 1)).name_hint)
    assert names == ["C_rf", "C_rf_1"]
    assert_same_result(program(ROW_SUM), sch)


UNIT = ROW_SUM.replace("(5, 12)", "(1, 1)").replace("(5,)", "(1,)")


@pytest.mark.parametrize(
    ("text", "unit_loop"),
    [
        (UNIT, lambda s: s.fuse(*s.get_loops("C"))),
        (UNIT, lambda s: s.fuse(*s.get_loops("C"), preserve_unit_iters=False)),
        (ROW_SUM, lambda s: s.add_unit_loop(s.get_block("C"))),
        (ROW_SUM, lambda s: s.split(s.get_loops("C")[0], [1, None])[0]),
        (ROW_SUM, lambda s: s.split(s.get_loops("C")[1], [1, None])[0]),
    ],
)
def test_a_loop_of_one_iteration_has_all_steps(text, unit_loop) -> None:
    sch = Schedule(program(text))
    sch.rfactor(unit_loop(sch), 0)
    assert sch.mod["main"].body.block.alloc_buffers[0].shape[0].value == 1
    assert_same_result(program(text), sch)


ARGMIN = (
    ARGMAX.replace("argmax", "argmin")
    .replace("min_value", "max_value")
    .replace(">=", "<=")
    .replace(
        """\
                I[vi] = -1
                V[vi] = T.max_value("float32")
""",
        """\
                V[vi] = T.max_value("float32")
                I[vi] = -1
""",
    )
    .replace(
        """\
            I[vi] = v_i
            V[vi] = v_v
""",
        """\
            V[vi] = v_v
            I[vi] = v_i
""",
    )
)


def test_pairs_that_are_stored_in_another_order() -> None:
    assert ARGMIN.index("V[vi] = v_v") < ARGMIN.index("I[vi] = v_i")
    assert_same_result(program(ARGMIN), factored(ARGMIN, 4, 1, 0))


TIES = """
@T.prim_func
def main(A: T.Buffer((5, 12), "int8"), I: T.Buffer((5,), "int32"), V: T.Buffer((5,), "int8")):
    for i, k in T.grid(5, 12):
        with T.block("best"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                I[vi] = -1
                V[vi] = T.{identity}("int8")
            v_i: T.int32 = T.Select({index}, I[vi], vk)
            v_v: T.int8 = {value}
            I[vi] = v_i
            V[vi] = v_v
"""
MINE, GIVEN = "V[vi]", "A[vi, vk]"


@pytest.mark.parametrize("better", [">", "<"])
@pytest.mark.parametrize(
    "index",
    [
        "{0} {op} {1} or {0} == {1} and I[vi] < vk",
        "{0} {op} {1} or {0} == {1} and I[vi] > vk",
        "{1} {po} {0} or {1} == {0} and vk > I[vi]",
        "(I[vi] < vk and {0} == {1}) or {0} {op} {1}",
    ],
)
@pytest.mark.parametrize(
    "value",
    ["T.Select({index}, {0}, {1})", "T.Select({0} {op} {1}, {0}, {1})", "T.{best}({1}, {0})"],
)
@pytest.mark.parametrize("which", [0, 1])
def test_pairs_of_which_the_index_decides_between_equal_values(better, index, value, which) -> None:
    parts = {
        "op": better,
        "po": "<>"["><".index(better)],
        "best": "max" if better == ">" else "min",
    }
    condition = index.format(MINE, GIVEN, **parts)
    text = TIES.format(
        identity="min_value" if better == ">" else "max_value",
        index=condition,
        value=value.format(MINE, GIVEN, index=condition, **parts),
    )
    func, sch = program(text), factored(text, 4, which, 0)
    given = np.random.default_rng(1).integers(0, 3, (5, 12)).astype("int8")
    results = []
    for module in (func, sch.mod):
        found, best = np.zeros(5, "int32"), np.zeros(5, "int8")
        interpret(module, given.copy(), found, best)
        results.append((found.tolist(), best.tolist()))
    assert results[0] == results[1]


def test_pairs_of_a_reducer_of_ones_own() -> None:
    """The one in the documentation of `te.comm_reducer`."""
    argmax = te.comm_reducer(
        lambda x, y: (te.Select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda index, value: (te.const(-1, index), te.min_value(value)),
    )
    A = te.placeholder((5, 12), "float32", "A")
    k = te.reduce_axis((0, 12), name="k")
    found = te.compute((5,), lambda i: argmax((k, A[i, k]), axis=k), name="argmax")
    func = te.create_prim_func([A, *found])
    sch = Schedule(func)
    sch.rfactor(sch.get_loops("argmax")[1], 0)
    assert_same_result(func, sch)


def test_whether_all_are_and_whether_any_is() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((5, 12), "bool"), C: T.Buffer((5,), "bool")):
    for i, k in T.grid(5, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.bool({})
            C[vi] = C[vi] {} A[vi, vk]
"""
    for identity, combiner in (("True", "and"), ("False", "or")):
        each = text.format(identity, combiner)
        assert_same_result(program(each), factored(each, 4, 1, 0))


@pytest.mark.parametrize(
    ("combiner", "identity"),
    [("max", "-inf"), ("min", "inf")],
)
def test_extrema_of_floats_may_begin_at_infinity(combiner, identity) -> None:
    text = ROW_SUM.replace("T.float32(0)", f'T.float32("{identity}")').replace(
        "C[vi] + A[vi, vk]", f"T.{combiner}(C[vi], A[vi, vk])"
    )
    sch = factored(text, 4, 1, 0)
    assert_same_result(program(text), sch)
    assert sch.mod.script().count(f'T.float32("{identity}")') == 2


WHERE = """
@T.prim_func
def main(A: T.Buffer((8, 128)), C: T.Buffer((8,))):
    for i, k_0, k_1 in T.grid(8, 13, 10):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(128, k_0 * 10 + k_1)
            T.where({})
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""


@pytest.mark.parametrize("limit", [128, 125, 121, 120, 15, 10])
@pytest.mark.parametrize("depth", [1, 2])
def test_steps_that_a_predicate_leaves_out(limit, depth) -> None:
    text = WHERE.format(f"k_0 * 10 + k_1 < {limit}")
    sch = Schedule(program(text))
    sch.rfactor(sch.get_loops("C")[depth], 0)
    assert_same_result(program(text), sch)
