"""An ensemble of gradient-boosted trees that rank candidates, with the spread of their scores."""

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
"""The number of candidates with which each candidate is compared; more did not improve the
ranking.
"""
_LEAST_CURVATURE: Final = 0.02
"""The minimum second derivative: it is nearly 0 for ordered pairs, where Newton steps explode."""
_STEEPEST: Final = 30.0

logger = logging.getLogger("tensorir.search")

TEMPERATURE: Final = 0.4
"""The unit of log times: two candidates whose times differ by half get a probability of 73 %."""
_TRUST: Final = 0.7
"""The factor from the log of a ratio of estimated times to the true one: estimates exaggerate."""
_DOUBT: Final = 0.5
"""The standard deviation of the log of a time from its estimate."""
_MAX_ROUNDS: Final = 300


class RankingLoss:
    """The cross entropy of the order of pairs of candidates of one workload.

    RankNet (Burges et al., ICML 2005; the ancestor of LambdaMART, Burges 2010): the model predicts
    that `a` is faster with the probability sigmoid(score[a] - score[b]). The target is
    sigmoid(log(seconds[b] / seconds[a]) / `temperature`): nearly 1 for times far apart, and 1/2 for
    equal times, so that the loss does not separate equal candidates. Scores of minimum loss are log
    speeds in units of the temperature, up to a constant of the workload.

    A candidate with a lower bound instead of a time is compared only with candidates that are
    faster than the bound, and so failures are slower than all candidates that ran.

    Each candidate is compared with up to 24 random candidates of its workload. The weights of its
    pairs sum to about one, whatever the size of its workload.
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
        """Return the weights of pairs, with 0 for pairs with one of the `candidates`."""
        return np.where(self._pairs_with_any(candidates), 0.0, self.weights)

    def only(self, candidates: NDArray[np.bool_]) -> Floats:
        """Return the weights of pairs, with 0 for pairs without any of the `candidates`."""
        return np.where(self._pairs_with_any(candidates), self.weights, 0.0)

    def value(self, scores: Floats, weights: Floats) -> float:
        """Return the mean loss of pairs, 0 without pairs."""
        lead = scores[self.faster] - scores[self.slower]
        losses = np.logaddexp(0, lead) - self.wanted * lead
        return float(np.dot(weights, losses) / max(weights.sum(), 1e-12))

    def derivatives(self, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return the first and second derivative of the summed loss by each score."""
        said = _sigmoid(scores[self.faster] - scores[self.slower])
        slope = weights * (said - self.wanted)
        curvature = weights * np.maximum(said * (1 - said), _LEAST_CURVATURE)
        return self._sums(slope, -slope), self._sums(curvature, curvature)

    def _pairs_with_any(self, candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
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
        # On a circle, neighbours up to half the circle give all pairs. If the number is even, the
        # pairs at exactly half the circle occur twice.
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
    """Return the fraction of correctly ordered pairs, for pairs whose times differ by 5 % or more.

    Equal scores count half; nan without such pairs. A failure has infinite seconds.
    """
    with np.errstate(invalid="ignore"):
        slower = log_seconds[:, None] - log_seconds[None, :] >= np.log(least_ratio)
    lead = scores[None, :] - scores[:, None]
    right: NDArray[Any] = np.where(lead > 0, 1.0, np.where(lead == 0, 0.5, 0.0))[slower]
    return float(right.mean()) if right.size else float("nan")


def average_peak(scores: Floats, labels: Floats, n: int) -> float:
    """Return the mean of the best label among the k highest scores, for k from 1 to `n`.

    It is relative to the best label: 1 means that the best candidate has the highest score.
    """
    if len(scores) == 0 or labels.max() <= 0:
        return 0.0
    order = np.argsort(-scores, kind="stable")[:n]
    return float(np.mean(np.maximum.accumulate(labels[order]) / labels.max()))


@dataclass(frozen=True)
class XGBConfig:
    """Parameters of the boosters.

    The default is one thread: a second one does not help for a few thousand rows, and on a busy
    machine OpenMP threads wait for each other much longer than the work takes. `min_child_weight`
    is the minimum sum of second derivatives in a leaf, which are at most 1/4 for a candidate.
    `max_bin` is the number of thresholds of a column, since most values are powers of two. Each
    tree uses the fraction `colsample_bytree` of the columns, which makes the boosters differ.
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
        """Return the parameters for `xgboost.train`."""
        return {
            **asdict(self),
            "base_score": 0.0,
            "disable_default_eval_metric": True,
            "verbosity": 0,
        }


class TreeEnsemble:
    """A committee of boosters (Chen and Guestrin, XGBoost, KDD 2016).

    A booster predicts a number for each row of features. The score of a candidate is the sum over
    its rows plus the estimate of the extractor. Each member is trained without one fold of the
    candidates, and the loss on this fold decides when to stop (a cross-validated committee: Krogh
    and Vedelsby, Neural Network Ensembles, Cross Validation, and Active Learning, NIPS 1994). Each
    member also weights the workloads at random (the Bayesian bootstrap: Rubin, Annals of
    Statistics, 1981), because it has to predict unmeasured workloads. The mean ranks better than
    one booster trained on all data, and the disagreement measures the uncertainty of a score.
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
        """Train `folds` boosters, until the held-out loss does not fall for `patience` rounds.

        `estimates` has a log speed for each candidate, all 0 without estimates. Equal data give
        equal boosters. The loss is logged every `verbose_eval` rounds.
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

        The loss ignores a constant that a member adds to all scores, so the spread is computed
        after each member's mean over these candidates is subtracted. Without members, the scores
        are the estimates, with the same spread for all.
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
        """Return the committee from the result of `saved`; TuningError for other bytes."""
        xgboost = imported_xgboost()
        threads = {"nthread": config.nthread}
        try:
            return TreeEnsemble(
                [xgboost.Booster(threads, model_file=bytearray(raw)) for raw in members]
            )
        except xgboost.core.XGBoostError as error:
            reason = str(error).partition("\n")[0]
            raise TuningError(f"XGBoost cannot load the boosters of the model: {reason}") from error


def imported_xgboost() -> Any:
    """Import XGBoost, which is slow and only needed by some searches.

    Raises TuningError if it is not installed, or misses a library of the system.
    """
    if importlib.util.find_spec("xgboost") is None:
        raise TuningError(_without_xgboost("it is not installed"))
    try:
        return importlib.import_module("xgboost")
    except (ImportError, OSError, ValueError) as error:  # ValueError: XGBoost's own, for a library
        raise TuningError(_without_xgboost(str(error).strip().partition("\n")[0])) from error


def _without_xgboost(reason: str) -> str:
    return (
        f'the cost model "xgb" needs XGBoost, which cannot be imported: {reason}. '
        'pip install xgboost-cpu (on macOS xgboost, and libomp), or choose cost_model="random"'
    )


@dataclass(eq=False)
class _Training:
    """The training of one member.

    XGBoost calls `objective` at the start of each round with all outputs, from which the held-out
    loss is computed, too, without another prediction.
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
        held_out_loss = self.loss.value(scores, self.held_out_weights)
        if self.rounds > 0 and held_out_loss < self.best * 0.999:
            self.best, self.best_round = held_out_loss, self.rounds
        if self.rounds % self.verbose_eval == 0:
            logger.debug("XGB round %3d: held-out loss %.6f", self.rounds, held_out_loss)
        slope, curvature = self.loss.derivatives(scores, self.weights)
        return slope[self.packed.owner], curvature[self.packed.owner]

    def monitor(self, xgboost: Any) -> Any:
        """Return the callback that stops the training when the held-out loss no longer falls."""
        training = self

        class Monitor(xgboost.callback.TrainingCallback):  # type: ignore[misc]
            def after_iteration(self, booster: Any, epoch: int, _: Any) -> bool:
                return training.rounds - training.best_round >= training.patience

        return Monitor()


def _folds(workload: NDArray[np.intp], folds: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Return the fold of each candidate; each workload is divided equally among the folds."""
    fold_of = np.empty(len(workload), np.intp)
    for index in np.unique(workload):
        members = random.permutation(np.flatnonzero(workload == index))
        fold_of[members] = np.arange(len(members)) % folds
    return fold_of
