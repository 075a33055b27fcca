"""The mark that separates sampling from postprocessing."""

from __future__ import annotations

from schedule.instruction import primitive
from schedule.state import ScheduleState


@primitive("EnterPostproc")
def enter_postproc(state: ScheduleState) -> None:
    """Mark that what follows is postprocessing, which mutation drops and redoes.

    The program at the first mark is kept as `state.before_postproc`.
    """
    if state.before_postproc is None:
        state.before_postproc = state.mod
