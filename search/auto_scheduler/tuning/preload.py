"""The inputs of a policy before it searches: measurements of a log, rules of one's own."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from schedule import BlockRV, ExpiredHandleError, Schedule
from search.auto_scheduler.log.database import to_database
from search.auto_scheduler.log.file import load_records
from search.errors import TuningError
from search.schedule_rule import ScheduleRule
from search.spaces.annotations import SCHEDULE_RULE

if TYPE_CHECKING:
    from search.auto_scheduler.tuning.policy import SearchPolicy

MeetCondition: TypeAlias = "Callable[[SearchPolicy, Schedule, BlockRV], int]"
ApplyRule: TypeAlias = "Callable[[SearchPolicy, Schedule, BlockRV], Sequence[Any]]"


class SearchCallback(ABC):
    """Is called once with a policy, when that is made."""

    @abstractmethod
    def apply(self, policy: SearchPolicy) -> None:
        """Prepare a policy."""


class PreloadMeasuredStates(SearchCallback):
    """Shows a policy the records that a log has of its task.

    That is not measured again, seeds the search, and a cost model learns from it. OSError for a log
    that cannot be opened.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = filename

    def apply(self, policy: SearchPolicy) -> None:
        """Take over the records of the task."""
        key = policy.search_task.workload_key
        of_task = (r for r in load_records(self.filename) if r.input.task.workload_key == key)
        to_database(of_task, policy.database)


class SketchRuleCondition(IntEnum):
    """The answer of a rule of one's own about a block."""

    PASS = 0
    """It does not apply."""
    APPLY = 1
    """It applies; the schedule without it is a sketch, too."""
    APPLY_AND_SKIP_REST = 2
    """It applies, and other rules do not see the schedule without it."""


class PreloadCustomSketchRule(SearchCallback):
    """Gives a policy a rule of one's own, which sees each block before the other rules.

    `meet_condition_func(policy, sch, block)` returns 0, 1 or 2, see `SketchRuleCondition`. Then
    `apply_func(policy, sch, block)` may change `sch` as it likes and returns `[[schedule, next],
    ...]`: a schedule whose `next` is the block goes on to the other rules with it, one with None is
    finished with the block (Ansor says so by the number of the next stage). A state of Ansor is a
    `Schedule` here, a stage a block; what the rule does is traced, and what it samples is searched.
    """

    PASS: Final = SketchRuleCondition.PASS
    APPLY: Final = SketchRuleCondition.APPLY
    APPLY_AND_SKIP_REST: Final = SketchRuleCondition.APPLY_AND_SKIP_REST

    def __init__(
        self,
        meet_condition_func: MeetCondition,
        apply_func: ApplyRule,
        rule_name: str = "CustomSketchRule",
    ) -> None:
        self.meet_condition_func = meet_condition_func
        self.apply_func = apply_func
        self.rule_name = rule_name

    def apply(self, policy: SearchPolicy) -> None:
        """Add the rule."""
        policy.custom_rules.append(CustomSketchRule(self, policy))


class CustomSketchRule(ScheduleRule):
    """The rule of a `PreloadCustomSketchRule` as one of the search."""

    def __init__(self, rule: PreloadCustomSketchRule, policy: SearchPolicy) -> None:
        self._rule = rule
        self._policy = policy

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the schedules that the functions make of a block."""
        condition = self._rule.meet_condition_func(self._policy, sch, block)
        try:
            asked = SketchRuleCondition(condition)
        except ValueError:
            raise TuningError(
                f"the condition of {self} is 0 (pass), 1 (apply) or 2 (apply and skip the rest), "
                f"got {condition!r}"
            ) from None
        if asked == SketchRuleCondition.PASS:
            return [sch]
        untouched = [sch.copy()] if asked == SketchRuleCondition.APPLY else []
        made = self._rule.apply_func(self._policy, sch, block)
        if not isinstance(made, (list, tuple)):
            raise TuningError(f"{self} returns a list of [schedule, next block], got {made!r}")
        return [*(self._checked(result, block) for result in made), *untouched]

    def _checked(self, result: Any, block: BlockRV) -> Schedule:
        if not isinstance(result, (list, tuple)) or len(result) != 2:
            raise TuningError(
                f"{self} returns a list of [schedule, next block], got {result!r} in it"
            )
        sch, following = result
        if not isinstance(sch, Schedule) or following not in (None, block):
            raise TuningError(
                f"{self} returns schedules, each with the block or None, got {result!r}"
            )
        if following is None:
            _leave(sch, block)
        return sch

    def __str__(self) -> str:
        return self._rule.rule_name


def _leave(sch: Schedule, block: BlockRV) -> None:
    """Keep rules from a block, if it is still there."""
    try:
        sch.get_sref(block)
    except ExpiredHandleError:
        return
    sch.annotate(block, SCHEDULE_RULE, "None")
