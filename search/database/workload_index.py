"""Workloads by their hashes under an equality that is not that of their database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from search.database.module_equality import ModuleEquality, unnamed

if TYPE_CHECKING:
    from search.database.records import Workload
    from tensorir.function import IRModule


class WorkloadIndex:
    """Finds the workloads that are like a program; each is hashed once.

    `key_of` gives the key that a program has in the database.
    """

    def __init__(self, equality: ModuleEquality, key_of: Callable[[IRModule], str]) -> None:
        self._equality = equality
        self._key_of = key_of
        self._buckets: dict[int, list[Workload]] = {}
        self._keys: dict[Workload, str] = {}
        self._size = 0

    def update(self, workloads: Sequence[Workload]) -> None:
        """Add what is new of all workloads of a database, in the order of their commit."""
        for workload in workloads[self._size :]:
            key = self._equality.hash(unnamed(workload.mod))
            self._buckets.setdefault(key, []).append(workload)
        self._size = len(workloads)

    def like(self, mod: IRModule, where: Callable[[Workload], bool]) -> list[tuple[str, Workload]]:
        """Return the workloads that are the same as a program and satisfy `where`, with their keys.

        `where` is asked first, because comparing programs takes longer.
        """
        asked = unnamed(mod)
        return [
            (self._key(workload), workload)
            for workload in self._buckets.get(self._equality.hash(asked), ())
            if where(workload) and self._equality.equal(unnamed(workload.mod), asked)
        ]

    def _key(self, workload: Workload) -> str:
        key = self._keys.get(workload)
        if key is None:
            key = self._keys[workload] = self._key_of(workload.mod)
        return key
