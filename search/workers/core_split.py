"""Keeping the core that measures quiet: builds go on beside it on the others."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

from codegen import Target, host

_claims: Final[list[socket.socket]] = []


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
    """Return how this process splits its cores; None if it has one or this is not Linux.

    The measuring core is one that no other search on this machine measures on. It is claimed by a
    name in the system's abstract sockets, which goes with this process, however that ends.
    """
    if sys.platform != "linux":
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
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0tune_measures_on_core_{min(core)}")
        except OSError:
            claim.close()  # another search measures on this core
        else:
            _claims.append(claim)
            return core
    return None
