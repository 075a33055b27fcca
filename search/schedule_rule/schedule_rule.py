"""The base class of schedule rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from search.kinds import Kinds, TaskPart

if TYPE_CHECKING:
    from schedule import BlockRV, Schedule


class ScheduleRule(TaskPart, ABC):
    """Rewrites one block of a schedule, perhaps in several ways.

    `PostOrderApply` calls `apply` on every block. A rule keeps no state between calls other than
    what `_initialize_with_tune_context` takes from the context.
    """

    kinds: ClassVar[Kinds[list[ScheduleRule]]] = Kinds("preset of schedule rules")
    """Presets by target kind (`llvm`, `avx512`, ...): functions that return the rules in order."""

    @staticmethod
    def create(kind: str, **changed: Any) -> list[ScheduleRule]:
        """Return the preset of rules for a target kind, such as `"llvm"`.

        `changed` are numbers of the preset by name, see `CpuNumbers`; those of a preset of one's
        own are what its function takes.
        """
        return ScheduleRule.kinds.make(kind, **changed)

    @abstractmethod
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the schedules that the rule makes of `sch`, which it may change in place.

        A rule that does not apply returns `[sch]` unchanged.
        """


PyScheduleRule = ScheduleRule
"""The base class under the name that it has for user classes in TVM."""
