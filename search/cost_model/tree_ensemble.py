"""Gradient-boosted trees that rank, several of them, so that one sees where they disagree."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from search.cost_model.cost_model import Scores
from search.cost_model.measurements import TrainingSet
from search.cost_model.ranking_loss import RankingLoss
from search.errors import TuningError
from search.feature_extractor import PackedFeatures

logger = logging.getLogger("tensorir.search")

TEMPERATURE: Final = 0.4
"""Of two candidates whose times differ by half, the model is asked to be certain by 73 %."""
_TRUST: Final = 0.7
"""The share of the log of a ratio of estimated times that is true, about: estimates exaggerate."""
_DOUBT: Final = 0.5
"""The deviation of the log of a time from what its estimate says, about."""
_MAX_ROUNDS: Final = 300


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
        import xgboost  # noqa: PLC0415  takes long to import, and not every search needs it

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
        import xgboost  # noqa: PLC0415  takes long to import, and not every search needs it

        threads = {"nthread": config.nthread}
        try:
            return TreeEnsemble(
                [xgboost.Booster(threads, model_file=bytearray(raw)) for raw in members]
            )
        except xgboost.core.XGBoostError as error:
            reason = str(error).partition("\n")[0]
            raise TuningError(f"XGBoost cannot read its part of a saved model: {reason}") from error


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
