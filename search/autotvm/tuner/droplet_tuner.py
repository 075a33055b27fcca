"""Descent along the knobs from one configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from codegen import host
from search.autotvm.errors import TemplateError
from search.autotvm.measure import MeasureErrorNo
from search.autotvm.tuner.tuner import Tuner
from search.autotvm.tuner.welch import welch_p_value

if TYPE_CHECKING:
    from search.autotvm.entity import ConfigEntity
    from search.autotvm.measure import MeasureInput, MeasureResult
    from search.autotvm.task import Task

_FIRST_BATCH: Final = 16


class DropletTuner(Tuner):
    """Moves to faster neighbours until there are none (Canesche et al., Droplet Search, 2024).

    It starts at `start_position`, the index of the value of each knob (None: all 0). Neighbours of
    the best configuration have the next value of some knobs, or the one before, all at once; when
    few are left, those two and more values away. A neighbour is better if its mean cost is lower
    and the costs differ with significance `pvalue`; single costs always do. The search ends when
    all are measured. It is for few trials: what it ends in may be a local optimum.

    TemplateError for a start that is no configuration.
    """

    def __init__(
        self,
        task: Task,
        start_position: Sequence[int] | None = None,
        pvalue: float = 0.05,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed=seed)
        dims = self.space.dims
        if start_position is None:
            first = self.space.point2knob(task.first_config().index)
        else:
            first = list(start_position)
        inside = len(first) == len(dims) and all(
            0 <= digit < dim for digit, dim in zip(first, dims, strict=True)
        )
        if not inside or not self.space.is_index_valid(self.space.knob2point(first)):
            raise TemplateError(
                f"start_position has an index for each knob, below {dims}, that the filter of the "
                f"space lets through; got {first}"
            )
        self.pvalue = pvalue
        self.visited = {self.space.knob2point(first)}
        self.best_knob = first
        self.best_costs: Sequence[float] = ()
        self._next = [self.space.knob2point(first)]
        self._batch = max(_FIRST_BATCH, host.logical_cores())
        self._step = 0

    def has_next(self) -> bool:
        """Say whether there is a candidate."""
        return bool(self._next)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next candidates."""
        self._batch = batch_size
        taken, self._next = self._next[:batch_size], self._next[batch_size:]
        return [self.space.get(index) for index in taken]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Move to the best, and find candidates around it."""
        moved = False
        for inp, result in zip(inputs, results, strict=True):
            self.visited.add(inp.config.index)
            if self._is_better(result) and self.space.is_index_valid(inp.config.index):
                self.best_knob = self.space.point2knob(inp.config.index)
                self.best_costs = result.costs
                moved = True
        measured = {inp.config.index for inp in inputs}
        self._next = [index for index in self._next if index not in measured]
        if moved:
            self._step = 1
            self._next += self._neighbours(1)
        while len(self._next) < self._batch and self._step < max(self.space.dims):
            self._step += 1
            self._next += self._neighbours(self._step)

    def _is_better(self, result: MeasureResult) -> bool:
        if result.error_no != MeasureErrorNo.NO_ERROR:
            return False
        if not self.best_costs:
            return True
        if result.mean_cost >= sum(self.best_costs) / len(self.best_costs):
            return False
        if min(len(result.costs), len(self.best_costs)) < 2:
            return True
        return welch_p_value(self.best_costs, result.costs) <= self.pvalue

    def _neighbours(self, distance: int) -> list[int]:
        """Return valid indices that were not visited, about as many as a batch has."""
        found: list[int] = []
        for signs in _directions(len(self.best_knob)):
            knob = [
                max(0, digit + sign * distance) % dim
                for digit, sign, dim in zip(self.best_knob, signs, self.space.dims, strict=True)
            ]
            index = self.space.knob2point(knob)
            if index in self.visited or not self.space.is_index_valid(index):
                continue
            self.visited.add(index)
            found.append(index)
            if len(found) > self._batch:
                break
        return found


def _directions(count: int) -> Iterator[list[int]]:
    """Yield which of `count` knobs go up, all of them first; after each, the same knobs down."""
    for pattern in range(2**count - 1, 0, -1):
        up = [pattern >> (count - 1 - k) & 1 for k in range(count)]
        yield up
        yield [-sign for sign in up]
