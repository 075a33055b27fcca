"""Workloads in memory, in order and by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from search.database.records import Workload


class WorkloadTable:
    """Workloads by their place, in the order of their commit, and those under one key."""

    def __init__(self) -> None:
        self._rows: list[Workload] = []
        self._keys: list[str] = []
        self._places: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> Workload:
        return self._rows[place]

    def key(self, place: int) -> str:
        """Return the key of the workload at a place."""
        return self._keys[place]

    def under(self, key: str | None) -> Sequence[Workload]:
        """Return the workloads under a key in the order of their commit; all without a key."""
        if key is None:
            return list(self._rows)
        return [self._rows[place] for place in self._places.get(key, ())]

    def find(self, key: str, workload: Workload) -> int | None:
        """Return the place of the workload with the same script under a key, None without one."""
        for place in self._places.get(key, ()):
            known = self._rows[place]
            if known is workload or known.script == workload.script:
                return place
        return None

    def add(self, key: str, workload: Workload) -> int:
        """Add a workload under a key and return its place."""
        self._places.setdefault(key, []).append(len(self._rows))
        self._rows.append(workload)
        self._keys.append(key)
        return len(self._rows) - 1
