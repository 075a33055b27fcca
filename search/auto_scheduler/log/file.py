"""Logs of measurements in Ansor's format: read, written, and searched for the best."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from codegen import Target
from codegen.target import as_target
from search.auto_scheduler.log.compatible_workload import compatible_factor
from search.auto_scheduler.log.record import (
    MeasureInput,
    MeasureRecord,
    MeasureResult,
    dump_record_to_string,
    line_decoder,
)
from search.database.best_records import winner_first
from search.database.target_key import target_key
from search.errors import TuningError
from search.records.appended_file import PathLike, append_lines, locked, replace_lines
from search.records.record_lines import numbered_records

logger = logging.getLogger("auto_scheduler")


class RecordReader:
    """The records of a log, read anew each time.

    Lines that are no records, a last one that was cut short say, are left out, and a warning counts
    them and names the first. OSError for a log that cannot be opened.
    """

    def __init__(self, filename: PathLike) -> None:
        self.filename = os.fspath(filename)

    def __iter__(self) -> Iterator[MeasureRecord]:
        for _, record in self.numbered():
            yield record

    def numbered(self) -> Iterator[tuple[int, MeasureRecord]]:
        """Yield the records with the numbers of their lines, from 1."""
        with open(self.filename, encoding="utf-8", errors="replace") as file:
            yield from numbered_records(file, line_decoder(), logger)

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Return the inputs and the results of at most `max_lines` records after `skip_lines`."""
        limit = None if max_lines is None or max_lines < 0 else skip_lines + max_lines
        records = list(islice(self, skip_lines, limit))
        return [record.input for record in records], [record.result for record in records]


def load_records(filename: PathLike) -> Iterator[MeasureRecord]:
    """Yield the (input, result) of a log; see `RecordReader`."""
    return iter(RecordReader(filename))


def save_records(
    filename: PathLike, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
) -> None:
    """Append measurements to a log, each line in one write."""
    if len(inputs) != len(results):
        raise TuningError(f"got {len(inputs)} inputs but {len(results)} results")
    append_lines(filename, map(dump_record_to_string, inputs, results))


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
    factors: dict[str, float | None] = {}
    for record in best_of_each(load_records(filename)):
        key = record.input.task.workload_key
        if key not in factors:
            factors[key] = _factor(workload_key, key, include_compatible)
        factor = factors[key]
        if factor is None or kind not in (None, record.target.kind):
            continue
        if record.mean_seconds * factor < least:
            best, least = record, record.mean_seconds * factor
    return (None, None) if best is None else (best.input, best.result)


def distill_record_file(in_file: PathLike, out_file: PathLike) -> int:
    """Write the best record of each workload and target of a log to a file; return how many.

    Records that the file has already compete, and nobody ever sees half of it. Nobody else writes
    to it meanwhile: of several processes that distill into one file none loses what another one has
    put there.
    """
    new = list(load_records(in_file))
    with locked(out_file):
        records = [*load_records(out_file), *new]
        best = list(best_of_each(records))
        replace_lines(out_file, (dump_record_to_string(*record) for record in best))
    logger.info("kept %d best record(s) of %d in %s", len(best), len(records), out_file)
    return len(best)


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
