"""Records that can be used: one that cannot costs itself only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from schedule import Schedule, Trace
    from search.database.records import TuningRecord

T = TypeVar("T")

logger = logging.getLogger("tensorir.search")


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
    somebody has edited it. One warning in a process says so, and where it is.
    """
    for record in records:
        try:
            result = use(record)
        except TensorIRError as error:
            _warn(record, error)
        else:
            yield record, result


def _warn(record: TuningRecord, error: TensorIRError) -> None:
    place = record.place or _described(record)
    told: Hashable = record.place or record
    if told in _told:
        return
    _told.add(told)
    reason = str(error).strip().partition("\n")[0].removeprefix(f"{place}: ")
    logger.warning(
        "%s: the record is left out, its trace does not apply any more: %s; "
        "tune the program again, or see database.validate() for all such records",
        place,
        reason,
    )


def _described(record: TuningRecord) -> str:
    time = f"{record.mean_seconds * 1e6:.4g} us" if record.run_secs else "no time"
    return f"a record of workload {record.workload.shash} with {time}"


_told: Final[set[Hashable]] = set()
"""What was warned of: places, and records in memory. There are few, as each is a damaged one."""
