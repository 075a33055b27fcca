"""Extensions that the packages above this one offer, named in their metadata.

An extension point is a group of entry points; a package that has something for it says so when it
is installed, and is imported when the point is first used. A package that runs from its sources
without being installed offers nothing.
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
"""Makes schedules of functions without a record: `codegen.history.Schedules`."""
EXPLORER: Final = "tensorir.explorer"
"""Shows schedules: `search.explorer.Explorer`."""


def entry_point(group: str) -> metadata.EntryPoint | None:
    """Return the entry point of an extension point, the first of several; None for nothing."""
    return next(iter(metadata.entry_points(group=group)), None)


@cache
def extension(group: str) -> Any | None:
    """Return what is offered for an extension point; None for nothing."""
    entry = entry_point(group)
    return None if entry is None else entry.load()
