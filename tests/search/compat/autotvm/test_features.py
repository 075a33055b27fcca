"""The features of configurations, from which cost models of tuners learn."""

from __future__ import annotations

import numpy as np

from search import autotvm
from search.arg_info import ArgInfo
from search.compat.autotvm.feature import ConfigFeatures
from search.context import TuneContext
from search.feature_extractor import NestFeature
from search.runner.measure_candidate import MeasureCandidate
from tests.search.compat.autotvm.templates import DEMO, TUTORIAL


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


def test_a_program_of_another_template_has_no_knobs():
    task = autotvm.task.create(TUTORIAL, (16, 24, 32, "float32"), "llvm -num-cores=1")
    other = autotvm.task.create(DEMO, (16, 24, 32, "float32"), "llvm -num-cores=1")
    context = TuneContext(other.mod, target=other.target)
    (row,) = ConfigFeatures(task).extract_from(context, [candidate_of(other, 0)])
    assert np.isnan(row[0, -4:]).all()
    assert np.isfinite(row[0, :-4]).all()
