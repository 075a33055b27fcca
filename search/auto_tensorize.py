"""The reason why a block could not become a tensor intrinsic."""

from __future__ import annotations

from schedule import ScheduleError


def refusal_reason(error: ScheduleError) -> str:
    """Return why a block could not become an intrinsic, without the programs that errors show."""
    reason = error.values.get("reason")
    return reason if isinstance(reason, str) else error.message
