"""Keeping the core that measures quiet: builds go on beside it on the others."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Final

from codegen import Target
from codegen.target import host
from search.records.file_lock import take_lock

_FOLDER: Final = Path("/tmp")
"""Not what `TMPDIR` says: it is for all processes of the machine."""
_claims: Final[list[object]] = []


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

    The measuring core is one that no other search on this machine measures on. It is claimed by
    what goes with this process, however that ends: a lock of a file, which holds among processes
    that see the same files, and a name in the system's abstract sockets, which holds in a network
    namespace. Containers that share neither do not see one another.
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
    for core in cores:
        claims = [_name(min(core)), _lock(min(core))]
        if None not in claims:
            _claims.extend(claims)
            return core
    return None


def _name(core: int) -> socket.socket | None:
    """Take the name of a core among the abstract sockets; None if another search has it."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0tune_measures_on_core_{core}")
    except OSError:
        claim.close()
        return None
    return claim


def _lock(core: int) -> IO[bytes] | str | None:
    """Lock the file of a core; None if another search has, a remark where no file can be made."""
    path = _FOLDER / f"tune_measures_on_core_{core}.lock"
    try:
        # Opened to be read: the file may be another user's.
        claim = os.fdopen(os.open(path, os.O_RDONLY | os.O_CREAT, 0o644), "rb")
    except PermissionError:
        try:
            claim = path.open("rb")
        except OSError:
            return f"{path} cannot be opened"
    except OSError:
        return f"{path} cannot be made"
    try:
        take_lock(claim.fileno(), wait=False)
    except OSError:
        claim.close()
        return None
    return claim
