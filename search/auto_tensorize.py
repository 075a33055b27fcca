"""How rules ask that a block becomes a tensor intrinsic, and why that was refused."""

from __future__ import annotations

from typing import Final

from schedule import ScheduleError

AUTO_TENSORIZE: Final = "meta_schedule.auto_tensorize"
"""The name of the intrinsic; the empty name marks the init that was separated from one."""

AUTO_TENSORIZE_INIT: Final = "meta_schedule.auto_tensorize_init"
"""The name of the intrinsic for the init of a block, for when it is separated."""


def refusal_reason(error: ScheduleError) -> str:
    """Return why a block could not become an intrinsic, without the programs that errors show."""
    reason = error.values.get("reason")
    return reason if isinstance(reason, str) else error.message
