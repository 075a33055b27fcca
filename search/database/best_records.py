"""Which of several records counts, and which are the best."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Final

from search.database.target_key import target_key

if TYPE_CHECKING:
    from search.database.records import TuningRecord, Workload


RIVAL: Final = 1.15
"""How many times as slow as the best a candidate may be that may turn out to be the best."""


def those_that_count(records: Iterable[TuningRecord]) -> list[TuningRecord]:
    """Return the last record of each trace and target; all records are of one workload."""
    return list(_counting(records))


def best_records(records: Iterable[TuningRecord], count: int) -> list[TuningRecord]:
    """Return the fastest valid records of one workload, best first; of equal ones the first.

    A search ends with measuring the best few again, and commits the one that it names the winner
    last. The record that was measured again last is therefore the best, though others, measured
    once, may have been lucky; unless one is faster by more than luck explains (`RIVAL`).
    """
    counting = _counting(records)
    best = sorted((r for r in counting if r.is_valid), key=lambda r: r.mean_seconds)
    winner = next((r for r in reversed(counting) if counting[r]), None)
    if winner in best and winner.mean_seconds < RIVAL * best[0].mean_seconds:
        best.remove(winner)
        best.insert(0, winner)
    return best[:count]


def best_of_each(
    records: Iterable[TuningRecord], count: int, workload_key: Callable[[Workload], str]
) -> list[TuningRecord]:
    """Return the `count` fastest valid records of each workload and target, best first."""
    keys: dict[Workload, str] = {}
    groups: dict[tuple[str, str | None], list[TuningRecord]] = {}
    for record in records:
        key = keys.get(record.workload)
        if key is None:
            key = keys[record.workload] = workload_key(record.workload)
        target = None if record.target is None else target_key(record.target)
        groups.setdefault((key, target), []).append(record)
    return [best for group in groups.values() for best in best_records(group, count)]


def _counting(records: Iterable[TuningRecord]) -> dict[TuningRecord, bool]:
    """Return the records that count, and whether their traces were measured more than once.

    They are in the order of their commit. A copy of a record is no further measurement.
    """
    last: dict[Hashable, tuple[TuningRecord, bool]] = {}
    for record in records:
        target = None if record.target is None else target_key(record.target)
        key = (target, record.trace_key)
        before, again = last.pop(key, (record, False))
        last[key] = (record, again or before.run_secs != record.run_secs)
    return dict(last.values())
