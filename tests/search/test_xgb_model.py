"""The cost model learns what is fast, and survives being saved."""

from pathlib import Path

import numpy as np
import pytest

import search as ms
from search.cost_model import XGBModel
from search.cost_model.pack_sum import PackedRows, average_peak
from search.feature_extractor import FeatureExtractor
from search.measure_candidate import MeasureCandidate
from search.runner import RunnerResult
from tests.search.programs import Matmul


class Numbers(FeatureExtractor):
    """Takes the features from the candidates themselves."""

    def extract_from(self, context, candidates):
        return [candidate.sch for candidate in candidates]


def candidates(count: int, seed: int) -> list[MeasureCandidate]:
    rng = np.random.default_rng(seed)
    return [MeasureCandidate(rng.random((2, 8)), []) for _ in range(count)]  # type: ignore[arg-type]


def seconds(candidate: MeasureCandidate) -> float:
    rows = np.asarray(candidate.sch)
    return float(np.exp(2 * rows[:, :3].sum()) * 1e-6)


def learned(count: int) -> tuple[XGBModel, ms.TuneContext]:
    context = ms.TuneContext(Matmul, target="llvm -num-cores=1")
    model = XGBModel(extractor=Numbers(), num_tuning_cores=1)
    batch = candidates(count, seed=0)
    results = [RunnerResult(run_secs=(seconds(c),)) for c in batch]
    results[0] = RunnerResult(error_msg="it failed")
    model.update(context, batch, results)
    return model, context


def test_scores_rank_what_was_not_measured() -> None:
    model, context = learned(200)
    assert model.trained
    unseen = candidates(100, seed=1)
    scores = model.predict(context, unseen)
    truth = -np.log([seconds(c) for c in unseen])
    ranks = np.corrcoef(np.argsort(np.argsort(scores)), np.argsort(np.argsort(truth)))[0, 1]
    assert ranks > 0.7


def test_scores_are_random_before_there_is_enough_data() -> None:
    model, context = learned(5)
    assert not model.trained
    scores = model.predict(context, candidates(50, seed=1))
    assert scores.shape == (50,)
    assert ((scores >= 0) & (scores < 1)).all()


def test_a_saved_model_goes_on(tmp_path: Path) -> None:
    model, context = learned(64)
    model.save(tmp_path / "model.xgb")
    again = XGBModel(extractor=Numbers(), num_tuning_cores=1)
    again.load(tmp_path / "model.xgb")
    assert again.data_size == 64
    some = candidates(10, seed=2)
    np.testing.assert_allclose(again.predict(context, some), model.predict(context, some))
    assert [path.name for path in tmp_path.iterdir()] == ["model.xgb"]


def test_another_file_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"not a model")
    with pytest.raises(ms.TuningError, match="is no saved cost model"):
        XGBModel().load(path)


def test_rows_are_summed_by_candidate() -> None:
    packed = PackedRows([np.ones((2, 3)), np.ones((1, 3)), np.ones((0, 3))])
    assert packed.summed(np.array([1.0, 2.0, 5.0])).tolist() == [3.0, 5.0, 0.0]
    assert packed.spread(np.array([7.0, 8.0, 9.0])).tolist() == [7.0, 7.0, 8.0]


def test_the_average_peak_is_one_if_the_best_is_ranked_first() -> None:
    labels = np.array([0.2, 1.0, 0.5])
    assert average_peak(np.array([0.0, 3.0, 1.0]), labels, 2) == 1.0
    assert average_peak(np.array([3.0, 0.0, 1.0]), labels, 2) == pytest.approx((0.2 + 0.5) / 2)
