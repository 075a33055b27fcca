"""Search callbacks, which prepare a policy: measurements of a log, and user-defined rules."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from schedule import BlockRV, ExpiredHandleError, Schedule
from search.compat.auto_scheduler.history import to_database
from search.compat.auto_scheduler.records import load_records
from search.errors import TuningError
from search.schedule_rule import ScheduleRule
from search.space_generator.annotations import SCHEDULE_RULE

if TYPE_CHECKING:
    from search.compat.auto_scheduler.policy import SketchPolicy

MeetCondition: TypeAlias = "Callable[[SketchPolicy, Schedule, BlockRV], int]"
ApplyRule: TypeAlias = "Callable[[SketchPolicy, Schedule, BlockRV], Sequence[Any]]"


class SearchCallback(ABC):
    """Is called once with a policy, when the policy is made."""

    @abstractmethod
    def apply(self, policy: SketchPolicy) -> None:
        """Prepare a policy."""


class PreloadMeasuredStates(SearchCallback):
    """Loads the records that a log has of the task of a policy.

    They seed the search, teach the cost model, and are not measured again. OSError for a log that
    cannot be opened.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = filename

    def apply(self, policy: SketchPolicy) -> None:
        """Load the records of the task."""
        key = policy.search_task.workload_key
        of_task = (r for r in load_records(self.filename) if r.input.task.workload_key == key)
        to_database(of_task, policy.database)


class PreloadCustomSketchRule(SearchCallback):
    """Adds a user-defined rule, which is applied to each block before the other rules.

    `meet_condition_func(policy, sch, block)` returns PASS to skip the rule, APPLY to keep the
    schedule without it as another sketch, or APPLY_AND_SKIP_REST to drop that. Then
    `apply_func(policy, sch, block)` may change `sch` and returns `[[schedule, next], ...]`: with
    the block for `next` the other rules are applied to the block of that schedule, with None they
    are not (Ansor returns the number of the next stage). A state of Ansor is a `Schedule` here, and
    a stage a block. The trace records the rule, and its samples are part of the search.
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
    """The rule of a `PreloadCustomSketchRule` as a rule of the search."""

    def __init__(self, rule: PreloadCustomSketchRule, policy: SketchPolicy) -> None:
        self._rule = rule
        self._policy = policy

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the schedules that the functions make of a block."""
        rule = self._rule
        condition = rule.meet_condition_func(self._policy, sch, block)
        if condition == rule.PASS:
            return [sch]
        made = [sch.copy()] if condition == rule.APPLY else []
        for result, following in rule.apply_func(self._policy, sch, block):
            if following not in (None, block):
                raise TuningError(
                    f"{self} must return [[schedule, next], ...] where next is the block or None, "
                    f"got {following!r}"
                )
            if following is None:
                with suppress(ExpiredHandleError):  # The rule may have removed the block.
                    result.get_sref(block)
                    result.annotate(block, SCHEDULE_RULE, "None")
            made.append(result)
        return made

    def __str__(self) -> str:
        return self._rule.rule_name
