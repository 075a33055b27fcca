"""A cost model of gradient-boosted trees."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from codegen import host
from search.cost_model.cost_model import CostModel
from search.cost_model.pack_sum import (
    PackedRows,
    average_peak,
    root_mean_square_error,
    squared_error_of_sum,
)
from search.errors import TuningError
from search.feature_extractor import FeatureExtractor
from tensorir.structural_hash import structural_hash

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult
    from tensorir.function import IRModule

logger = logging.getLogger("tvm.meta_schedule")

_FAILED_COST: Final = 1e10
_MAX_ROUNDS: Final = 300


@dataclass(frozen=True)
class XGBConfig:
    """Parameters of the booster; `nthread` None means as many as the tuning may use."""

    max_depth: int = 10
    gamma: float = 0.001
    min_child_weight: float = 0
    eta: float = 0.2
    seed: int = 43
    nthread: int | None = None
    tree_method: str = "hist"

    def parameters(self, nthread: int) -> dict[str, Any]:
        """Return what `xgboost.train` takes."""
        return {
            "max_depth": self.max_depth,
            "gamma": self.gamma,
            "min_child_weight": self.min_child_weight,
            "eta": self.eta,
            "seed": self.seed,
            "nthread": self.nthread or nthread,
            "tree_method": self.tree_method,
            "base_score": 0.0,
            "verbosity": 0,
        }


@dataclass(eq=False)
class _Group:
    """What was measured of one workload."""

    features: list[NDArray[np.float64]] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def labels(self) -> NDArray[np.float64]:
        """Return the speed of each candidate relative to the best; near 0 for failures."""
        costs = np.array(self.costs)
        return np.asarray(costs.min() / costs)


@CostModel.kinds.register("xgb")
class XGBModel(CostModel):
    """Predicts the speed relative to the best of the workload.

    Trees (Chen and Guestrin, XGBoost, KDD 2016) give a number for each row of features, and the
    score of a candidate is the sum. Below `num_warmup_samples` measurements scores are random.
    Training starts anew each time, on all workloads; with `adaptive_training` only once there is a
    fifth more data. It stops when the error on the training data did not improve for
    `early_stopping_rounds`, and after 300 rounds, which takes well under a second for a hundred
    measurements. Every `verbose_eval` rounds the error and the average peak of the first
    `average_peak_n` are logged at DEBUG level.
    """

    def __init__(
        self,
        *,
        extractor: str | FeatureExtractor = "per-store-feature",
        config: XGBConfig | None = None,
        num_warmup_samples: int = 12,
        early_stopping_rounds: int = 50,
        verbose_eval: int = 25,
        average_peak_n: int = 32,
        adaptive_training: bool = True,
        num_tuning_cores: int | None = None,
        tree_method: str | None = None,
    ) -> None:
        self.extractor = FeatureExtractor.create(extractor)
        self.config = config or XGBConfig()
        if tree_method is not None:
            self.config = XGBConfig(**{**vars(self.config), "tree_method": tree_method})
        self.num_warmup_samples = num_warmup_samples
        self.early_stopping_rounds = early_stopping_rounds
        self.verbose_eval = verbose_eval
        self.average_peak_n = average_peak_n
        self.adaptive_training = adaptive_training
        self._threads = num_tuning_cores or host.physical_cores()
        self._groups: dict[str, _Group] = {}
        self._booster: Any = None
        self._last_train_size = 0
        self._random = np.random.default_rng(self.config.seed)

    @property
    def data_size(self) -> int:
        """The number of measurements learned from."""
        return sum(len(group.costs) for group in self._groups.values())

    @property
    def trained(self) -> bool:
        """Whether there is a model of enough measurements."""
        return self._booster is not None and self.data_size >= self.num_warmup_samples

    def knows(self, context: TuneContext) -> bool:
        """Whether there are measurements of the program."""
        return context.mod is not None and _key(context.mod) in self._groups

    # ---------------------------------------------------------------------------------- prediction

    def predict(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Return a score for each candidate: speed relative to the best, roughly in [0, 1]."""
        if not self.trained or not candidates:
            return self._random.random(len(candidates))
        return self._scores(self.extractor.extract_from(context, candidates))

    def _scores(self, features: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        packed = PackedRows(features)
        if not len(packed.rows):
            return np.zeros(packed.count)
        return packed.summed(self._booster.inplace_predict(packed.rows))

    # ------------------------------------------------------------------------------------ training

    def update(
        self,
        context: TuneContext,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        """Add measurements and train again if there is enough new data."""
        features = self.extractor.extract_from(context, candidates)
        batch = [
            (rows, _FAILED_COST if result.median_secs is None else result.median_secs)
            for rows, result in zip(features, results, strict=True)
            if len(rows)
        ]
        if not batch or context.mod is None:
            return
        group = self._groups.setdefault(_key(context.mod), _Group())
        if self.trained and group.costs:
            self._log_validation(group, batch)
        for rows, cost in batch:
            group.features.append(rows)
            group.costs.append(cost)
        new = self.data_size - self._last_train_size
        if self.data_size < self.num_warmup_samples:
            return
        if self.adaptive_training and new * 5 < self._last_train_size:
            return
        self._last_train_size = self.data_size
        self._train()

    def _train(self) -> None:
        import xgboost  # noqa: PLC0415  takes long to import, and not every search needs it

        groups = list(self._groups.values())
        packed = PackedRows([rows for group in groups for rows in group.features])
        labels = np.concatenate([group.labels() for group in groups])
        matrix = xgboost.DMatrix(packed.rows, label=packed.spread(labels))
        monitor = _monitor(xgboost, matrix, packed, labels, self)
        self._booster = xgboost.train(
            self.config.parameters(self._threads),
            matrix,
            num_boost_round=_MAX_ROUNDS,
            obj=squared_error_of_sum(packed, labels),
            callbacks=[monitor],
        )

    def _log_validation(
        self, group: _Group, batch: Sequence[tuple[NDArray[np.float64], float]]
    ) -> None:
        labels = min(group.costs) / np.array([cost for _, cost in batch])
        packed = PackedRows([rows for rows, _ in batch])
        outputs = self._booster.inplace_predict(packed.rows)
        logger.debug(
            "XGB validation: p-rmse: %.6f  a-peak@%d: %.6f",
            root_mean_square_error(packed, outputs, labels),
            self.average_peak_n,
            average_peak(packed.summed(outputs), labels, self.average_peak_n),
        )

    # --------------------------------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the measurements and the booster to a file; a reader never sees half of it."""
        groups = self._groups
        features = [rows for group in groups.values() for rows in group.features]
        raw = b"" if self._booster is None else bytes(self._booster.save_raw("ubj"))
        arrays = {
            "workloads": np.array(list(groups), dtype="U16"),
            "group_sizes": np.array([len(g.costs) for g in groups.values()], np.int64),
            "costs": np.array([c for g in groups.values() for c in g.costs], np.float64),
            "row_counts": np.array([len(rows) for rows in features], np.int64),
            "rows": np.concatenate(features) if features else np.zeros((0, 0)),
            "booster": np.frombuffer(raw, np.uint8),
        }
        target = Path(path)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        Path(temporary).replace(target)
        logger.info("Saved XGBModel to %s", target)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take over what `save` wrote; TuningError if the file holds something else."""
        names = ("workloads", "group_sizes", "costs", "row_counts", "rows", "booster")
        try:
            with np.load(Path(path), allow_pickle=False) as saved:
                workloads, sizes, costs, counts, rows, raw = (saved[name] for name in names)
        except (KeyError, ValueError, OSError) as error:
            raise TuningError(f"{path} is no saved cost model: {error}") from error
        features = np.split(rows, np.cumsum(counts)[:-1]) if len(counts) else []
        groups: dict[str, _Group] = {}
        start = 0
        for name, size in zip(workloads, sizes, strict=True):
            end = start + int(size)
            groups[str(name)] = _Group(features[start:end], costs[start:end].tolist())
            start = end
        self._groups = groups
        self._last_train_size = self.data_size
        self._booster = None
        if len(raw):
            import xgboost  # noqa: PLC0415  takes long to import, and not every search needs it

            self._booster = xgboost.Booster()
            self._booster.load_model(bytearray(raw.tobytes()))

    def __str__(self) -> str:
        return f"XGBModel({self.data_size} measurements)"


def _key(mod: IRModule) -> str:
    return f"{structural_hash(mod):016x}"


def _monitor(
    xgboost: Any,
    matrix: Any,
    packed: PackedRows,
    labels: NDArray[np.float64],
    model: XGBModel,
) -> Any:
    """Return the callback that logs the error and ends the training when it stays."""

    class Monitor(xgboost.callback.TrainingCallback):  # type: ignore[misc]
        best = np.inf
        best_round = 0

        def after_iteration(self, booster: Any, epoch: int, _: Any) -> bool:
            outputs = booster.predict(matrix, output_margin=True)
            error = root_mean_square_error(packed, outputs, labels)
            if epoch % model.verbose_eval == 0:
                logger.debug(
                    "XGB iter %3d: tr-p-rmse: %.6f  tr-a-peak@%d: %.6f",
                    epoch,
                    error,
                    model.average_peak_n,
                    average_peak(packed.summed(outputs), labels, model.average_peak_n),
                )
            if error < self.best * 0.999:
                self.best, self.best_round = error, epoch
            return bool(epoch - self.best_round >= model.early_stopping_rounds)

    return Monitor()
