"""A design space that is restricted to the points that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from schedule import Schedule
from schedule.random_state import RandomState
from search.space_generator.design_space import Decisions, DesignSpace
from search.space_generator.space_generator import PostprocsArg, SpaceGenerator
from tensorir.function import IRModule

_NEAR: Final = 4
"""The number of nearest points that a step chooses from."""


class RecordedSpace(DesignSpace):
    """Some points of a design space.

    Random points are drawn from them. A step leads to one of the nearest other points, by the
    number of different decisions, and a crossover to the nearest point.
    """

    def __init__(self, space: DesignSpace, points: Sequence[Decisions]) -> None:
        super().__init__(space.trace, space.knobs, space.index)
        self.points = list(dict.fromkeys(points))
        self._codes: list[dict[Any, int]] = [{} for _ in self.knobs]
        rows = [self._code(point) for point in self.points]
        self._table = np.array(rows, np.int64).reshape(len(self.points), len(self.knobs))

    def _code(self, point: Decisions) -> list[int]:
        return [
            codes.setdefault(decision, len(codes))
            for codes, decision in zip(self._codes, point, strict=True)
        ]

    @property
    def num_points(self) -> int:
        """The number of points that were measured."""
        return len(self.points)

    def sample(self, rng: RandomState) -> Decisions:
        """Return one of the points."""
        return self.points[rng.uniform_int(0, len(self.points))]

    def admitted(self, decisions: Decisions) -> Decisions:
        """Return the nearest point, the first one of equally near points."""
        return self.points[int(self._differences(decisions, range(len(self.knobs))).argmin())]

    def neighbour(
        self, decisions: Decisions, rng: RandomState, among: Sequence[int] | None = None
    ) -> Decisions | None:
        """Return a near point that differs in the decision of a knob in `among`, None if none."""
        knobs = range(len(self.knobs))
        far = self._differences(decisions, knobs).astype(np.float64)
        changed = self._differences(decisions, knobs if among is None else among)
        far[changed == 0] = np.inf
        order = np.argsort(far, kind="stable")
        near = order[: min(_NEAR, int(np.isfinite(far).sum()))]
        return self.points[int(near[rng.uniform_int(0, len(near))])] if len(near) else None

    def _differences(self, decisions: Decisions, knobs: Sequence[int]) -> Any:
        """Return for each point the number of the given knobs whose decision differs."""
        row = np.array(self._code(decisions), np.int64)
        columns = list(knobs)
        return (self._table[:, columns] != row[columns]).sum(1)


class RecordedSpaces(SpaceGenerator):
    """Generates the design spaces of measured schedules, restricted to their measured points."""

    def __init__(
        self,
        schedules: Sequence[Schedule],
        points: Sequence[Sequence[Decisions]],
        postprocs: PostprocsArg = None,
    ) -> None:
        super().__init__(sch_rules=[], postprocs=postprocs)
        self.schedules = list(schedules)
        self.points = list(points)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return a schedule of each space; `mod` is ignored."""
        return self.schedules

    def part_of(self, space: DesignSpace) -> DesignSpace:
        """Return the points of a space that were measured."""
        return RecordedSpace(space, self.points[space.index])
