"""Marks in a trace: where postprocessing begins, where a composite begins and ends."""

from __future__ import annotations

from typing import Final

from schedule.instruction import primitive
from schedule.state import ScheduleState

ENTER_COMPOSITE: Final = "EnterComposite"
EXIT_COMPOSITE: Final = "ExitComposite"


@primitive("EnterPostproc")
def enter_postproc(state: ScheduleState) -> None:
    """Mark that postprocessing follows, which mutation drops and repeats.

    The program at the first mark is stored as `state.before_postproc`.
    """
    if state.before_postproc is None:
        state.before_postproc = state.mod


@primitive(ENTER_COMPOSITE)
def enter_composite(state: ScheduleState, name: str, arguments: str = "") -> None:
    """Mark that the instructions of a composite follow; see `Schedule.composite`.

    `name` is that of the composite, `arguments` the text of its arguments.
    """


@primitive(EXIT_COMPOSITE)
def exit_composite(state: ScheduleState) -> None:
    """Mark that the instructions of the composite that was entered last end here."""
