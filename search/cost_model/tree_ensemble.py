"""Gradient-boosted trees that rank, several of them, so that one sees where they disagree."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from search.cost_model.cost_model import Scores
from search.cost_model.measurements import TrainingSet
from search.errors import TuningError
from search.feature_extractor import PackedFeatures

Floats = NDArray[np.float64]

_PARTNERS: Final = 24
"""The number of others that a candidate is compared with; more did not rank better."""
_LEAST_CURVATURE: Final = 0.02
"""Pairs that are in order already have nearly none, with which Newton steps would explode."""
_STEEPEST: Final = 30.0

logger = logging.getLogger("tensorir.search")

TEMPERATURE: Final = 0.4
"""Of two candidates whose times differ by half, the model is asked to be certain by 73 %."""
_TRUST: Final = 0.7
"""The share of the log of a ratio of estimated times that is true, about: estimates exaggerate."""
_DOUBT: Final = 0.5
"""The deviation of the log of a time from what its estimate says, about."""
_MAX_ROUNDS: Final = 300


class RankingLoss:
    """The cross entropy of pairs: which of two candidates of a workload is the faster one?

    RankNet (Burges et al., ICML 2005; the ancestor of LambdaMART, Burges 2010): the model says that
    `a` is faster with probability sigmoid(score[a] - score[b]). What it should have said is
    sigmoid(log(seconds[b] / seconds[a]) / `temperature`): nearly certain for times far apart, and a
    toss for those that differ by noise, so that the loss does not pull scores of equal candidates
    apart. Scores of the least loss are log speeds in units of the temperature, up to a constant of
    the workload.

    A candidate of which only a lower bound of the time is known loses against those that are faster
    than the bound; nothing is asked about it and others. So failures lose against all that ran.

    Each candidate is compared with up to 24 of its workload at random, and the weights of the pairs
    of a candidate sum to about one, however many were measured of its workload.
    """

    def __init__(self, data: TrainingSet, temperature: float, random: np.random.Generator) -> None:
        first, second = _pairs(data.workload, random)
        swap = data.log_seconds[first] > data.log_seconds[second]
        faster, slower = np.where(swap, second, first), np.where(swap, first, second)
        known = ~data.is_bound[faster]
        self.faster, self.slower = faster[known], slower[known]
        lead = data.log_seconds[self.slower] - data.log_seconds[self.faster]
        self.wanted: Floats = _sigmoid(lead / temperature)
        self.count = len(data.log_seconds)
        appearances = self._sums(np.ones(len(self.faster)), np.ones(len(self.faster)))
        self.weights: Floats = 1 / np.maximum(appearances[self.faster], appearances[self.slower])

    def without(self, candidates: NDArray[np.bool_]) -> Floats:
        """Return the weights of the pairs in which none of the `candidates` takes part, else 0."""
        return np.where(self._touched(candidates), 0.0, self.weights)

    def only(self, candidates: NDArray[np.bool_]) -> Floats:
        """Return the weights of the pairs in which one of the `candidates` takes part, else 0."""
        return np.where(self._touched(candidates), self.weights, 0.0)

    def value(self, scores: Floats, weights: Floats) -> float:
        """Return the mean loss of pairs, 0 without any."""
        lead = scores[self.faster] - scores[self.slower]
        losses = np.logaddexp(0, lead) - self.wanted * lead
        return float(np.dot(weights, losses) / max(weights.sum(), 1e-12))

    def derivatives(self, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return the first and second derivative of the summed loss by each score."""
        said = _sigmoid(scores[self.faster] - scores[self.slower])
        slope = weights * (said - self.wanted)
        curvature = weights * np.maximum(said * (1 - said), _LEAST_CURVATURE)
        return self._sums(slope, -slope), self._sums(curvature, curvature)

    def _touched(self, candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return candidates[self.faster] | candidates[self.slower]

    def _sums(self, of_faster: Floats, of_slower: Floats) -> Floats:
        """Return for each candidate the sum over its pairs."""
        sums = np.bincount(self.faster, of_faster, self.count)
        sums += np.bincount(self.slower, of_slower, self.count)
        return sums.astype(np.float64, copy=False)


def _pairs(
    workload: NDArray[np.intp], random: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return pairs of indices that have the same workload, each unordered pair at most once."""
    first: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
    second: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
    for index in np.unique(workload):
        members = random.permutation(np.flatnonzero(workload == index))
        # In a circle, neighbours up to half way round are all pairs, those in the middle twice if
        # the number is even.
        reach = min(_PARTNERS // 2, (len(members) - 1) // 2)
        for step in range(1, reach + 1):
            first.append(members)
            second.append(np.roll(members, step))
        if len(members) % 2 == 0 and reach < _PARTNERS // 2 and len(members):
            half = len(members) // 2
            first.append(members[:half])
            second.append(members[half:])
    return np.concatenate(first), np.concatenate(second)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -_STEEPEST, _STEEPEST))))


def pairwise_accuracy(scores: Floats, log_seconds: Floats, least_ratio: float = 1.05) -> float:
    """Return the share of pairs in the right order, of those whose times differ by 5 % or more.

    Equal scores count half; nan if there is no such pair. A failure has infinite seconds.
    """
    with np.errstate(invalid="ignore"):
        slower = log_seconds[:, None] - log_seconds[None, :] >= np.log(least_ratio)
    lead = scores[None, :] - scores[:, None]
    right: NDArray[Any] = np.where(lead > 0, 1.0, np.where(lead == 0, 0.5, 0.0))[slower]
    return float(right.mean()) if right.size else float("nan")


def average_peak(scores: Floats, labels: Floats, n: int) -> float:
    """Return the quality of the best of the first k, k from 1 to `n`, in the order of the scores.

    1 means that the very best has the highest score.
    """
    if len(scores) == 0 or labels.max() <= 0:
        return 0.0
    order = np.argsort(-scores, kind="stable")[:n]
    return float(np.mean(np.maximum.accumulate(labels[order]) / labels.max()))


@dataclass(frozen=True)
class XGBConfig:
    """Parameters of the boosters.

    One thread is the default: with some thousand rows a second one gains nothing, and on a busy
    machine the threads of OpenMP wait for each other many times longer than the work takes.
    Curvatures, of which a leaf has at least `min_child_weight`, are a quarter at most for a
    candidate. `max_bin` counts the thresholds of a column: most are powers of two. Each tree sees
    a share `colsample_bytree` of the columns, which makes the boosters differ.
    """

    max_depth: int = 5
    gamma: float = 0.001
    min_child_weight: float = 0.5
    eta: float = 0.3
    seed: int = 43
    nthread: int = 1
    tree_method: str = "hist"
    max_bin: int = 64
    colsample_bytree: float = 0.3

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that `xgboost.train` takes."""
        return {
            **asdict(self),
            "base_score": 0.0,
            "disable_default_eval_metric": True,
            "verbosity": 0,
        }


class TreeEnsemble:
    """A committee of boosters (Chen and Guestrin, XGBoost, KDD 2016).

    A booster gives a number for each row of features, and the score of a candidate is the sum over
    its rows, added to what the extractor estimates without having seen a time. Each member is
    trained without a fold of the candidates, and the loss on the pairs of that fold says when to
    stop: a cross-validated committee (Krogh and Vedelsby, Neural Network Ensembles, Cross
    Validation, and Active Learning, NIPS 1994). It also weighs the workloads at random (the
    Bayesian bootstrap; Rubin, Annals of Statistics, 1981), since it is asked about workloads that
    nobody measured. The mean ranks better than one booster of all data, and the disagreement says
    how little is known of a candidate.
    """

    def __init__(self, members: Sequence[Any] = ()) -> None:
        self.members = list(members)

    @staticmethod
    def trained(
        data: TrainingSet,
        estimates: NDArray[np.float64],
        config: XGBConfig,
        *,
        folds: int,
        patience: int,
        verbose_eval: int = 25,
    ) -> TreeEnsemble:
        """Train `folds` boosters, each until `patience` rounds did not lower its held-out loss.

        `estimates` has a log speed for each candidate, 0 for all where nothing is known.
        The same data give the same boosters. The loss is logged every `verbose_eval` rounds.
        """
        xgboost = imported_xgboost()
        random = np.random.default_rng(config.seed)
        loss = RankingLoss(data, TEMPERATURE, random)
        fold_of = _folds(data.workload, folds, random)
        matrix = xgboost.DMatrix(data.packed.rows, nthread=config.nthread)
        members = []
        for fold in range(folds):
            held_out = fold_of == fold
            emphasis = random.exponential(size=data.workload.max() + 1)
            emphasis /= emphasis.mean()
            training = _Training(
                data.packed,
                _TRUST / TEMPERATURE * estimates,
                loss,
                loss.without(held_out) * emphasis[data.workload[loss.faster]],
                loss.only(held_out),
                patience,
                verbose_eval,
            )
            booster = xgboost.train(
                {**config.parameters(), "seed": config.seed + fold},
                matrix,
                num_boost_round=_MAX_ROUNDS,
                obj=training.objective,
                callbacks=[training.monitor(xgboost)],
            )
            members.append(booster[: training.best_round])
        return TreeEnsemble(members)

    def scores(self, packed: PackedFeatures, estimates: NDArray[np.float64]) -> Scores:
        """Return the mean score of each candidate, about its log speed, and the spread.

        What the loss does not ask for, a constant that a member adds to the scores of all, is no
        disagreement: the spread is that of the distances to the member's mean of these candidates.
        Without members, all that is known are the estimates, equally uncertain for all.
        """
        if not self.members or not len(packed.rows):
            return Scores(_TRUST * estimates, np.full(packed.count, _DOUBT))
        each = TEMPERATURE * np.array(
            [packed.summed(member.inplace_predict(packed.rows)) for member in self.members]
        )
        distances = each - each.mean(axis=1, keepdims=True)
        return Scores(_TRUST * estimates + each.mean(axis=0), distances.std(axis=0))

    def saved(self) -> list[bytes]:
        """Return each member in XGBoost's binary form."""
        return [bytes(member.save_raw("ubj")) for member in self.members]

    @staticmethod
    def loaded(members: Sequence[bytes], config: XGBConfig) -> TreeEnsemble:
        """Return the committee of which `saved` gave the members; TuningError for other bytes."""
        xgboost = imported_xgboost()
        threads = {"nthread": config.nthread}
        try:
            return TreeEnsemble(
                [xgboost.Booster(threads, model_file=bytearray(raw)) for raw in members]
            )
        except xgboost.core.XGBoostError as error:
            reason = str(error).partition("\n")[0]
            raise TuningError(f"XGBoost cannot read its part of a saved model: {reason}") from error


def imported_xgboost() -> Any:
    """Import XGBoost, which takes long, and which not every search needs.

    Raises TuningError where it is not installed, or lacks a library of the system.
    """
    check_xgboost()
    try:
        return importlib.import_module("xgboost")
    except (ImportError, OSError, ValueError) as error:  # ValueError: XGBoost's own, for a library
        raise TuningError(_without_xgboost(str(error).strip().partition("\n")[0])) from error


def check_xgboost() -> None:
    """Raise TuningError where XGBoost is not installed, without importing it."""
    if importlib.util.find_spec("xgboost") is None:
        raise TuningError(_without_xgboost("it is not installed"))


def _without_xgboost(reason: str) -> str:
    return (
        f'the cost model "xgb" needs XGBoost, which cannot be imported: {reason}. '
        'pip install xgboost-cpu (on macOS xgboost, and libomp), or choose cost_model="random"'
    )


@dataclass(eq=False)
class _Training:
    """The training of one member.

    XGBoost asks for the derivatives at the start of each round, for which all scores are computed:
    the held-out loss of the rounds so far comes with them, without a prediction of its own.
    """

    packed: PackedFeatures
    start: NDArray[np.float64]
    loss: RankingLoss
    weights: NDArray[np.float64]
    held_out_weights: NDArray[np.float64]
    patience: int
    verbose_eval: int
    rounds: int = -1
    best_round: int = 1
    best: float = np.inf

    def objective(
        self, outputs: NDArray[np.float32], _: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the derivatives of the loss by the output of each row."""
        scores = self.start + self.packed.summed(outputs.ravel())
        self.rounds += 1
        held_out = self.loss.value(scores, self.held_out_weights)
        if self.rounds > 0 and held_out < self.best * 0.999:
            self.best, self.best_round = held_out, self.rounds
        if self.rounds % self.verbose_eval == 0:
            logger.debug("XGB round %3d: held-out loss %.6f", self.rounds, held_out)
        slope, curvature = self.loss.derivatives(scores, self.weights)
        return slope[self.packed.owner], curvature[self.packed.owner]

    def monitor(self, xgboost: Any) -> Any:
        """Return the callback that ends the training when the held-out loss stays."""
        training = self

        class Monitor(xgboost.callback.TrainingCallback):  # type: ignore[misc]
            def after_iteration(self, booster: Any, epoch: int, _: Any) -> bool:
                return training.rounds - training.best_round >= training.patience

        return Monitor()


def _folds(workload: NDArray[np.intp], folds: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Return a fold for each candidate, of equal shares of each workload."""
    fold_of = np.empty(len(workload), np.intp)
    for index in np.unique(workload):
        members = random.permutation(np.flatnonzero(workload == index))
        fold_of[members] = np.arange(len(members)) % folds
    return fold_of
