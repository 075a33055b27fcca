"""The winners of a search: programs, traces and explanations, as the database has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

import codegen
from codegen.explanation.explain import Table
from schedule import Schedule
from schedule.decisions.domain import OptionDomain
from search.database import TuningRecord
from search.database.best_records import with_schedules
from search.reports.cost_curve import CostCurve, most_telling
from search.reports.run_directory import knobs_of
from search.reports.table import LogTable
from search.reports.tasks import TaskTrials
from search.space_generator.decision_site import Site, decision_columns
from search.space_generator.design_space import DesignSpace
from tensorir.errors import TensorIRError


@dataclass(frozen=True)
class Winner:
    """The schedule that a search found best for a task, in texts."""

    original: str
    """The program as it was given."""
    program: str
    """The program as it was scheduled."""
    trace: str
    """The calls that make one from the other, as Python."""
    explanation: Sequence[tuple[str, Sequence[Table]]]
    """For each function what became of its loops, accumulators and accesses."""
    why_unexplained: str
    """Why there is no explanation, empty where there is one."""
    seconds: float
    """The median of its last measurement."""
    measurements: int
    """The number of times in that measurement."""
    sites: Sequence[Site]
    """What is decided in its design space."""
    point: Sequence[Any]
    """What it decided, as trials have it."""


class ShownWinner:
    """A winner with the trials of its task, whose decisions in its design space have names."""

    def __init__(self, winner: Winner, task: TaskTrials) -> None:
        self.winner = winner
        trials, point = task.trials, list(winner.point)
        self.space = next((one.space for one in trials if one.decisions == point), None)
        """The number of its design space, None if no trial of the task has its decisions."""
        self.table = LogTable(
            [
                replace(one, knobs=knobs_of(winner.sites, one)) if one.space == self.space else one
                for one in trials
            ],
            [task.known],
        )

    @cached_property
    def curves(self) -> Sequence[CostCurve]:
        """The decisions that varied, those first that explain most."""
        return most_telling(map(self.table.group_by, self.table.knobs))

    @cached_property
    def columns(self) -> list[tuple[str, int, int, dict[int, str]]]:
        """The numbers that are decided, in the order of the curves, then those that did not vary.

        Each has its name, the place of the decision in the point, that of the number in the
        decision, and what the numbers stand for where they are codes.
        """
        sites, point = self.winner.sites, self.winner.point
        names = (name for name, _ in decision_columns(sites, point))
        made = [
            (next(names), place, part, _labels(site) if parts == 1 else {})
            for place, (site, decision) in enumerate(zip(sites, point, strict=True))
            for parts in [len(decision) if isinstance(decision, list) else 1]
            for part in range(parts)
        ]
        order = {curve.column: k for k, curve in enumerate(self.curves)}
        return sorted(made, key=lambda one: order.get(one[0], len(order)))


def winner_of(records: Iterable[TuningRecord]) -> Winner | None:
    """Return the first of some records that can be used; None if none can."""
    return next((_winner(record, sch) for record, sch in with_schedules(records)), None)


def _winner(record: TuningRecord, sch: Schedule) -> Winner:
    space = DesignSpace.of(sch)
    explanation: list[tuple[str, list[Table]]] = []
    reason = ""
    try:
        explanation += codegen.explain(sch.mod, record.target).sections()
    except TensorIRError as error:
        reason = str(error).strip().partition("\n")[0]
    return Winner(
        original=record.workload.script,
        program=sch.mod.script(),
        trace=record.trace.simplified(remove_postproc=False).script(),
        explanation=explanation,
        why_unexplained=reason,
        seconds=median(record.run_secs or (0.0,)),
        measurements=len(record.run_secs or ()),
        sites=space.sites,
        point=[list(one) if isinstance(one, tuple) else one for one in space.decisions],
    )


def _labels(site: Site) -> dict[int, str]:
    """Return what the decisions of a choice stand for; of other sites they are what they say."""
    return dict(enumerate(site.domain.labels)) if isinstance(site.domain, OptionDomain) else {}
