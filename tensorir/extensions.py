"""Extension points: functions of higher layers that are found by their package metadata.

An extension point is a group of entry points. A package registers an implementation in its metadata
when it is installed, and is imported when the point is first used. A package that runs from its
sources without being installed registers none.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Any, Final

KERNEL_RUNNER: Final = "tensorir.kernel_runner"
"""Runs tensor functions while a module is transformed: `tensorir.transform.kernel_runner`."""
LIBRARY_CALLER: Final = "tensorir.library_caller"
"""Calls library functions of interpreted programs: `tensorir.nodes.packed_call.LibraryCaller`."""
SCHEDULES: Final = "tensorir.schedules"
"""Creates schedules for functions without a tuning record: `codegen.history.Schedules`."""
EXPLORER: Final = "tensorir.explorer"
"""Shows schedules: `search.explorer.Explorer`."""


def entry_point(group: str) -> metadata.EntryPoint | None:
    """Return the first entry point of a group; None if no package registers one."""
    return next(iter(metadata.entry_points(group=group)), None)


@cache
def extension(group: str) -> Any | None:
    """Return the implementation of an extension point; None if no package registers one."""
    entry = entry_point(group)
    return None if entry is None else entry.load()
