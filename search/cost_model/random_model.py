"""A cost model that knows nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from search.cost_model.cost_model import CostModel
from search.cost_model.saved_model import read_arrays
from tensorir.replaced_file import replaced_file

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult


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
        context: TuneContext,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        """Learn nothing."""

    def predict(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Return random numbers."""
        return self._rng.random(len(candidates)) * self.max_range
