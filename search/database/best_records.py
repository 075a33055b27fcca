"""Which of several records counts, and which are the best."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING

from search.database.target_key import target_key

if TYPE_CHECKING:
    from search.database.records import TuningRecord, Workload


def those_that_count(records: Iterable[TuningRecord]) -> list[TuningRecord]:
    """Return the last record of each trace and target; all records are of one workload."""
    last: dict[Hashable, TuningRecord] = {}
    for record in records:
        target = None if record.target is None else target_key(record.target)
        key = (target, record.trace_key)
        last.pop(key, None)
        last[key] = record
    return list(last.values())


def best_records(records: Iterable[TuningRecord], count: int) -> list[TuningRecord]:
    """Return the fastest valid records of one workload, best first; of equal ones the first."""
    valid = [record for record in those_that_count(records) if record.is_valid]
    return sorted(valid, key=lambda record: record.mean_seconds)[:count]


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
