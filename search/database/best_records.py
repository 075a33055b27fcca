"""The records that count: the best of several, the last of a trace, those that can be used."""

from __future__ import annotations

import logging
import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from search.database.target_key import target_key
from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from codegen import Target
    from schedule import Schedule, Trace
    from search.database.records import TuningRecord, Workload

T = TypeVar("T")

_MOST_NAMED: Final = 5
_LONGEST: Final = 160
"""Letters of a reason."""

logger = logging.getLogger("tensorir.search")


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
        """True if it ran to its end."""


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
    one that was measured later is faster than it ever was, by more than luck explains (`RIVAL`).
    """
    records = list(records)
    best = best_records(records, len(records))
    winner = _measured_again_last(records)
    if winner is None or winner[-1] not in best:
        return best
    later = [record for record in records[records.index(winner[-1]) + 1 :] if record.is_valid]
    fastest = min((record.mean_seconds for record in later), default=math.inf)
    if min(record.mean_seconds for record in winner) < RIVAL * fastest:
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


def with_traces(records: Iterable[TuningRecord]) -> Iterator[tuple[TuningRecord, Trace]]:
    """Yield those of records whose traces can be read, with their traces."""
    return usable(records, lambda record: record.trace)


def with_schedules(records: Iterable[TuningRecord]) -> Iterator[tuple[TuningRecord, Schedule]]:
    """Yield those of records whose traces apply to their programs, with their schedules."""
    return usable(records, lambda record: record.schedule())


def usable(
    records: Iterable[TuningRecord], use: Callable[[TuningRecord], T]
) -> Iterator[tuple[TuningRecord, T]]:
    """Yield those of records that `use` takes, with what it returns.

    A record that it refuses by a TensorIRError is left out: it was made by another version, or
    somebody has edited it. A warning names those that this process has not named before.
    """
    refused: list[str] = []
    try:
        for record in records:
            try:
                result = use(record)
            except TensorIRError as error:
                refused += _news_of(record, error)
            else:
                yield record, result
    finally:
        _warn(refused)


def _news_of(record: TuningRecord, error: TensorIRError) -> list[str]:
    """Return the place and the fault of a record, nothing if they were warned of before."""
    told: Hashable = record.place or record
    if told in _told:
        return []
    _told.add(told)
    place = record.place or _described(record)
    reason = str(error).strip().partition("\n")[0].removeprefix(f"{place}: ")
    return [f"{place}: {textwrap.shorten(reason, _LONGEST, placeholder=' ...')}"]


def _warn(refused: list[str]) -> None:
    if refused:
        rest = len(refused) - _MOST_NAMED
        logger.warning(
            "left out %d record(s) whose traces do not apply any more: %s%s; tune the program "
            "again, or see database.validate() for all such records",
            len(refused),
            "; ".join(refused[:_MOST_NAMED]),
            f"; and {rest} more" if rest > 0 else "",
        )


def _described(record: TuningRecord) -> str:
    time = f"{record.mean_seconds * 1e6:.4g} us" if record.run_secs else "no time"
    return f"a record of workload {record.workload.shash} with {time}"


_told: Final[set[Hashable]] = set()
"""The places and records that were warned of. There are few, as each is a damaged one."""
