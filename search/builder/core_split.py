"""The division of the cores of this machine between measuring and building."""

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
from codegen.kept_files import private_folder
from codegen.target import host
from search.lines import take_lock

logger = logging.getLogger("tensorir.search")

_PARENT: Final = Path("/tmp")
"""The folder does not depend on `TMPDIR`, so that all processes of this user share it."""
_locks: Final[list[int]] = []


@dataclass(frozen=True)
class CoreSplit:
    """The logical cores that measure and that build, while candidates run on one core."""

    measuring: frozenset[int]
    building: frozenset[int]
    others: frozenset[int] = frozenset()
    """The cores of other measurements of this process."""

    def bind_measuring(self, target: Target) -> None:
        """Bind this thread to the cores that measure candidates for a target."""
        if target.num_cores == 1:
            os.sched_setaffinity(0, self.measuring)

    def bind_building(self, target: Target) -> None:
        """Bind this thread to the cores that build candidates for a target."""
        if target.num_cores == 1:
            os.sched_setaffinity(0, self.building)

    def release(self) -> None:
        """Let this thread, and the threads that it starts, run on all cores."""
        os.sched_setaffinity(0, self.measuring | self.building | self.others)


@cache
def core_split() -> CoreSplit | None:
    """Return the split of this process; None if it has one core or this is not Linux.

    No two searches of a user measure on the same core: each holds the lock of a file for its core,
    which ends with the process. The files are in a folder that only this user may write to. So
    searches of other users, and in containers with another /tmp, do not see these locks.
    """
    return next(iter(core_splits(1)), None)


def core_splits(most: int) -> list[CoreSplit]:
    """Return splits for up to `most` simultaneous measurements, each with its own core.

    There are fewer if other searches measure on the cores; at least one core remains for builds,
    which all splits share. The process keeps its cores until it ends.
    """
    if sys.platform != "linux":
        return []
    cores = host.core_groups()
    usable = min(len(cores), host.physical_cores())
    free = list(reversed(cores))
    claimed: list[frozenset[int]] = []
    while free and len(claimed) < min(most, usable - 1):
        core = _claim(free)
        if core is None:
            break
        claimed.append(core)
        free = free[free.index(core) + 1 :]
    rest = frozenset(cpu for core in cores for cpu in core if core not in claimed)
    taken = frozenset(cpu for core in claimed for cpu in core)
    one = [frozenset([min(core)]) for core in claimed]
    return [CoreSplit(core, rest, taken - core) for core in one]


def _claim(cores: Iterable[frozenset[int]]) -> frozenset[int] | None:
    """Return the first core without a lock, or the first core if no lock can be made."""
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
