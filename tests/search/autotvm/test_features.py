"""What cost models of tuners get to see of a configuration."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from search import autotvm
from search.arg_info import ArgInfo
from search.autotvm import TemplateError
from search.autotvm.feature import (
    FEATURES,
    ConfigFeatures,
    get_buffer_curve_sample_flatten,
    get_itervar_feature,
    get_itervar_feature_flatten,
)
from search.autotvm.feature.loops import LOOP_KINDS
from search.autotvm.template_space import TemplateSpace
from search.context import TuneContext
from search.cost_model import XGBModel
from search.feature_extractor import NestFeature
from search.measuring.measure_candidate import MeasureCandidate
from search.spaces.design_space import DesignSpace
from tensorir import parse
from tests.search.autotvm.templates import DEMO, TUTORIAL, product

SERIAL = [float(kind == "serial") for kind in LOOP_KINDS]


def loops_of(sch: Schedule) -> dict[str, dict[str, list[float]]]:
    """Return the features of each loop, by name of the loop and of the row."""
    return {
        rows[0][1]: {name: numbers for name, *numbers in rows[1:]}
        for rows in get_itervar_feature(sch.mod)
    }


def test_a_matmul_has_the_numbers_that_autotvm_gives_it():
    loops = loops_of(product(128, 128, 128, "float32"))
    assert list(loops) == ["i", "j", "k"]
    assert loops["i"]["_attr_"] == [128, 1, 128, 2097152, *SERIAL]
    assert loops["i"]["A_0"][:4] == [128, -1, 16384, 128]
    assert loops["i"]["B_0"][:4] == [0, -1, 16384, 128]
    assert loops["k"]["_attr_"] == [128, 3, 2097152, 128, *SERIAL]
    assert loops["k"]["_arith_"] == [1, 1, 0], "one addition and one multiplication"
    assert loops["k"]["A_0"][:4] == [1, -1, 128, 1]
    assert loops["k"]["B_0"][:4] == [128, -1, 128, 1]
    assert sorted(loops["k"]) == ["A_0", "B_0", "C_0", "C_1", "_arith_", "_attr_"]


def test_tiles_move_by_their_size_and_unit_loops_are_loops():
    sch = product(16, 8, 4, "float32")
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, [4, 4, 1])
    loops = loops_of(sch)
    assert [loops[name]["A_0"][0] for name in ("i_0", "i_1", "i_2")] == [32, 8, 8]
    assert [loops[name]["_attr_"][2] for name in ("i_0", "i_1", "i_2")] == [4, 16, 16]
    assert loops["i_2"]["A_0"][:4] == [8, -1, 8, 4], "a row of A, for each column of B"


def test_how_loops_run_is_a_one_hot():
    sch = product(16, 8, 4, "float32")
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.parallel(i)
    sch.vectorize(j)
    sch.unroll(k)
    kinds = {name: rows["_attr_"][4:] for name, rows in loops_of(sch).items()}
    assert {name: LOOP_KINDS[row.index(1.0)] for name, row in kinds.items()} == {
        "i": "parallel",
        "j": "vectorized",
        "k": "unrolled",
    }


def test_parallel_loops_know_what_their_threads_share():
    sch = product(16, 8, 4, "float32")
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.parallel(i)
    loops = loops_of(sch)
    # A thread touches 8 elements of A 4 times each; all of them 128, and those of B 16 times more.
    assert loops["i"]["A_0"] == [8, -1, 128, 4, 16, 1]
    assert loops["i"]["B_0"] == [0, -1, 32, 16, 1, 16]
    assert loops["j"]["A_0"][4:] == [0, 0]


def test_an_index_that_comes_back_has_a_modulus():
    mod = parse(
        """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v % 4] + T.float32(1)
"""
    )
    (loop,) = get_itervar_feature(Schedule(mod).mod)
    rows = {name: numbers for name, *numbers in loop[1:]}
    assert rows["A_0"][:2] == [1, 4]
    assert rows["B_0"][:2] == [1, -1]


def test_a_row_is_made_of_logs():
    mod = product(128, 128, 128, "float32").mod
    plain = get_itervar_feature_flatten(mod, take_log=False)
    logs = get_itervar_feature_flatten(mod)
    assert plain.dtype == logs.dtype == np.float32
    assert len(plain) == 3 * (4 + 11 + 3 + 4 * 6)
    assert logs[0] == pytest.approx(np.log2(129))
    assert logs[4 + 11 + 3 + 1] == -1, "the modulus of A_0 in the first loop"


def test_curves_do_not_depend_on_the_number_of_loops():
    plain = product(128, 128, 128, "float32")
    tiled = product(128, 128, 128, "float32")
    i, j, _ = tiled.get_loops(tiled.get_block("C"))
    tiled.split(i, [16, 8])
    tiled.split(j, [16, 8])
    rows = [get_buffer_curve_sample_flatten(sch.mod) for sch in (plain, tiled)]
    assert [len(row) for row in rows] == [3 * 160] * 2
    assert not np.array_equal(*rows)


def test_a_curve_has_the_value_at_the_last_loop_and_the_distance_to_it():
    row = get_buffer_curve_sample_flatten(product(128, 128, 128, "float32").mod)
    # Of A 2^7 elements are touched under k and j, 2^14 under i; once, 2^7 and 2^7 times.
    reuse_by_count = row[:40].reshape(20, 2).tolist()
    assert reuse_by_count[0] == [0, 0]
    assert reuse_by_count[6] == [0, 6]
    assert reuse_by_count[7] == [7, 0]
    assert reuse_by_count[19] == [7, 5]


@pytest.mark.parametrize("kind", FEATURES)
def test_configurations_have_rows_of_one_length(kind):
    task = autotvm.task.create(TUTORIAL, (16, 24, 32, "float32"), "llvm")
    rows = ConfigFeatures(task, kind).of(range(len(task.space)))
    assert rows.shape[0] == len(task.space)
    assert len(np.unique(rows, axis=0)) == len(task.space)


def test_a_refused_configuration_has_an_empty_row_and_options_come_last():
    task = autotvm.task.create(DEMO, (16, 24, 32, "float32"), "llvm")
    refused, fine = [], []
    for index in range(0, len(task.space), 97):
        try:
            task.instantiate(task.space.get(index))
            fine.append(index)
        except autotvm.InstantiationError:
            refused.append(index)
    rows = ConfigFeatures(task, "itervar").of([refused[0], fine[0]])
    assert not rows[0].any()
    assert rows[1].any()
    option = task.space.get(fine[-1]).get_other_option()["unroll_k"]
    assert ConfigFeatures(task, "curve").of([fine[-1]])[0, -1] == option


def test_another_kind_is_refused():
    task = autotvm.task.create(TUTORIAL, (16, 24, 32, "float32"), "llvm")
    with pytest.raises(
        TemplateError, match=r"one of \['knob', 'itervar', 'curve', 'per_store', 'nest'\]"
    ):
        ConfigFeatures(task, "itervars")


def candidate_of(task, index):
    sch = task.instantiate(task.space.get(index))
    return MeasureCandidate(sch, ArgInfo.from_entry_func(sch.mod))


def test_the_model_of_the_search_sees_nests_and_knobs():
    task = autotvm.task.create(TUTORIAL, (16, 24, 32, "float32"), "llvm -num-cores=1")
    context = TuneContext(task.mod, target=task.target)
    candidates = [candidate_of(task, index) for index in (0, 7, 21)]
    features = ConfigFeatures(task)
    rows = np.vstack(features.extract_from(context, candidates))
    nests = np.vstack(NestFeature().extract_from(context, candidates))
    assert np.array_equal(rows[:, : nests.shape[1]], nests)
    knobs = np.array([task.space.get(k).get_flatten_feature() for k in (0, 7, 21)])
    assert np.array_equal(rows[:, nests.shape[1] :], knobs)


def test_points_have_the_features_of_their_programs():
    task = autotvm.task.create(TUTORIAL, (16, 24, 32, "float32"), "llvm -num-cores=1")
    context = TuneContext(task.mod, target=task.target)
    candidates = [candidate_of(task, index) for index in range(30)]
    space = DesignSpace.of(candidates[0].sch, 0, task.mod)
    points = [space.decisions_of(candidate.sch.trace) for candidate in candidates]
    features = ConfigFeatures(task)
    packed = features.extract_points(context, space, points)
    assert packed.count == len(packed.rows) == len(points)
    np.testing.assert_allclose(
        packed.rows, np.vstack(features.extract_from(context, candidates)), rtol=1e-5
    )


def test_a_program_of_another_template_has_no_knobs():
    task = autotvm.task.create(TUTORIAL, (16, 24, 32, "float32"), "llvm -num-cores=1")
    other = autotvm.task.create(DEMO, (16, 24, 32, "float32"), "llvm -num-cores=1")
    context = TuneContext(other.mod, target=other.target)
    (row,) = ConfigFeatures(task).extract_from(context, [candidate_of(other, 0)])
    assert np.isnan(row[0, -4:]).all()
    assert np.isfinite(row[0, :-4]).all()


def test_what_is_estimated_of_a_template_ranks_its_programs():
    task = autotvm.task.create(TUTORIAL, (256, 256, 256, "float32"), "llvm -num-cores=1")
    context = TuneContext(task.mod, target=task.target, space_generator=TemplateSpace(task))
    model = XGBModel(extractor=ConfigFeatures(task))
    tiles = {"1 x 1": 0, "16 x 1": 4, "1 x 64": 9 * 6, "16 x 64": 4 + 9 * 6}
    scores = model.predict(context, [candidate_of(task, index) for index in tiles.values()])
    score = dict(zip(tiles, scores, strict=True))
    # Along the columns lie the vectors.
    assert min(score["1 x 64"], score["16 x 64"]) > max(score["1 x 1"], score["16 x 1"])
