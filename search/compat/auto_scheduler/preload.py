"""The inputs of a policy before it searches: measurements of a log, rules of one's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from schedule import BlockRV, ExpiredHandleError, Schedule
from search.compat.auto_scheduler.history import to_database
from search.compat.auto_scheduler.policy import SearchCallback, SketchPolicy
from search.compat.auto_scheduler.records import load_records
from search.errors import TuningError
from search.schedule_rule import ScheduleRule
from search.space_generator.annotations import SCHEDULE_RULE

MeetCondition: TypeAlias = Callable[[SketchPolicy, Schedule, BlockRV], int]
ApplyRule: TypeAlias = Callable[[SketchPolicy, Schedule, BlockRV], Sequence[Any]]


class PreloadMeasuredStates(SearchCallback):
    """Shows a policy the records that a log has of its task.

    That is not measured again, seeds the search, and a cost model learns from it. OSError for a log
    that cannot be opened.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = filename

    def apply(self, policy: SketchPolicy) -> None:
        """Take over the records of the task."""
        key = policy.search_task.workload_key
        of_task = (r for r in load_records(self.filename) if r.input.task.workload_key == key)
        to_database(of_task, policy.database)


class PreloadCustomSketchRule(SearchCallback):
    """Gives a policy a rule of one's own, which sees each block before the other rules.

    `meet_condition_func(policy, sch, block)` returns PASS where the rule does not apply, APPLY
    where the schedule without it is a sketch, too, or APPLY_AND_SKIP_REST where other rules do not
    see that. Then `apply_func(policy, sch, block)` may change `sch` as it likes and returns
    `[[schedule, next], ...]`: a schedule whose `next` is the block goes on to the other rules with
    it, one with None is finished with the block (Ansor says so by the number of the next stage). A
    state of Ansor is a `Schedule` here, a stage a block; what the rule does is traced, and what it
    samples is searched.
    """

    PASS: Final = 0
    APPLY: Final = 1
    APPLY_AND_SKIP_REST: Final = 2

    def __init__(
        self,
        meet_condition_func: MeetCondition,
        apply_func: ApplyRule,
        rule_name: str = "CustomSketchRule",
    ) -> None:
        self.meet_condition_func = meet_condition_func
        self.apply_func = apply_func
        self.rule_name = rule_name

    def apply(self, policy: SketchPolicy) -> None:
        """Add the rule."""
        policy.custom_rules.append(CustomSketchRule(self, policy))


class CustomSketchRule(ScheduleRule):
    """The rule of a `PreloadCustomSketchRule` as one of the search."""

    def __init__(self, rule: PreloadCustomSketchRule, policy: SketchPolicy) -> None:
        self._rule = rule
        self._policy = policy

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the schedules that the functions make of a block."""
        rule = self._rule
        condition = rule.meet_condition_func(self._policy, sch, block)
        if condition not in (rule.PASS, rule.APPLY, rule.APPLY_AND_SKIP_REST):
            raise TuningError(
                f"the condition of {self} is 0 (pass), 1 (apply) or 2 (apply and skip the rest), "
                f"got {condition!r}"
            )
        if condition == rule.PASS:
            return [sch]
        untouched = [sch.copy()] if condition == rule.APPLY else []
        made = rule.apply_func(self._policy, sch, block)
        if not isinstance(made, (list, tuple)):
            raise TuningError(f"{self} returns a list of [schedule, next block], got {made!r}")
        return [*(self._checked(result, block) for result in made), *untouched]

    def _checked(self, result: Any, block: BlockRV) -> Schedule:
        match result:
            case (Schedule() as sch, following) if following in (None, block):
                if following is None:
                    with suppress(ExpiredHandleError):  # The rule may have taken the block away.
                        sch.get_sref(block)
                        sch.annotate(block, SCHEDULE_RULE, "None")
                return sch
        raise TuningError(
            f"{self} returns a list of [schedule, next block], where next is the block or None, "
            f"got {result!r} in it"
        )

    def __str__(self) -> str:
        return self._rule.rule_name
