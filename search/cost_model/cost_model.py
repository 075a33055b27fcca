"""The base class of cost models, and a random model."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from search.cost_model.measurements import read_arrays
from search.kinds import Named, Registry
from tensorir.replaced_file import replaced_file

if TYPE_CHECKING:
    from schedule import Trace
    from search.runner import RunnerResult
    from search.runner.measure_candidate import MeasureCandidate
    from search.space_generator.design_space import Decisions, DesignSpace
    from search.task import Task


class Scores(NamedTuple):
    """The scores of candidates; arrays [candidates].

    A candidate with a higher `mean` is faster. `std` is the disagreement of the model's predictors.
    Candidates with equal features have the same number in `twins`, in all calls; 0 means unknown.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    twins: NDArray[np.int64] | None = None


class CostModel(Named, ABC):
    """Predicts the speed of candidates, and learns from measurements."""

    kinds: ClassVar[Registry[CostModel]] = Registry("cost model")

    @staticmethod
    def create(kind: str | CostModel = "xgb", *args: Any, **kwargs: Any) -> CostModel | None:
        """Return a model: `"xgb"`, `"random"`; None for `"none"`."""
        if kind == "none":
            return None
        return CostModel.kinds.part(kind, *args, **kwargs)

    @property
    def trained(self) -> bool:
        """True if predictions are better than random."""
        return True

    def warm_up(self) -> None:
        """Load the modules for training, while the first batch is built."""

    def knows(self, context: Task, trace: Trace) -> bool:
        """Return True if the model does not need the measurement of a trace.

        A search updates the model with those records of its database that it needs.
        """
        return True

    @abstractmethod
    def load(self, path: str | os.PathLike[str]) -> None:
        """Load the state from a file that `save` wrote."""

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the state to a file."""

    @abstractmethod
    def update(
        self,
        context: Task,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        """Learn from measured candidates; a result without `run_secs` is a failure."""

    @abstractmethod
    def predict(self, context: Task, candidates: Sequence[MeasureCandidate]) -> NDArray[np.float64]:
        """Return a score for each candidate; a higher score is faster, in any unit."""

    reads_drafts: bool = False
    """True if `predict` accepts candidates before postprocessing."""

    def score_points(
        self, context: Task, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> Scores | None:
        """Return scores of points of a design space without making their programs.

        A mean of NaN means that the model needs the program of this point, None, the default, that
        it needs the programs of all points.
        """
        return None


PyCostModel = CostModel
"""TVM's name of the base class of user-defined cost models."""


@CostModel.kinds.register("random")
class RandomModel(CostModel):
    """Draws scores uniformly from [0, `max_range`).

    With `seed` None, the operating system seeds it. `path` is a file of `save` to load.
    """

    def __init__(
        self,
        seed: int | None = None,
        path: str | os.PathLike[str] | None = None,
        max_range: float = 100,
    ) -> None:
        self.max_range = max_range
        self._rng = np.random.Generator(np.random.MT19937(seed))
        if path is not None:
            self.load(path)

    @property
    def trained(self) -> bool:
        """False: predictions are random."""
        return False

    def load(self, path: str | os.PathLike[str]) -> None:
        """Load a random stream from a file of `save`; TuningError for any other file."""
        with read_arrays(path) as saved:
            state = {"key": saved["key"], "pos": int(saved["pos"])}
            max_range = float(saved["max_range"])
            self._rng.bit_generator.state = {"bit_generator": "MT19937", "state": state}
            self.max_range = max_range

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the state of the random stream to a file."""
        state = self._rng.bit_generator.state["state"]
        with replaced_file(path) as file:
            np.savez(file, key=state["key"], pos=state["pos"], max_range=self.max_range)

    def update(
        self,
        context: Task,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        """Do nothing."""

    def predict(self, context: Task, candidates: Sequence[MeasureCandidate]) -> NDArray[np.float64]:
        """Return random numbers."""
        return self._rng.random(len(candidates)) * self.max_range
