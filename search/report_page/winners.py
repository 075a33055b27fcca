"""The winners of a search: programs, traces and explanations, as the database has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import codegen
from codegen.explanation.explain import Table
from schedule import Schedule
from schedule.decisions.domain import OptionDomain
from search.database import Database, TuningRecord
from search.database.best_records import winner_first, with_schedules
from search.database.programs import keyed_records
from search.report_page.searched_tasks import SearchedTask
from search.spaces.decision_site import Site, decision_columns
from search.spaces.design_space import DesignSpace
from search.trials.cost_curve import CostCurve, cost_curve, most_telling
from tensorir.errors import TensorIRError


@dataclass(frozen=True)
class DecisionColumn:
    """One number of what is decided: all of a decision, or one of several."""

    name: str
    site: int
    """The place of the decision in the point."""
    part: int
    """The place of the number in it."""
    labels: Mapping[int, str]
    """What a number stands for, where it is a code."""

    def value(self, decisions: Sequence[Any] | None) -> Any:
        """Return the number in a point, None where it has none there."""
        if decisions is None or self.site >= len(decisions):
            return None
        decision = decisions[self.site]
        if isinstance(decision, list):
            decision = decision[self.part] if self.part < len(decision) else None
        return decision if isinstance(decision, (int, float, str)) else None

    def meaning(self, decisions: Sequence[Any] | None) -> Any:
        """Return what the number in a point stands for: a number again where that is one."""
        value = self.value(decisions)
        label = self.labels.get(value) if isinstance(value, int) else None
        if label is None:
            return value
        return int(label) if label.removeprefix("-").isdigit() else label


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
    columns: Sequence[DecisionColumn]
    """What is decided in its design space."""
    point: Sequence[Any]
    """What it decided, as trials have it."""


@dataclass(frozen=True)
class ShownWinner:
    """A winner with how times depend on each decision of its design space."""

    winner: Winner
    space: int | None
    """The number of its design space, None if no trial of the task has its decisions."""
    curves: Sequence[CostCurve]
    """The decisions that varied, those first that explain most."""

    @staticmethod
    def of(winner: Winner, task: SearchedTask) -> ShownWinner:
        """Return a winner with the curves of the trials of its task."""
        point = list(winner.point)
        space = next((one.space for one in task.trials if one.decisions == point), None)
        trials = [trial for trial in task.trials if trial.space == space]
        made = [
            cost_curve(one.name, ((one.meaning(t.decisions), t.seconds) for t in trials))
            for one in winner.columns
        ]
        return ShownWinner(winner, space, most_telling(made))

    @property
    def columns(self) -> list[DecisionColumn]:
        """The decisions in the order of the curves, then those that did not vary."""
        order = {curve.column: k for k, curve in enumerate(self.curves)}
        return sorted(self.winner.columns, key=lambda one: order.get(one.name, len(order)))


class Winners:
    """The winners of tasks, from the records that a database has now."""

    def __init__(self, database: Database) -> None:
        self._records: dict[tuple[str, str], list[TuningRecord]] = {}
        for key, record in keyed_records(database):
            self._records.setdefault((key, str(record.target)), []).append(record)

    def records(self, task: SearchedTask) -> list[TuningRecord]:
        """Return the records of a task, the winner first."""
        return winner_first(self._records.get((task.workload, task.target), ()))


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
        columns=tuple(_columns(space)),
        point=[list(one) if isinstance(one, tuple) else one for one in space.decisions],
    )


def _columns(space: DesignSpace) -> Iterator[DecisionColumn]:
    names = iter([name for name, _ in decision_columns(space.sites, space.decisions)])
    for place, (site, decision) in enumerate(zip(space.sites, space.decisions, strict=True)):
        parts = len(decision) if isinstance(decision, (list, tuple)) else 1
        labels = _labels(site) if parts == 1 else {}
        for part in range(parts):
            yield DecisionColumn(next(names), place, part, labels)


def _labels(site: Site) -> dict[int, str]:
    """Return what the decisions of a choice stand for; of other sites they are what they say."""
    if not isinstance(site.domain, OptionDomain):
        return {}
    return dict(enumerate(site.domain.labels))
