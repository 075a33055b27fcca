"""Records that can be used: one that cannot costs itself only."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from schedule import Schedule, Trace
    from search.database.records import TuningRecord

T = TypeVar("T")

_MOST_NAMED: Final = 5
_LONGEST: Final = 160
"""Letters of a reason."""

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
