"""Gradient-boosted trees that learn how fast configurations are."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from search.autotvm.errors import TemplateError
from search.autotvm.feature.config_features import ConfigFeatures, features_of, stacked
from search.autotvm.tuner.metric import average_recall
from search.autotvm.tuner.model_based import FittedModel

if TYPE_CHECKING:
    from search.autotvm.record import Record
    from search.autotvm.task import Task

logger = logging.getLogger("autotvm")

Floats = npt.NDArray[np.float64]

OBJECTIVES: Final = {
    "reg": "reg:squarederror",
    "rank": "rank:pairwise",
    "rank-binary": "rank:pairwise",
}
_MOST_ROUNDS: Final = 8000
_PATIENCE: Final = 20
_ROUNDS_OF_BASE: Final = 400
_PATIENCE_OF_BASE: Final = 100
_HALVED_AFTER: Final = 64
"""Measurements of the task after which what another task taught counts half."""
_LEAST_WEIGHT: Final = 0.05


class XGBoostCostModel(FittedModel):
    """Trees that learn the speed relative to the best one (Chen and Guestrin, KDD 2016).

    `feature_type` is one of `feature.FEATURES`; `loss_type` is `reg` for a regression, `rank`
    for the order of pairs, `rank-binary` for the order of pairs of a faster and a slower half.
    Training ends after 20 rounds that did not rank the `plan_size` best of the measurements better.
    `num_threads` None is one: more gain nothing with so few measurements. Every `log_interval`
    rounds training is logged. TemplateError for another type.
    """

    def __init__(
        self,
        task: Task,
        feature_type: str,
        loss_type: str = "reg",
        num_threads: int | None = None,
        log_interval: int = 50,
        seed: int = 0,
    ) -> None:
        if loss_type not in OBJECTIVES:
            raise TemplateError(f"loss_type is one of {list(OBJECTIVES)}, got {loss_type!r}")
        self.task = task
        self.feature_type = feature_type
        self.loss_type = loss_type
        self.num_threads = num_threads
        self.log_interval = log_interval
        self.seed = seed
        self.base_model: XGBoostCostModel | None = None
        self.sample_size = 0
        self._features = ConfigFeatures(task, feature_type)
        self._booster: Any = None
        self._width = 0

    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int) -> None:
        """Train anew on all measurements."""
        self.sample_size = len(xs)
        rows = self._features.of(xs)
        if self._base_weight() < _LEAST_WEIGHT:
            self.base_model = None
        speeds = np.asarray(ys, np.float64)
        self._train(rows, speeds / max(speeds.max(), 1e-8), self._margin(xs), plan_size, *_USUAL)

    def fit_log(
        self, records: Iterable[Record], plan_size: int, min_seed_records: int = 500
    ) -> bool:
        """Train on records, the speeds of each task relative to its best one."""
        by_task: dict[Any, list[tuple[npt.NDArray[np.float32], float]]] = {}
        for inp, result in records:
            if inp.task.known_space() is None:
                continue
            row = features_of(self.feature_type, inp.task, inp.config)
            speed = (inp.task.flop or 1.0) / result.least_cost
            by_task.setdefault(inp.task.workload, []).append((row, speed))
        if sum(map(len, by_task.values())) < max(1, min_seed_records):
            return False
        rows: list[npt.NDArray[np.float32]] = []
        labels: list[float] = []
        for measured in by_task.values():
            fastest = max(speed for _, speed in measured) or 1.0
            rows += [row for row, _ in measured]
            labels += [speed / fastest for _, speed in measured]
        self.sample_size = len(rows)
        self._train(stacked(rows), np.array(labels), None, 2 * plan_size, *_OF_BASE)
        return True

    def predict(self, xs: Sequence[int]) -> Floats:
        """Return a score for each index."""
        return self._scores(self._features.of(xs), self._margin(xs))

    def spawn_base_model(self) -> XGBoostCostModel:
        """Return a model of the same kind."""
        return XGBoostCostModel(
            self.task,
            self.feature_type,
            self.loss_type,
            self.num_threads,
            self.log_interval,
            self.seed,
        )

    def load_basemodel(self, base_model: FittedModel) -> None:
        """Start from the scores of a model of the same kind."""
        if not isinstance(base_model, XGBoostCostModel):
            raise TemplateError(f"the base model is no XGBoostCostModel: {base_model!r}")
        base_model._features = self._features  # of the same configurations
        self.base_model = base_model

    def _base_weight(self) -> float:
        return float(2.0 ** (-self.sample_size / _HALVED_AFTER))

    def _margin(self, xs: Sequence[int]) -> Floats | None:
        """Return the scores of the base model, None without one."""
        if self.base_model is None:
            return None
        return self._base_weight() * self.base_model.predict(xs)

    def _scores(self, rows: npt.NDArray[np.float32], margin: Floats | None) -> Floats:
        if self._booster is None or not len(rows):
            return np.zeros(len(rows)) if margin is None else margin
        scores = self._booster.inplace_predict(
            stacked(rows, self._width), predict_type="margin", base_margin=margin
        )
        return np.asarray(scores, np.float64).ravel()

    def _train(
        self,
        rows: npt.NDArray[np.float32],
        labels: Floats,
        margin: Floats | None,
        top: int,
        rounds: int,
        patience: int,
    ) -> None:
        import xgboost  # noqa: PLC0415  takes long to import, and not every tuner needs it

        taught = labels > np.median(labels) if self.loss_type == "rank-binary" else labels
        data = xgboost.DMatrix(rows, taught, base_margin=margin, nthread=self.num_threads or 1)
        if self.loss_type != "reg":
            data.set_group([len(labels)])
        name = f"a-recall@{top}"

        def recall(scores: Any, _: Any) -> tuple[str, float]:
            return name, average_recall(np.asarray(scores).ravel(), labels, top)

        self._width = rows.shape[1]
        self._booster = xgboost.train(
            self._parameters(),
            data,
            num_boost_round=rounds,
            evals=[(data, "tr")],
            custom_metric=recall,
            verbose_eval=False,
            callbacks=[
                xgboost.callback.EarlyStopping(
                    rounds=patience, metric_name=name, data_name="tr", maximize=True, save_best=True
                )
            ],
        )
        if self.log_interval:
            logger.debug(
                "XGB train: %d measurements, %d rounds, %s of the best: %s",
                *(len(labels), self._booster.num_boosted_rounds(), name),
                self._booster.attr("best_score"),
            )

    def _parameters(self) -> dict[str, Any]:
        return {
            "objective": OBJECTIVES[self.loss_type],
            "max_depth": 3,
            "gamma": 0.0001,
            "min_child_weight": 1,
            "subsample": 1.0,
            "eta": 0.3,
            "lambda": 1.0,
            "alpha": 0,
            "seed": self.seed,
            "nthread": self.num_threads or 1,
            "verbosity": 0,
            "disable_default_eval_metric": 1,
        }


_USUAL: Final = (_MOST_ROUNDS, _PATIENCE)
_OF_BASE: Final = (_ROUNDS_OF_BASE, _PATIENCE_OF_BASE)
