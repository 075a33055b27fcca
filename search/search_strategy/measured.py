"""The candidates that a search has measured so far, fastest first."""

from __future__ import annotations

import statistics

from search.search_strategy.individual import Individual, Key


class Measured:
    """The individuals that ran, with their seconds; one that is entered again gets the new time."""

    def __init__(self) -> None:
        self._entries: dict[Key, tuple[float, Individual]] = {}
        self.twins: set[int] = set()
        """The numbers that others share which are the same to the model; see `Individual.twins`."""

    def add(self, individual: Individual, seconds: float) -> None:
        """Enter an individual; its program is dropped, since few are asked for again."""
        individual.sch, individual.is_complete = None, False
        self._entries[individual.key] = (seconds, individual)
        self.twins.add(individual.twins)

    def best(self, count: int) -> list[Individual]:
        """Return the `count` fastest, those that are as fast in the order of their measurement."""
        ranked = sorted(self._entries.values(), key=lambda entry: entry[0])
        return [individual for _, individual in ranked[:count]]

    def typical_seconds(self) -> float:
        """Return the median of the seconds a call, 0 before the first measurement."""
        times = [seconds for seconds, _ in self._entries.values()]
        return statistics.median(times) if times else 0.0

    def __len__(self) -> int:
        return len(self._entries)
