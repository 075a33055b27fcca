"""Keeping the core that measures quiet: builds go on beside it on the others."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from codegen import Target
from codegen.cache_folder import private_folder
from codegen.target import host
from search.lines import take_lock

logger = logging.getLogger("tensorir.search")

_PARENT: Final = Path("/tmp")
"""Not what `TMPDIR` says: it is for all processes of this user."""
_locks: Final[list[int]] = []


@dataclass(frozen=True)
class CoreSplit:
    """The logical cores that measure and those that build, while candidates run on one core."""

    measuring: frozenset[int]
    building: frozenset[int]
    others: frozenset[int] = frozenset()
    """Those that other measurements of this process have."""

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
        os.sched_setaffinity(0, self.measuring | self.building | self.others)


@cache
def core_split() -> CoreSplit | None:
    """Return how this process splits its cores; None if it has one or this is not Linux.

    The measuring core is one that no other search of this user measures on. It is claimed by the
    lock of a file, which goes with this process, however that ends. The file is in a folder that
    only this user may write to, so that nobody else can hold it or put another one in its place;
    so two users of a machine, and containers with temporary folders of their own, do not see one
    another's claims.
    """
    return next(iter(core_splits(1)), None)


def core_splits(most: int) -> list[CoreSplit]:
    """Return splits for so many measurements at the same time, each with a core of its own.

    There are fewer where other searches measure on the cores, or where no core would be left that
    builds: all of them build on the same. A process that has some keeps them for its life.
    """
    if sys.platform != "linux":
        return []
    cores = host.core_groups()
    usable = min(len(cores), host.physical_cores())
    free = list(reversed(cores))
    claimed: list[frozenset[int]] = []
    while free and len(claimed) < min(most, usable - 1):
        core = _claimed(free)
        if core is None:
            break
        claimed.append(core)
        free = free[free.index(core) + 1 :]
    rest = frozenset(cpu for core in cores for cpu in core if core not in claimed)
    taken = frozenset(cpu for core in claimed for cpu in core)
    one = [frozenset([min(core)]) for core in claimed]
    return [CoreSplit(core, rest, taken - core) for core in one]


def _claimed(cores: Iterable[frozenset[int]]) -> frozenset[int] | None:
    """Return the first core that no other search has; the first one where no lock can be made."""
    try:
        folder = private_folder(_PARENT / f"tensorir-{os.geteuid()}")
        for core in cores:
            path = folder / f"tune_measures_on_core_{min(core)}.lock"
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                take_lock(lock, wait=False)
            except BlockingIOError:
                os.close(lock)
            else:
                _locks.append(lock)
                return core
    except OSError as error:
        logger.warning("Another search may measure on the same core: %s", error)
        return next(iter(cores), None)
    return None
