"""The cost model learns to rank, with its certainty, and survives being saved."""

import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import pytest

import search as ms
from schedule import Schedule
from schedule.random_state import RandomState
from search.cost_model import CostModel, RandomModel, XGBModel
from search.cost_model.measurements import FAILURE, Cost, Measurements, OutdatedModelError
from search.cost_model.tree_ensemble import (
    RankingLoss,
    average_peak,
    pairwise_accuracy,
)
from search.feature_extractor import FeatureExtractor, PackedFeatures
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate
from search.space_generator.design_space import DesignSpace
from tests.search.programs import Matmul, split_all

SPACE = SimpleNamespace(index=0)


class Numbers:
    """A schedule replaced by its features, with a trace that identifies it."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    @property
    def trace(self) -> Self:
        return self

    def as_json(self) -> list[list[float]]:
        return self.rows.tolist()


class TakeNumbers(FeatureExtractor):
    """Takes the features from the candidates themselves, and from the decisions of points."""

    def extract_from(self, context, candidates):
        return [candidate.sch.rows for candidate in candidates]

    def extract_points(self, context, space, decisions):
        return PackedFeatures.of([np.array(rows) for rows in decisions])


def candidates(count: int, seed: int, low: float = 0, high: float = 1) -> list[MeasureCandidate]:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(low, high, (count, 2, 8)).astype(np.float32)
    return [MeasureCandidate(Numbers(each), []) for each in rows]  # type: ignore[arg-type]


def seconds(candidate: MeasureCandidate) -> float:
    return float(np.exp(2 * candidate.sch.rows[:, :3].sum()) * 1e-6)  # type: ignore[attr-defined]


def ran(batch: Sequence[MeasureCandidate]) -> list[RunnerResult]:
    return [RunnerResult(run_secs=(seconds(c),)) for c in batch]


def model(**options: object) -> XGBModel:
    return XGBModel(extractor=TakeNumbers(), **options)  # type: ignore[arg-type]


def task() -> ms.TuneContext:
    return ms.TuneContext(Matmul, target="llvm -num-cores=1")


def learned(count: int) -> tuple[XGBModel, ms.TuneContext]:
    context, learner = task(), model()
    batch = candidates(count, seed=0)
    learner.update(context, batch, ran(batch))
    return learner, context


def log_seconds(batch: Sequence[MeasureCandidate]) -> np.ndarray:
    return np.log([seconds(c) for c in batch])


# ------------------------------------------------------------------------------------------ ranking


def test_scores_rank_what_was_not_measured() -> None:
    learner, context = learned(200)
    assert learner.trained
    unseen = candidates(100, seed=1)
    assert pairwise_accuracy(learner.predict(context, unseen), log_seconds(unseen)) > 0.85


def test_scores_are_random_before_there_is_enough_data() -> None:
    learner, context = learned(5)
    assert not learner.trained
    scores = learner.predict(context, candidates(50, seed=1))
    assert scores.shape == (50,)
    assert len(set(scores)) == 50


def test_what_failed_ranks_last() -> None:
    """Large values of the last column never run, and their neighbours are not proposed again."""
    context, learner = task(), model()
    batch = candidates(100, seed=0)
    fails = [c.sch.rows[:, 7].max() > 0.8 for c in batch]  # type: ignore[attr-defined]
    results = [
        RunnerResult(error_msg="it failed") if failed else result
        for failed, result in zip(fails, ran(batch), strict=True)
    ]
    learner.update(context, batch, results)
    unseen = candidates(100, seed=1)
    failing = np.array([c.sch.rows[:, 7].max() > 0.8 for c in unseen])  # type: ignore[attr-defined]
    scores = learner.predict(context, unseen)
    assert pairwise_accuracy(scores, np.where(failing, np.inf, 0.0)) > 0.85


def test_all_candidates_may_fail() -> None:
    context, learner = task(), model()
    batch = candidates(20, seed=0)
    learner.update(context, batch, [RunnerResult(error_msg="it failed")] * 20)
    assert np.isfinite(learner.predict(context, batch)).all()


def test_the_time_of_a_stopped_trial_is_a_bound() -> None:
    context, learner = task(), model()
    stopped = RunnerResult(run_secs=(2.0,), stopped=True)
    results = [RunnerResult(run_secs=(1.0,)), stopped, RunnerResult(error_msg="it failed")]
    learner.update(context, candidates(3, seed=0), results)
    (measured,) = learner._measurements.workloads.values()
    assert [cost for _, cost in measured.values()] == [Cost(1.0), Cost(2.0, True), FAILURE]


def test_only_what_is_certain_of_a_bound_is_asked() -> None:
    """The third was stopped after 2 s: it is slower than the first; it and the fourth may be
    either way round. Two failures are not compared."""
    measured = Measurements()
    costs = [Cost(1.0), Cost(3.0), Cost(2.0, is_bound=True), FAILURE, FAILURE]
    for k, cost in enumerate(costs):
        measured.add("a workload", str(k), np.zeros((1, 1)), cost)
    loss = RankingLoss(measured.training_set(10), 0.2, np.random.default_rng(0))
    pairs = sorted(zip(loss.faster.tolist(), loss.slower.tolist(), strict=True))
    assert pairs == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 3), (1, 4)]


def test_candidates_are_compared_within_a_workload() -> None:
    measured = Measurements()
    for k in range(60):
        measured.add(f"workload {k % 3}", str(k), np.zeros((1, 1)), Cost(1.0 + k))
    data = measured.training_set(100)
    loss = RankingLoss(data, 0.2, np.random.default_rng(0))
    assert (data.workload[loss.faster] == data.workload[loss.slower]).all()
    assert len(set(zip(loss.faster.tolist(), loss.slower.tolist(), strict=True))) == 3 * 20 * 19 / 2


def test_derivatives_of_the_loss_are_its_slopes() -> None:
    measured = Measurements()
    for k, time in enumerate((1.0, 1.1, 2.0, 5.0)):
        measured.add("a workload", str(k), np.zeros((1, 1)), Cost(time))
    loss = RankingLoss(measured.training_set(10), 0.2, np.random.default_rng(0))
    scores = np.array([0.3, -0.2, 0.9, 0.1])
    slope, _ = loss.derivatives(scores, loss.weights)
    for k in range(4):
        step = 1e-5 * np.eye(4)[k]
        rise = loss.value(scores + step, loss.weights) - loss.value(scores - step, loss.weights)
        assert rise / 2e-5 * loss.weights.sum() == pytest.approx(slope[k], abs=1e-5)


# ---------------------------------------------------------------------------------------- stopping


def test_training_takes_a_bounded_number_of_candidates() -> None:
    """Workloads with few give all of theirs; of the others the fastest is always among them."""
    measured = Measurements()
    for name, count in (("small", 10), ("large", 500), ("larger", 2000)):
        for k in range(count):
            measured.add(name, str(k), np.zeros((1, 1)), Cost(float(count - k)))
    data = measured.training_set(200)
    assert np.bincount(data.workload).tolist() == [10, 95, 95]
    assert [np.exp(data.log_seconds[data.workload == w].min()) for w in range(3)] == [1, 1, 1]


def test_a_few_more_measurements_do_not_train_again() -> None:
    learner, context = learned(50)
    unseen = candidates(20, seed=1)
    before = learner.predict(context, unseen)
    few, more = candidates(5, seed=2), candidates(10, seed=3)
    learner.update(context, few, ran(few))
    np.testing.assert_array_equal(learner.predict(context, unseen), before)
    learner.update(context, more, ran(more))
    assert (learner.predict(context, unseen) != before).any()


def test_a_second_measurement_replaces_the_first() -> None:
    learner, context = learned(50)
    batch = candidates(50, seed=0)
    learner.update(context, batch[:3], ran(batch[:3]))
    assert learner.data_size == 50


# ------------------------------------------------------------------------------------- uncertainty


def test_the_boosters_disagree_more_about_what_they_have_not_seen() -> None:
    """Compared with how far they tell candidates apart."""
    context, learner = task(), model()
    batch = candidates(100, seed=0, high=0.5)
    learner.update(context, batch, ran(batch))

    def disagreement(low: float, high: float) -> float:
        points = [c.sch.as_json() for c in candidates(100, 1, low, high)]  # type: ignore[attr-defined]
        scores = learner.score_points(context, SPACE, points)  # type: ignore[arg-type]
        assert scores is not None
        return float(scores.std.mean() / scores.mean.std())

    assert disagreement(0.4, 1.0) > 1.5 * disagreement(0.0, 0.5)


def test_points_of_a_schedule_score_like_their_replays() -> None:
    """With the features of the default model, before and after it has learned."""
    target, usual = "llvm -mcpu=skylake-avx512 -num-cores=1", "post-order-apply"
    context = ms.TuneContext(Matmul, target=target, space_generator=usual)
    learner = XGBModel()
    space = DesignSpace.of(split_all(Schedule(Matmul)))
    random = RandomState(1)
    points = [space.sample(random) for _ in range(20)]
    replayed = []
    for point in points:
        sch = Schedule(Matmul)
        space.trace_of(point).apply_to_schedule(sch, remove_postproc=False)
        replayed.append(MeasureCandidate(sch, []))
    for _ in range(2):
        scores = learner.score_points(context, space, points)
        assert scores is not None
        np.testing.assert_allclose(scores.mean, learner.predict(context, replayed), rtol=1e-4)
        assert len(np.unique(scores.mean)) >= 10
        results = [RunnerResult(run_secs=(1e-6 * (1 + k),)) for k in range(20)]
        learner.update(context, replayed, results)


def test_measured_points_are_checked_against_their_programs() -> None:
    class Checked(TakeNumbers):
        seen: ClassVar[list[object]] = []

        def check(self, context, space, decisions, candidate):
            self.seen.append((space, decisions, candidate))
            return True

    context, learner, space = task(), XGBModel(extractor=Checked()), SimpleNamespace(index=3)
    ours, other, foreign = candidates(3, seed=0)
    ours.space_index, ours.decisions = 3, (1, 2)
    other.space_index, other.decisions = 4, (1, 2)
    learner.score_points(context, space, [other.sch.as_json()])  # type: ignore
    learner.update(context, [ours, other, foreign], ran([ours, other, foreign]))
    assert Checked.seen == [(space, (1, 2), ours)]


def test_an_extractor_of_programs_wants_candidates() -> None:
    class OfPrograms(TakeNumbers):
        extract_points = FeatureExtractor.extract_points

    learner = XGBModel(extractor=OfPrograms())
    assert learner.score_points(task(), SPACE, [()]) is None  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- files


def test_a_saved_model_goes_on(tmp_path: Path) -> None:
    learner, context = learned(64)
    learner.save(tmp_path / "model.xgb")
    again = model()
    again.load(tmp_path / "model.xgb")
    assert again.data_size == 64
    some = candidates(10, seed=2)
    np.testing.assert_array_equal(again.predict(context, some), learner.predict(context, some))
    assert again.knows(context, candidates(1, seed=0)[0].sch.trace)
    assert not again.knows(context, some[0].sch.trace)
    assert [path.name for path in tmp_path.iterdir()] == ["model.xgb"]


def test_a_model_of_other_features_is_refused(tmp_path: Path) -> None:
    learner, _ = learned(64)
    learner.save(tmp_path / "model.xgb")
    other = XGBModel()
    with pytest.raises(OutdatedModelError, match=r"was made with TakeNumbers\(\) of any columns"):
        other.load(tmp_path / "model.xgb")
    assert other.data_size == 0


def test_a_model_of_another_version_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", version=np.array(1), rows=np.zeros((2, 3)))
    learner = model()
    with pytest.raises(
        OutdatedModelError,
        match="has version 1, and this package reads version 2: the model is not",
    ):
        learner.load(tmp_path / "model.npz")
    assert not learner.trained


class Explodes:
    """Is a file that was made if it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self._mark,))


@pytest.mark.parametrize("kind", [XGBModel, RandomModel])
def test_reading_a_model_runs_nothing(kind: type[CostModel], tmp_path: Path) -> None:
    mark, path = tmp_path / "mark", tmp_path / "model.npz"
    names = ("version", "features", "sizes", "key", "pos", "max_range")
    np.savez(path, **{name: np.array([Explodes(mark)], object) for name in names})
    with pytest.raises(ms.TuningError, match="is not a saved cost model: Object arrays cannot be"):
        kind().load(path)
    path.write_bytes(pickle.dumps(Explodes(mark)))
    with pytest.raises(ms.TuningError, match="is not a saved cost model"):
        kind().load(path)
    assert not mark.exists()


@pytest.mark.parametrize("kind", [XGBModel, RandomModel])
def test_a_damaged_model_is_refused_and_leaves_the_other_as_it_was(
    kind: type[CostModel], tmp_path: Path
) -> None:
    """Bytes are changed, or left out, all over the file."""
    path = tmp_path / "model.npz"
    saved = learned(64)[0] if kind is XGBModel else RandomModel(seed=1)
    saved.save(path)
    whole = path.read_bytes()
    rng = random.Random(1)
    refused: list[str] = []
    for number in range(60):
        place = rng.randrange(len(whole))
        changed = bytes([whole[place] ^ rng.randrange(1, 256)])
        damaged = whole[:place] + (changed + whole[place + 1 :] if number % 2 else b"")
        path.write_bytes(damaged)
        fresh = model() if kind is XGBModel else RandomModel(seed=1)
        try:
            fresh.load(path)
        except ms.TuningError as error:
            refused.append(str(error))
            empty = not isinstance(fresh, XGBModel) or fresh.data_size == 0
            refused += [] if empty else ["half of it was taken"]
    assert len(refused) > 30
    assert all(str(path) in text for text in refused)


# ------------------------------------------------------------------------------------------- parts


def test_the_average_peak_is_one_if_the_best_is_ranked_first() -> None:
    labels = np.array([0.2, 1.0, 0.5])
    assert average_peak(np.array([0.0, 3.0, 1.0]), labels, 2) == 1.0
    assert average_peak(np.array([3.0, 0.0, 1.0]), labels, 2) == pytest.approx((0.2 + 0.5) / 2)


def test_pairs_that_differ_by_noise_do_not_count() -> None:
    seconds = np.log([1.0, 1.01, 2.0])
    assert pairwise_accuracy(np.array([0.0, 1.0, -1.0]), seconds) == 1.0
    assert pairwise_accuracy(np.array([0.0, 0.0, 0.0]), seconds) == 0.5
    assert pairwise_accuracy(np.array([0.0, -2.0, -1.0]), seconds) == 0.5
