"""The cost model of gradient-boosted trees."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from codegen.target import as_target
from search.cost_model.cost_model import CostModel, Scores
from search.cost_model.measurements import FAILURE, Cost, Measurements, SavedModel
from search.cost_model.tree_ensemble import (
    TreeEnsemble,
    XGBConfig,
    average_peak,
    imported_xgboost,
    pairwise_accuracy,
)
from search.database.records import digest
from search.database.target_key import target_key
from search.feature_extractor import FeatureExtractor, PackedFeatures
from search.lines import json_line
from search.reports.profiler import Profiler
from tensorir.comparison.structural_hash import structural_hash

if TYPE_CHECKING:
    from codegen import Target
    from schedule import Trace
    from search.runner import RunnerResult
    from search.runner.measure_candidate import MeasureCandidate
    from search.space_generator.design_space import Decisions, DesignSpace
    from search.task import Task
    from tensorir.function import IRModule

logger = logging.getLogger("tensorir.search")

_MOST_CANDIDATES: Final = 1024


@CostModel.kinds.register("xgb")
class XGBModel(CostModel):
    """Ranks candidates by trees that are trained to find the faster of two candidates.

    A score is about the log of the speed, up to a constant of the workload: the difference of two
    scores is about the log of the ratio of the times. `num_folds` boosters are trained for a
    ranking loss, each without a fold of the measurements. The loss on this fold ends the training
    (after `early_stopping_rounds` without progress, and after 300 rounds at most). The score is the
    mean of the boosters, the uncertainty their spread. With fewer than `num_warmup_samples`
    measurements of all workloads, scores are the estimates of the extractor, or random without
    estimates. Training starts from the estimates, too.

    Training is done when scores are needed, each time from scratch; with `adaptive_training` only
    if a workload has 20 % more measurements than at the last training. It uses at most 1,024
    candidates, in equal numbers of each workload, from the fastest to the slowest, so that its time
    is bounded. The quality of the predictions of each batch (the fraction of correctly ordered
    pairs, and the average peak of the first `average_peak_n`) is logged at DEBUG level, and the
    held-out loss every `verbose_eval` rounds. `num_tuning_cores` exists for TVM's signature;
    `config.nthread` is the number of threads.
    """

    def __init__(
        self,
        *,
        extractor: str | FeatureExtractor = "nest-feature",
        config: XGBConfig | None = None,
        num_warmup_samples: int = 12,
        early_stopping_rounds: int = 10,
        verbose_eval: int = 25,
        num_folds: int = 4,
        average_peak_n: int = 32,
        adaptive_training: bool = True,
        num_tuning_cores: int | None = None,
        tree_method: str | None = None,
    ) -> None:
        self.extractor = FeatureExtractor.create(extractor)
        self.reads_drafts = self.extractor.reads_drafts
        self.config = config or XGBConfig()
        if tree_method is not None:
            self.config = replace(self.config, tree_method=tree_method)
        self.num_warmup_samples = num_warmup_samples
        self.early_stopping_rounds = early_stopping_rounds
        self.verbose_eval = verbose_eval
        self.num_folds = num_folds
        self.average_peak_n = average_peak_n
        self.adaptive_training = adaptive_training
        self._measurements = Measurements()
        self._trained_sizes: dict[str, int] = {}
        self._ensemble = TreeEnsemble()
        self._spaces: dict[tuple[str, int], DesignSpace] = {}
        """The spaces with scored points, by workload and index."""
        self._hashed: tuple[IRModule | None, str] = (None, "")
        """The last hashed program, and its hash."""
        self._random = np.random.default_rng(self.config.seed)

    @staticmethod
    def of(target: Target, **options: Any) -> XGBModel:
        """Return a model with the features for a target."""
        extractor = "nest-feature" if target.gpu is None else "gpu-feature"
        return XGBModel(extractor=extractor, **options)

    @property
    def data_size(self) -> int:
        """The number of measurements."""
        return len(self._measurements)

    @property
    def trained(self) -> bool:
        """True if there are enough measurements, or the extractor estimates."""
        return self._is_due or bool(self._ensemble.members) or self.extractor.estimates

    def warm_up(self) -> None:
        """Import XGBoost, which takes about half a second.

        Raises TuningError if that is impossible.
        """
        imported_xgboost()

    def knows(self, context: Task, trace: Trace) -> bool:
        """Return True if the model has a measurement of a trace."""
        return self._measurements.knows(self._key(context), _trace_key(trace))

    # ---------------------------------------------------------------------------------- prediction

    def predict(self, context: Task, candidates: Sequence[MeasureCandidate]) -> NDArray[np.float64]:
        """Return a score for each candidate: about the log of its speed."""
        if not self.trained or not candidates:
            return self._random.random(len(candidates))
        return self._scores(
            PackedFeatures.of(self.extractor.extract_from(context, candidates))
        ).mean

    def score_points(
        self, context: Task, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> Scores | None:
        """Return the scores that `predict` would return for the replayed points, with their spread.

        None if the extractor needs programs, NaN for a point whose program it needs. Without enough
        measurements scores are random.
        """
        self._spaces[self._key(context), space.index] = space
        packed = self.extractor.extract_points(context, space, decisions)
        if packed is None:
            return None
        if not self.trained:
            return Scores(self._random.random(packed.count), np.zeros(packed.count))
        means, stds = np.full(packed.count, np.nan), np.zeros(packed.count)
        described, numbers = np.unique(packed.owner, return_inverse=True)
        if len(described):
            scores = self._scores(PackedFeatures(packed.rows, numbers, len(described)))
            means[described], stds[described] = scores.mean, scores.std
        return Scores(means, stds, packed.twins())

    def _scores(self, packed: PackedFeatures) -> Scores:
        if self._is_due:
            with Profiler.timeit("TrainCostModel"):
                self._train()
        return self._ensemble.scores(packed, self.extractor.estimate(packed))

    # ------------------------------------------------------------------------------------ training

    def update(
        self,
        context: Task,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        """Add measurements; the next scores train again if there are enough new ones.

        Also check that the features of points were those of their programs.
        """
        self._check_points(context, candidates)
        features = self.extractor.extract_from(context, candidates)
        batch = [
            (candidate, rows, _cost(result))
            for candidate, rows, result in zip(candidates, features, results, strict=True)
            if len(rows)
        ]
        if not batch:
            return
        self._log_validation([rows for _, rows, _ in batch], [cost for *_, cost in batch])
        key = self._key(context)
        for candidate, rows, cost in batch:
            self._measurements.add(key, _trace_key(candidate.sch.trace), rows, cost)

    def _check_points(self, context: Task, candidates: Sequence[MeasureCandidate]) -> None:
        key = self._key(context)
        for candidate in candidates:
            if candidate.space_index is None or candidate.decisions is None:
                continue
            space = self._spaces.get((key, candidate.space_index))
            if space is None:
                continue
            if not self.extractor.check(context, space, candidate.decisions, candidate):
                context.logger.debug(
                    "%s is wrong about point %s of design space %d, and reads programs instead",
                    self.extractor,
                    candidate.decisions,
                    space.index,
                )

    @property
    def _is_due(self) -> bool:
        """True if there are enough new measurements to train before the next scores."""
        new = self.data_size - sum(self._trained_sizes.values())
        if self.data_size < self.num_warmup_samples or not new:
            return False
        return not self.adaptive_training or any(
            5 * len(measured) >= 6 * self._trained_sizes.get(key, 0)
            for key, measured in self._measurements.workloads.items()
        )

    def _train(self) -> None:
        workloads = self._measurements.workloads
        self._trained_sizes = {key: len(measured) for key, measured in workloads.items()}
        data = self._measurements.training_set(_MOST_CANDIDATES)
        self._ensemble = TreeEnsemble.trained(
            data,
            self.extractor.estimate(data.packed),
            self.config,
            folds=self.num_folds,
            patience=self.early_stopping_rounds,
            verbose_eval=self.verbose_eval,
        )

    def _log_validation(
        self, features: Sequence[NDArray[np.float64]], costs: Sequence[Cost]
    ) -> None:
        if not self.trained or not logger.isEnabledFor(logging.DEBUG):
            return
        scores = self._scores(PackedFeatures.of(features)).mean
        seconds = np.array([cost.seconds for cost in costs])
        logger.debug(
            "XGB validation: %.3f of the pairs in order, a-peak@%d: %.3f",
            pairwise_accuracy(scores, np.log(seconds)),
            self.average_peak_n,
            average_peak(scores, 1 / seconds, self.average_peak_n),
        )

    # --------------------------------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the measurements and the boosters to a file, atomically."""
        SavedModel(
            self._measurements, self._trained_sizes, self._ensemble.saved(), self._features
        ).write(path)
        logger.debug("Saved XGBModel to %s", path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Load a file of `save`; if that fails, the model is unchanged.

        Raises OutdatedModelError if another version made it or it has other features, TuningError
        for any other file.
        """
        saved = SavedModel.read(path, self._features)
        self._ensemble = TreeEnsemble.loaded(saved.boosters, self.config)
        self._measurements = saved.measurements
        self._trained_sizes = saved.trained_sizes

    def _key(self, context: Task) -> str:
        """Return the key of a workload on a target: times on different targets do not compare.

        The last hash is cached, because the points of a space are scored in many calls.
        """
        if self._hashed[0] is not context.mod:
            program = "" if context.mod is None else f"{structural_hash(context.mod):016x}"
            self._hashed = context.mod, program
        return f"{self._hashed[1]} {target_key(as_target(context.target))}"

    @property
    def _features(self) -> str:
        columns = getattr(self.extractor, "feature_vector_length", "any")
        return f"{self.extractor} of {columns} columns"

    def __str__(self) -> str:
        return f"XGBModel({self.data_size} measurements)"


def _trace_key(trace: Trace) -> str:
    return digest(json_line(trace.as_json()).encode()).hex()


def _cost(result: RunnerResult) -> Cost:
    seconds = result.median_secs
    if seconds is None:
        return FAILURE
    return Cost(seconds, is_bound=result.stopped)
