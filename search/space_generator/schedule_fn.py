"""The design space that a user's function writes down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from schedule import Schedule
from search.space_generator.space_generator import (
    FROM_TARGET,
    MutatorsArg,
    PostprocsArg,
    RulesArg,
    SpaceGenerator,
)
from tensorir.errors import IRTypeError

if TYPE_CHECKING:
    from tensorir.function import IRModule


@SpaceGenerator.kinds.register("schedule-fn")
class ScheduleFn(SpaceGenerator):
    """Calls `sch_fn(sch)` on a fresh schedule.

    The function transforms the schedule that it is given and returns None or a schedule, or it
    returns a list of schedules; anything else is an IRTypeError. `sch_rules` are not used.
    """

    def __init__(
        self,
        sch_fn: Callable[[Schedule], Any],
        sch_rules: RulesArg = FROM_TARGET,
        postprocs: PostprocsArg = FROM_TARGET,
        mutator_probs: MutatorsArg = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return the schedules that the function makes of `mod`."""
        sch = self.fresh_schedule(mod)
        made = self.sch_fn(sch)
        if made is None:
            return [sch]
        if isinstance(made, Schedule):
            return [made]
        if isinstance(made, list) and all(isinstance(one, Schedule) for one in made):
            return made
        raise IRTypeError(
            "a schedule function returns None, a Schedule or a list of Schedules, "
            f"{getattr(self.sch_fn, '__name__', 'this one')} returned {type(made).__name__}"
        )
