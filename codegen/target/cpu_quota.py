"""The share of the CPU that the system lets this process use: quotas of its control groups (Linux).

A container with two cores of sixteen may run on all sixteen, for two cores' worth of time; what
uses more is stopped for a while, which no measurement survives.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_MOUNTS: Final = Path("/sys/fs/cgroup")


@cache
def core_quota() -> int | None:
    """Return how many cores the quotas come to, rounded down but at least 1; None without any."""
    return quota_of(_MEMBERSHIP, _MOUNTS)


def quota_of(membership: Path, mounts: Path) -> int | None:
    """Return `core_quota` by a file like /proc/self/cgroup and the place where groups are mounted.

    Of nested groups the tightest counts. Version 2 of control groups is read and version 1.
    """
    found = [cores for folder in _folders(membership, mounts) for cores in _quotas(folder)]
    return max(1, int(min(found))) if found else None


def _folders(membership: Path, mounts: Path) -> Iterator[Path]:
    """Yield the folders of the groups this process is in, and of those around them."""
    for line in system_text(membership).splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if hierarchy == "0" and not controllers:
            roots = [mounts, mounts / "unified"]
        elif "cpu" in controllers.split(","):
            roots = [mounts / controllers, mounts / "cpu"]
        else:
            continue
        parts = [part for part in group.split("/") if part not in ("", "..")]
        for root in roots:
            # A container may see its own group only, as the root.
            yield from (root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1))


def _quotas(folder: Path) -> Iterator[float]:
    limits = [system_text(folder / "cpu.max").split()]
    limits.append([system_text(folder / f"cpu.cfs_{what}_us") for what in ("quota", "period")])
    for limit in limits:
        if len(limit) == 2 and all(word.isdecimal() for word in limit) and int(limit[1]) > 0:
            yield int(limit[0]) / int(limit[1])


def system_text(path: Path) -> str:
    """Return what a file of the system says, stripped; nothing where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
