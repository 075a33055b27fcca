"""What cost models of tuners get to see of a configuration."""

from __future__ import annotations

import numpy as np
import pytest

from search import autotvm
from search.arg_info import ArgInfo
from search.autotvm import TemplateError
from search.autotvm.feature import FEATURES, ConfigFeatures
from search.autotvm.template_space import TemplateSpace
from search.context import TuneContext
from search.cost_model import XGBModel
from search.feature_extractor import NestFeature
from search.measuring.measure_candidate import MeasureCandidate
from search.spaces.design_space import DesignSpace
from tests.search.autotvm.templates import DEMO, TUTORIAL


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
