"""Workloads in memory, in order and by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search.errors import DatabaseError

if TYPE_CHECKING:
    from search.database.records import Workload


class WorkloadTable:
    """Workloads by their place, in the order of their commit, and those under one key.

    A place may be empty: that of a line that holds no workload, which other places count on.
    """

    def __init__(self) -> None:
        self._rows: list[Workload | None] = []
        self._keys: list[str] = []
        self._places: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> Workload:
        workload = self._rows[place]
        if workload is None:
            raise DatabaseError(f"its workload, number {place}, could not be read")
        return workload

    def key(self, place: int) -> str:
        """Return the key of the workload at a place."""
        return self._keys[place]

    def under(self, key: str | None) -> Sequence[Workload]:
        """Return the workloads under a key in the order of their commit; all without a key."""
        if key is None:
            return [workload for workload in self._rows if workload is not None]
        return [self[place] for place in self._places.get(key, ())]

    def find(self, key: str, workload: Workload) -> int | None:
        """Return the place of the workload with the same script under a key, None without one."""
        for place in self._places.get(key, ()):
            known = self[place]
            if known is workload or known.script == workload.script:
                return place
        return None

    def add(self, key: str, workload: Workload) -> int:
        """Add a workload under a key and return its place."""
        self._places.setdefault(key, []).append(len(self._rows))
        self._rows.append(workload)
        self._keys.append(key)
        return len(self._rows) - 1

    def add_empty(self) -> None:
        """Add an empty place."""
        self._rows.append(None)
        self._keys.append("")
