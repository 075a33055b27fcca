"""The points of a design space that were measured, as a space of their own."""

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
"""A step leads to one of so many nearest points."""


class RecordedSpace(DesignSpace):
    """A design space of which only some points are there: random draws and steps end at those.

    A step leads to one of the nearest other points, by how many sites decide otherwise; a mix of
    two to the point that is nearest to it.
    """

    def __init__(self, space: DesignSpace, points: Sequence[Decisions]) -> None:
        super().__init__(space.trace, space.sites, space.index)
        self.points = list(dict.fromkeys(points))
        self._codes: list[dict[Any, int]] = [{} for _ in self.sites]
        rows = [self._code(point) for point in self.points]
        self._table = np.array(rows, np.int64).reshape(len(self.points), len(self.sites))
        self._places = {point: k for k, point in enumerate(self.points)}

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
        """Return the point that is nearest, of those as near the first: the point itself if any."""
        if decisions in self._places:
            return decisions
        return self.points[int(self._differences(decisions, range(len(self.sites))).argmin())]

    def neighbour(
        self, decisions: Decisions, rng: RandomState, among: Sequence[int] | None = None
    ) -> Decisions | None:
        """Return another point near by that decides otherwise at one of the sites `among`."""
        sites = range(len(self.sites))
        far = self._differences(decisions, sites).astype(np.float64)
        changed = self._differences(decisions, sites if among is None else among)
        far[changed == 0] = np.inf
        order = np.argsort(far, kind="stable")
        near = order[: min(_NEAR, int(np.isfinite(far).sum()))]
        return self.points[int(near[rng.uniform_int(0, len(near))])] if len(near) else None

    def _differences(self, decisions: Decisions, sites: Sequence[int]) -> Any:
        """Return for each point at how many of some sites it decides otherwise."""
        row = np.array(self._code(decisions), np.int64)
        columns = list(sites)
        return (self._table[:, columns] != row[columns]).sum(1)


class RecordedSpaces(SpaceGenerator):
    """Gives the design spaces of schedules that were measured, without points that were not."""

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
        """Return a schedule of each space, whatever `mod` is."""
        return self.schedules

    def part_of(self, space: DesignSpace) -> DesignSpace:
        """Return the points of a space that were measured."""
        return RecordedSpace(space, self.points[space.index])
