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
        self._buckets: dict[int, list[tuple[str, Workload]]] = {}
        self._size = 0

    def update(self, workloads: Sequence[Workload]) -> None:
        """Add what is new of all workloads of a database, in the order of their commit."""
        for workload in workloads[self._size :]:
            bucket = self._buckets.setdefault(self._equality.hash(unnamed(workload.mod)), [])
            bucket.append((self._key_of(workload.mod), workload))
        self._size = len(workloads)

    def like(self, mod: IRModule, where: Callable[[Workload], bool]) -> list[tuple[str, Workload]]:
        """Return the workloads that are the same as a program and satisfy `where`, with their keys.

        `where` is asked first, because comparing programs takes longer.
        """
        asked = unnamed(mod)
        return [
            (key, workload)
            for key, workload in self._buckets.get(self._equality.hash(asked), ())
            if where(workload) and self._equality.equal(unnamed(workload.mod), asked)
        ]
