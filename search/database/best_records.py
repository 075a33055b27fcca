"""The order of records: the best of several, and the one that counts of those of a trace."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from search.database.target_key import target_key

if TYPE_CHECKING:
    from codegen import Target
    from search.database.records import TuningRecord, Workload


class Measured(Protocol):
    """A record with its measurement: those of a database are, and the lines of a log."""

    @property
    def target(self) -> Target | None:
        """The target that it was measured for."""

    @property
    def trace_key(self) -> bytes:
        """The key that two records share if they did the same."""

    @property
    def run_secs(self) -> Sequence[float] | None:
        """Seconds per call."""

    @property
    def mean_seconds(self) -> float:
        """The mean of them."""

    @property
    def is_valid(self) -> bool:
        """True if it does something and ran."""


R = TypeVar("R", bound=Measured)


RIVAL: Final = 1.15
"""The factor to the best time up to which a candidate may still turn out to be the best."""


def those_that_count(records: Iterable[R]) -> list[R]:
    """Return the last record of each trace and target; all records are of one workload."""
    last: dict[Hashable, R] = {}
    for record in records:
        key = _key(record)
        last.pop(key, None)
        last[key] = record
    return list(last.values())


def best_records(records: Iterable[R], count: int) -> list[R]:
    """Return the fastest valid records of one workload, best first; of equal ones the first."""
    valid = [record for record in those_that_count(records) if record.is_valid]
    return sorted(valid, key=lambda record: record.mean_seconds)[:count]


def winner_first(records: Iterable[R]) -> list[R]:
    """Return all valid records of one workload, best first, and before them the named winner.

    A search ends with measuring the best few again, and commits the one that it names the winner
    last: that is the record which was measured again last. Being chosen for a low time, it takes
    longer when it is measured again, as others would that were measured once. So it stands, unless
    one is faster than it ever was, by more than luck explains (`RIVAL`).
    """
    records = list(records)
    best = best_records(records, len(records))
    winner = _measured_again_last(records)
    if winner is None or winner[-1] not in best:
        return best
    if min(record.mean_seconds for record in winner) < RIVAL * best[0].mean_seconds:
        best.remove(winner[-1])
        best.insert(0, winner[-1])
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


def _measured_again_last(records: Sequence[R]) -> list[R] | None:
    """Return the measurements of the trace that was measured again last, None without one.

    A copy of a record is no further measurement.
    """
    measurements: dict[Hashable, list[R]] = {}
    again = None
    for record in records:
        known = measurements.setdefault(_key(record), [])
        if known and known[-1].run_secs == record.run_secs:
            known[-1] = record
            continue
        known.append(record)
        if len(known) > 1:
            again = known
    return again


def _key(record: Measured) -> Hashable:
    return (None if record.target is None else target_key(record.target), record.trace_key)
