"""The best of several records, the latest record of a trace, and the records that still replay."""

from __future__ import annotations

import logging
import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from search.database.target_key import target_key
from search.lines import named_refusals
from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from codegen import Target
    from schedule import Schedule, Trace
    from search.database.records import TuningRecord

T = TypeVar("T")

_LONGEST: Final = 160
"""Letters of a reason."""

logger = logging.getLogger("tensorir.search")


class _Measured(Protocol):
    """A record with its measurement: a `TuningRecord`, or a line of a log."""

    @property
    def target(self) -> Target | None: ...

    @property
    def trace_key(self) -> bytes: ...

    @property
    def run_secs(self) -> Sequence[float] | None: ...

    @property
    def mean_seconds(self) -> float: ...

    @property
    def is_valid(self) -> bool: ...


R = TypeVar("R", bound=_Measured)


RIVAL: Final = 1.15
"""A candidate whose time is below this multiple of the best time may still be the best."""


def latest_records(records: Iterable[R]) -> list[R]:
    """Return the last record of each trace and target; all records are of one workload."""
    last: dict[Hashable, R] = {}
    for record in records:
        key = _key(record)
        last.pop(key, None)
        last[key] = record
    return list(last.values())


def best_records(records: Iterable[R], count: int) -> list[R]:
    """Return the fastest valid records of one workload, best first; of equal ones the first."""
    valid = [record for record in latest_records(records) if record.is_valid]
    return sorted(valid, key=lambda record: record.mean_seconds)[:count]


def winner_first(records: Iterable[R]) -> list[R]:
    """Return all valid records of one workload, best first, but the winner of a search before them.

    A search ends by re-measuring the best few candidates, and commits the winner last: its trace is
    the one that was re-measured last. A candidate that was chosen for a low time is slower on
    average when it is measured again, and the same would hold for candidates that were measured
    only once. Therefore the winner stays first, unless a later record is faster than all
    measurements of the winner by more than noise explains (`RIVAL`).
    """
    records = list(records)
    best = best_records(records, len(records))
    winner = _last_remeasured(records)
    if not winner or winner[-1] not in best:
        return best
    later = [record for record in records[records.index(winner[-1]) + 1 :] if record.is_valid]
    fastest = min((record.mean_seconds for record in later), default=math.inf)
    if min(record.mean_seconds for record in winner) < RIVAL * fastest:
        best.remove(winner[-1])
        best.insert(0, winner[-1])
    return best


def _last_remeasured(records: Sequence[R]) -> list[R]:
    """Return the measurements of the trace that was re-measured last.

    A copy of a record is not another measurement.
    """
    measurements: dict[Hashable, list[R]] = {}
    last: list[R] = []
    for record in records:
        known = measurements.setdefault(_key(record), [])
        if known and known[-1].run_secs == record.run_secs:
            known[-1] = record
            continue
        known.append(record)
        if len(known) > 1:
            last = known
    return last


def _key(record: _Measured) -> Hashable:
    return (None if record.target is None else target_key(record.target), record.trace_key)


def with_traces(records: Iterable[TuningRecord]) -> Iterator[tuple[TuningRecord, Trace]]:
    """Yield the records whose traces can be read, with their traces."""
    return usable(records, lambda record: record.trace)


def with_schedules(records: Iterable[TuningRecord]) -> Iterator[tuple[TuningRecord, Schedule]]:
    """Yield the records whose traces apply to their programs, with their schedules."""
    return usable(records, lambda record: record.schedule())


def usable(
    records: Iterable[TuningRecord], use: Callable[[TuningRecord], T]
) -> Iterator[tuple[TuningRecord, T]]:
    """Yield each record for which `use` succeeds, with its result.

    A record for which it raises TensorIRError is skipped: another version made it, or it was
    edited. One warning names such records, each once in a process.
    """
    refused: list[str] = []
    try:
        for record in records:
            try:
                result = use(record)
            except TensorIRError as error:
                key: Hashable = record.place or record
                if key not in _reported:
                    _reported.add(key)
                    refused.append(_fault(record, error))
            else:
                yield record, result
    finally:
        if refused:
            logger.warning(
                "left out %d record(s) whose traces do not apply any more: %s; tune the program "
                "again, or see database.validate() for all such records",
                len(refused),
                named_refusals(refused),
            )


def _fault(record: TuningRecord, error: TensorIRError) -> str:
    """Return the place and the fault of a record."""
    time = f"{record.mean_seconds * 1e6:.4g} us" if record.run_secs else "no time"
    place = record.place or f"a record of workload {record.workload.shash} with {time}"
    reason = str(error).strip().partition("\n")[0].removeprefix(f"{place}: ")
    return f"{place}: {textwrap.shorten(reason, _LONGEST, placeholder=' ...')}"


_reported: Final[set[Hashable]] = set()
"""The places and records of earlier warnings, which are few, because damaged records are rare."""
