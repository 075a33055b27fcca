"""Records chosen from a log: the best of each task, or those of each task in a log of its own."""

from __future__ import annotations

import logging
import os

from search.autotvm.measure.measurement import MeasureInput
from search.autotvm.record.encoding import Record
from search.autotvm.record.log_file import load_from_file, replace_file
from search.records.appended_file import PathLike, locked
from search.records.measure_error_no import MeasureErrorNo

logger = logging.getLogger("autotvm")


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """Return a text that tells measurements apart: target, task, and configuration."""
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


def pick_best(in_file: PathLike, out_file: PathLike) -> int:
    """Write the fastest record of each task and target of a log to another, and return how many.

    Records that the other log has already compete, and its records that are not beaten stay first.
    Nobody else writes to it meanwhile: of several processes that pick into one log none loses what
    another one has picked.
    """
    new = list(load_from_file(in_file))
    best: dict[str, Record] = {}
    with locked(out_file):
        records = [*load_from_file(out_file), *new]
        for inp, result in records:
            if result.error_no != MeasureErrorNo.NO_ERROR:
                continue
            key = measure_str_key(inp, include_config=False)
            if key not in best or result.mean_cost < best[key][1].mean_cost:
                best[key] = (inp, result)
        replace_file(out_file, best.values())
    logger.info("picked %d best record(s) of %d into %s", len(best), len(records), out_file)
    return len(best)


def split_workload(in_file: PathLike, clean: bool = True) -> list[str]:
    """Write the records of each task and target to a log of its own, and return their names.

    They are called `<in_file>.000.wkl` and so on. With `clean`, of a configuration that was
    measured several times only the first record is kept.
    """
    parts: dict[str, list[Record]] = {}
    seen: set[str] = set()
    for inp, result in load_from_file(in_file):
        key = measure_str_key(inp)
        if clean and key in seen:
            continue
        seen.add(key)
        parts.setdefault(measure_str_key(inp, include_config=False), []).append((inp, result))
    names = [f"{os.fspath(in_file)}.{k:03d}.wkl" for k in range(len(parts))]
    for name, records in zip(names, parts.values(), strict=True):
        replace_file(name, records)
    return names
