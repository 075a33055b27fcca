"""The base class of schedule rules, and the rule that applies those that a program asks for."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

from schedule import BlockRV, ExpiredHandleError, Schedule, ScheduleError
from search.errors import TuningError
from search.kinds import Registry, TaskPart
from search.space_generator.annotations import SCHEDULE_RULE
from search.task import Task

CustomRule = Callable[[Schedule, BlockRV], list[Schedule]]
_rules: Final[dict[str, CustomRule]] = {}


class ScheduleRule(TaskPart[Task], ABC):
    """Rewrites one block of a schedule, perhaps in several ways.

    `PostOrderApply` calls `apply` on every block. A rule keeps no state between calls other than
    what `_initialize_with_tune_context` takes from the context.
    """

    kinds: ClassVar[Registry[list[ScheduleRule]]] = Registry("preset of schedule rules")
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


def succeeds(primitive: Callable[..., object], *args: Any, **kwargs: Any) -> bool:
    """Apply a primitive if it can be; say whether it was."""
    try:
        primitive(*args, **kwargs)
    except ScheduleError:
        return False
    return True


def exists(sch: Schedule, block: BlockRV) -> bool:
    """Say whether a block is still there."""
    try:
        sch.get_sref(block)
    except ExpiredHandleError:
        return False
    return True


def register_custom_rule(name: str) -> Callable[[CustomRule], CustomRule]:
    """Register the decorated function `f(sch, block) -> [schedules]` as a rule.

    The name is `meta_schedule.<key of the target>.<value of the annotation>`, such as
    `"meta_schedule.cpu.my_rule"`.
    """

    def add(function: CustomRule) -> CustomRule:
        _rules[name] = function
        return function

    return add


class ApplyCustomRule(ScheduleRule):
    """Applies to a block with the annotation `schedule_rule` the rule of that name.

    An unknown name is logged, and the annotation removed.
    """

    def __init__(self) -> None:
        self._keys: tuple[str, ...] | None = None
        self._logger = logging.getLogger("tensorir.search")

    def _initialize_with_tune_context(self, context: Task) -> None:
        if context.target is None:
            raise TuningError("ApplyCustomRule needs a task with a target")
        self._keys = context.target.keys
        self._logger = context.logger

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the schedules that the rule that the block asks for makes of it."""
        wanted = sch.get(block).annotations.get(SCHEDULE_RULE)
        if not isinstance(wanted, str) or wanted == "None":
            return [sch]
        if self._keys is None:
            raise TuningError("ApplyCustomRule is used before it was initialised with a task")
        names = [f"meta_schedule.{key}.{wanted}" for key in self._keys]
        for name in names:
            if name in _rules:
                return _rules[name](sch, block)
        self._logger.warning(
            "No custom rule for block %r: none of %s is registered", sch.get(block).name_hint, names
        )
        sch.unannotate(block, SCHEDULE_RULE)
        return [sch]
