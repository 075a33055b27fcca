"""The annotations by which rules ask that a block becomes a tensor intrinsic."""

from __future__ import annotations

from typing import Final

AUTO_TENSORIZE: Final = "meta_schedule.auto_tensorize"
"""The name of the intrinsic; the empty name marks the init that was separated from one."""

AUTO_TENSORIZE_INIT: Final = "meta_schedule.auto_tensorize_init"
"""The name of the intrinsic for the init of a block, for when it is separated."""
