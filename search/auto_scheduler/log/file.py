"""Logs of measurements in Ansor's format: read, written, and searched for the best."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from codegen import Target
from codegen.target import as_target
from search.auto_scheduler.log.record import (
    MeasureInput,
    MeasureRecord,
    MeasureResult,
    dump_record_to_string,
    line_decoder,
)
from search.auto_scheduler.workload_registry import compatible_factor
from search.database.best_records import winner_first
from search.database.target_key import target_key
from search.errors import TuningError
from search.records.appended_file import PathLike
from search.records.record_files import RecordFiles

logger = logging.getLogger("auto_scheduler")


def _no_log(given: object) -> TuningError:
    return TuningError(
        "logs are given as paths, or as records (MeasureInput, MeasureResult), got "
        f"{type(given).__name__} {given!r}"
    )


LOGS: Final[RecordFiles[MeasureRecord]] = RecordFiles(
    line_decoder, dump_record_to_string, (MeasureInput, MeasureResult), _no_log, logger
)


class RecordReader(os.PathLike[str]):
    """The records of a log, read anew each time.

    Lines that are no records, a last one that was cut short say, are left out, and a warning counts
    them and names the first. OSError for a log that cannot be opened.
    """

    def __init__(self, filename: PathLike) -> None:
        self.filename = os.fspath(filename)

    def __fspath__(self) -> str:
        return self.filename

    def __iter__(self) -> Iterator[MeasureRecord]:
        return LOGS.load(self.filename)

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Return the inputs and the results of at most `max_lines` records after `skip_lines`."""
        limit = None if max_lines is None or max_lines < 0 else skip_lines + max_lines
        records = list(islice(self, skip_lines, limit))
        return [record.input for record in records], [record.result for record in records]


def load_records(filename: PathLike) -> Iterator[MeasureRecord]:
    """Yield the (input, result) of a log; see `RecordReader`."""
    return LOGS.load(filename)


def placed_records(
    records: Any, n_lines: int | None = None
) -> Iterator[tuple[str, Iterator[tuple[str, MeasureRecord]]]]:
    """Yield each log by name with its records, the first `n_lines` (None: all), and their places.

    TuningError for what is neither a log nor records.
    """
    if n_lines is not None and n_lines < 0:
        raise TuningError(f"n_lines is at least 0, or None for all records, got {n_lines}")
    for name, placed in LOGS.sources(records):
        yield name, ((place, MeasureRecord(*one)) for place, one in islice(placed, n_lines))


def save_records(
    filename: PathLike, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
) -> None:
    """Append measurements to a log, each line in one write."""
    if len(inputs) != len(results):
        raise TuningError(f"got {len(inputs)} inputs but {len(results)} results")
    LOGS.append(filename, zip(inputs, results, strict=True))


def load_best_record(
    filename: PathLike,
    workload_key: str | None = None,
    target: str | Target | None = None,
    include_compatible: bool = False,
) -> tuple[MeasureInput, MeasureResult] | tuple[None, None]:
    """Return the best valid record of a log, (None, None) without one.

    Without a key records of all workloads compete. A target is met by records for any of its kind,
    as in Ansor. With `include_compatible` those of compatible workloads count with their time
    multiplied by the factor of `compatible_factor`.
    """
    kind = None if target is None else as_target(target).kind
    best: MeasureRecord | None = None
    least = math.inf
    for record in best_of_each(load_records(filename)):
        factor = _factor(workload_key, record.input.task.workload_key, include_compatible)
        if factor is None or kind not in (None, record.target.kind):
            continue
        if record.mean_seconds * factor < least:
            best, least = record, record.mean_seconds * factor
    return (None, None) if best is None else (best.input, best.result)


def distill_record_file(in_file: PathLike, out_file: PathLike) -> int:
    """Write the best record of each workload and target of a log to a file; return how many.

    Records that the file has already compete, and nobody ever sees half of it.
    """
    kept, given = LOGS.reduce(in_file, out_file, best_of_each)
    logger.info("kept %d best record(s) of %d in %s", kept, given, out_file)
    return kept


def best_of_each(records: Iterable[MeasureRecord]) -> Iterator[MeasureRecord]:
    """Yield the best valid record of each workload and target; see `best_first`."""
    for group in best_first(records):
        yield from group[:1]


def best_first(records: Iterable[MeasureRecord]) -> Iterator[list[MeasureRecord]]:
    """Yield the valid records of each workload and target, best first.

    Of several measurements of the same steps the last counts, and the winner that a search named
    comes before the fastest: see `winner_first`.
    """
    groups: dict[tuple[str, str], list[MeasureRecord]] = {}
    for record in records:
        key = (record.input.task.workload_key, target_key(record.target))
        groups.setdefault(key, []).append(record)
    for group in groups.values():
        yield winner_first(group)


def _factor(wanted: str | None, recorded: str, include_compatible: bool) -> float | None:
    if wanted is None or wanted == recorded:
        return 1.0
    return compatible_factor(wanted, recorded) if include_compatible else None
