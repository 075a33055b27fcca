"""Keeping the core that measures quiet: builds go on beside it on the others."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from codegen import Target, host


@dataclass(frozen=True)
class CoreSplit:
    """Which logical cores measure and which build, while candidates run on one core."""

    measuring: frozenset[int]
    building: frozenset[int]

    def bind_measuring(self, target: Target) -> None:
        """Bind this thread to where candidates for a target are measured."""
        if target.num_cores == 1:
            os.sched_setaffinity(0, self.measuring)

    def bind_building(self, target: Target) -> None:
        """Bind this thread to where candidates for a target are built."""
        if target.num_cores == 1:
            os.sched_setaffinity(0, self.building)

    def release(self) -> None:
        """Let this thread run anywhere; what it starts later, too."""
        os.sched_setaffinity(0, self.measuring | self.building)


@cache
def core_split() -> CoreSplit | None:
    """Return how this process splits its cores; None if it has one or the system cannot bind.

    The measuring core is one that no other search on this machine measures on. It is claimed, until
    this process ends, by the lock on a file in the temporary directory.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    cores = host.core_groups()
    if len(cores) < 2:
        return None
    claimed = _claimed(reversed(cores))
    if claimed is None:
        return None
    rest = frozenset(cpu for core in cores for cpu in core if core is not claimed)
    return CoreSplit(frozenset([min(claimed)]), rest)


def _claimed(cores: Iterable[frozenset[int]]) -> frozenset[int] | None:
    for core in cores:
        path = Path(tempfile.gettempdir()) / f"tune_measures_on_core_{min(core)}"
        try:
            lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        except OSError:
            continue  # another user's search was there first
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return core
    return None
