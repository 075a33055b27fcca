"""The base class of schedule rules, and the rule that applies custom rules."""

from __future__ import annotations

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
    """Rewrites one block of a schedule, in one or several ways.

    `PostOrderApply` calls `apply` on every block. Between calls, a rule keeps only what
    `_initialize_with_tune_context` takes from the task.
    """

    kinds: ClassVar[Registry[list[ScheduleRule]]] = Registry(
        "preset of schedule rules",
        dict.fromkeys(("cuda", "cuda-tensorcore"), "search.schedule_rule.gpu_preset"),
    )
    """Presets by target kind (`llvm`, `avx512`, ...): functions that return the rules in order."""

    @staticmethod
    def create(kind: str, **changed: Any) -> list[ScheduleRule]:
        """Return the preset of rules for a target kind, such as `"llvm"`.

        `changed` replaces numbers of the preset, see `CpuNumbers`; for a user-defined preset these
        are the arguments of its function.
        """
        return ScheduleRule.kinds.make(kind, **changed)

    @abstractmethod
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the designs that the rule makes from `sch`, which it may change in place.

        A rule that does not apply returns `[sch]` unchanged.
        """


PyScheduleRule = ScheduleRule
"""TVM's name of the base class of user-defined rules."""


def succeeds(primitive: Callable[..., object], *args: Any, **kwargs: Any) -> bool:
    """Try to apply a primitive; return True on success."""
    try:
        primitive(*args, **kwargs)
    except ScheduleError:
        return False
    return True


def exists(sch: Schedule, block: BlockRV) -> bool:
    """Return True if a block still exists."""
    try:
        sch.get_sref(block)
    except ExpiredHandleError:
        return False
    return True


def register_custom_rule(name: str) -> Callable[[CustomRule], CustomRule]:
    """Register the decorated function `f(sch, block) -> [schedules]` as a rule.

    The name is `meta_schedule.<target key>.<annotation value>`, such as
    `"meta_schedule.cpu.my_rule"`.
    """

    def add(function: CustomRule) -> CustomRule:
        _rules[name] = function
        return function

    return add


class ApplyCustomRule(ScheduleRule):
    """Applies the custom rule that a block names by the annotation `schedule_rule`.

    If no such rule is registered, a warning is logged and the annotation is removed.
    """

    def __init__(self) -> None:
        self._keys: tuple[str, ...] | None = None

    def _initialize_with_tune_context(self, context: Task) -> None:
        if context.target is None:
            raise TuningError("ApplyCustomRule needs a task with a target")
        super()._initialize_with_tune_context(context)
        self._keys = context.target.keys

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the designs of the custom rule that the block names."""
        wanted = sch.get(block).annotations.get(SCHEDULE_RULE)
        if not isinstance(wanted, str) or wanted == "None":
            return [sch]
        if self._keys is None:
            raise TuningError("ApplyCustomRule was not initialised; initialise it with a task")
        names = [f"meta_schedule.{key}.{wanted}" for key in self._keys]
        for name in names:
            if name in _rules:
                return _rules[name](sch, block)
        self._task_logger().warning(
            "No custom rule for block %r: none of %s is registered", sch.get(block).name_hint, names
        )
        sch.unannotate(block, SCHEDULE_RULE)
        return [sch]
