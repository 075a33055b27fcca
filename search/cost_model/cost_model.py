"""The base class of cost models, and one that knows nothing."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from search.cost_model.measurements import read_arrays
from search.kinds import Kinds, Named
from tensorir.replaced_file import replaced_file

if TYPE_CHECKING:
    from schedule import Trace
    from search.runner import RunnerResult
    from search.runner.measure_candidate import MeasureCandidate
    from search.space_generator.design_space import Decisions, DesignSpace
    from search.task import Task


class Scores(NamedTuple):
    """The scores that a model gives to candidates; arrays [candidates].

    A higher `mean` is faster. `std`, 0 or more, says how far the predictors of the model disagree.
    Candidates that are all the same to the model have the same number in `twins`, for good, or 0
    where it does not say.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    twins: NDArray[np.int64] | None = None


class CostModel(Named, ABC):
    """Predicts how well candidates will do, and learns from measurements."""

    kinds: ClassVar[Kinds[CostModel]] = Kinds("cost model")

    @staticmethod
    def create(kind: str | CostModel = "xgb", *args: Any, **kwargs: Any) -> CostModel | None:
        """Return a model: `"xgb"`, `"random"`; None for `"none"`."""
        if kind == "none":
            return None
        return CostModel.kinds.part(kind, *args, **kwargs)

    @property
    def trained(self) -> bool:
        """True if predictions mean something."""
        return True

    def warm_up(self) -> None:
        """Begin to load what training needs, beside the first batch; others work meanwhile."""

    def knows(self, context: Task, trace: Trace) -> bool:
        """Return True if there is nothing to learn from the measurement of a trace.

        A search shows a model the records of its database that it does not know.
        """
        return True

    @abstractmethod
    def load(self, path: str | os.PathLike[str]) -> None:
        """Take over the state that `save` wrote to a file."""

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file."""

    @abstractmethod
    def update(
        self,
        context: Task,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        """Learn from measured candidates; a result without `run_secs` is one that failed."""

    @abstractmethod
    def predict(self, context: Task, candidates: Sequence[MeasureCandidate]) -> NDArray[np.float64]:
        """Return a score for each candidate; higher is better, the unit is the model's own."""

    reads_drafts: bool = False
    """True if `predict` takes candidates that were not postprocessed yet."""

    def score_points(
        self, context: Task, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> Scores | None:
        """Return scores of points of a design space whose programs nobody made yet.

        A mean of NaN means that the model wants the candidate of a point; None, as it is here, that
        it always does.
        """
        return None


PyCostModel = CostModel
"""The base class under the name that it has for user classes in TVM."""


@CostModel.kinds.register("random")
class RandomModel(CostModel):
    """Scores candidates uniformly at random in [0, `max_range`).

    `seed` None takes entropy from the device; `path` names a file that `save` wrote.
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
        """False: predictions never mean anything."""
        return False

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take over the random stream that `save` wrote; TuningError for another file."""
        with read_arrays(path) as saved:
            state = {"key": saved["key"], "pos": int(saved["pos"])}
            max_range = float(saved["max_range"])
            self._rng.bit_generator.state = {"bit_generator": "MT19937", "state": state}
            self.max_range = max_range

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state of the random stream to a file."""
        state = self._rng.bit_generator.state["state"]
        with replaced_file(path) as file:
            np.savez(file, key=state["key"], pos=state["pos"], max_range=self.max_range)

    def update(
        self,
        context: Task,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        """Learn nothing."""

    def predict(self, context: Task, candidates: Sequence[MeasureCandidate]) -> NDArray[np.float64]:
        """Return random numbers."""
        return self._rng.random(len(candidates)) * self.max_range
