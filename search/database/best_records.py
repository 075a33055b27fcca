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
    return list(_measurements(records))


def best_records(records: Iterable[TuningRecord], count: int) -> list[TuningRecord]:
    """Return the fastest valid records of one workload, best first; of equal ones the first."""
    valid = [record for record in those_that_count(records) if record.is_valid]
    return sorted(valid, key=lambda record: record.mean_seconds)[:count]


def winner_first(records: Iterable[TuningRecord]) -> list[TuningRecord]:
    """Return all valid records of one workload, best first, and before them the named winner.

    A search ends with measuring the best few again, and commits the one that it names the winner
    last: that is the record which was measured again last. Being chosen for a low time, it takes
    longer when it is measured again, as others would that were measured once. So it stands, unless
    one is faster than it ever was, by more than luck explains (`RIVAL`).
    """
    measured = _measurements(records)
    best = best_records(measured, len(measured))
    winner = next((record for record in reversed(measured) if len(measured[record]) > 1), None)
    if winner in best and min(measured[winner]) < RIVAL * best[0].mean_seconds:
        best.remove(winner)
        best.insert(0, winner)
    return best


def best_of_each(
    records: Iterable[TuningRecord], count: int, workload_key: Callable[[Workload], str]
) -> list[TuningRecord]:
    """Return the `count` best valid records of each workload and target, as `winner_first`."""
    keys: dict[Workload, str] = {}
    groups: dict[tuple[str, str | None], list[TuningRecord]] = {}
    for record in records:
        key = keys.get(record.workload)
        if key is None:
            key = keys[record.workload] = workload_key(record.workload)
        target = None if record.target is None else target_key(record.target)
        groups.setdefault((key, target), []).append(record)
    return [best for group in groups.values() for best in winner_first(group)[:count]]


def _measurements(records: Iterable[TuningRecord]) -> dict[TuningRecord, list[float]]:
    """Return the records that count, with the mean times of all measurements of their traces.

    They are in the order of their commit. A copy of a record is no further measurement.
    """
    last: dict[Hashable, tuple[TuningRecord, list[float]]] = {}
    for record in records:
        target = None if record.target is None else target_key(record.target)
        key = (target, record.trace_key)
        before, times = last.pop(key, (None, []))
        if before is None or before.run_secs != record.run_secs:
            times.append(record.mean_seconds)
        last[key] = (record, times)
    return dict(last.values())
