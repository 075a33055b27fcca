"""Lines of the file of records: writing them, and reading them but for the trace.

A line is `[index of the workload, [trace, run_secs, target, args_info]]`. Nearly all of it is the
trace, so what stands around it is cut out and parsed; the trace is only seen to be a list whose
brackets match. Lines in another form than the one that is written here, with blanks or without a
target, are parsed whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from codegen import Target
from schedule import Trace
from search.arg_info import ArgInfo
from search.database.growing_file import json_line, json_of
from search.database.records import (
    TuningRecord,
    Workload,
    arguments_of,
    fields_of,
    seconds_of,
    target_of,
    trace_of,
)
from search.errors import DatabaseError


class RecordLine(NamedTuple):
    """The fields of a line, the trace as text."""

    workload: int
    trace: bytes
    run_secs: tuple[float, ...] | None
    target: Target | None
    args_info: tuple[ArgInfo, ...] | None

    @property
    def schedules(self) -> bool:
        """True if the trace has an instruction before the postprocessing."""
        return not self.trace.startswith((b"[[]", b'[[["EnterPostproc"'))


def read_record_line(line: bytes) -> RecordLine:
    """Return the fields of a line; DatabaseError names the field at fault."""
    try:
        found = _cut(line)
    except DatabaseError:
        found = None  # the line as a whole says what is wrong
    return found or _parsed(line)


def write_record_line(workload: int, record: TuningRecord) -> str:
    """Return the line of a record, the trace as it is stored."""
    measured = ",".join(map(json_line, record.measured_as_json()))
    return f"[{workload},[{record.trace_text},{measured}]]"


def _cut(line: bytes) -> RecordLine | None:
    """Return the fields of a line in the usual form, None for another form.

    The last three fields are searched for from the end. Each of them is JSON of its own, so that
    what is before them is the trace, if the line is JSON at all.
    """
    comma = line.find(b",")
    index = line[1:comma]
    target = line.rfind(b',{"')
    end = line.find(b"},", target) + 1
    seconds = line.rfind(b",[", 0, target)
    usual = (
        line.endswith(b"]]")
        and line.startswith(b"[")
        and index.isdigit()
        and line.startswith(b"[[[", comma + 1)
        and comma < seconds < target < end
        and line.count(b"[") == line.count(b"]")
    )
    trace = line[comma + 2 : seconds]
    if not usual or not trace.endswith(b"]]"):
        return None
    return RecordLine(
        int(index),
        trace,
        _plain_seconds(line[seconds + 1 : target]),
        target_from_text(line[target + 1 : end]),
        arguments_from_text(line[end + 1 : -2]),
    )


_NUMBER: Final = rb"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_PLAIN_SECONDS: Final = re.compile(rb"\[%b(?:,%b)*\]" % (_NUMBER, _NUMBER))


def _plain_seconds(text: bytes) -> tuple[float, ...] | None:
    """Return a list of seconds; a plain one is read faster than the JSON reader can."""
    if _PLAIN_SECONDS.fullmatch(text):
        seconds = tuple(map(float, text[1:-1].split(b",")))
        if math.inf not in seconds:
            return seconds
    return seconds_of(json_of(text))


def _parsed(line: bytes) -> RecordLine:
    obj = json_of(line)
    if not isinstance(obj, list) or len(obj) != 2 or type(obj[0]) is not int:
        raise DatabaseError("a line is [index of the workload, record]")
    trace, seconds, target, args = fields_of(obj[1])
    if not isinstance(trace, list) or len(trace) != 2:
        raise DatabaseError("field 0 (trace): a trace is [instructions, decisions]")
    return RecordLine(
        obj[0],
        json_line(trace).encode(),
        seconds_of(seconds),
        target_of(target),
        arguments_of(args),
    )


@lru_cache(maxsize=256)
def target_from_text(text: bytes | str) -> Target | None:
    """Return the target in a piece of JSON; most records have the same few."""
    return target_of(json_of(text))


@lru_cache(maxsize=1024)
def arguments_from_text(text: bytes | str) -> tuple[ArgInfo, ...] | None:
    """Return the argument descriptions in a piece of JSON."""
    return arguments_of(json_of(text))


class StoredRecord(TuningRecord):
    """A record of a file.

    `trace` is read and parsed on first use, which raises DatabaseError with the place of the record
    if the trace is broken; all else is at hand.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> TuningRecord:  # type: ignore[misc]
        """Return an ordinary record: what `dataclasses.replace` makes is stored nowhere."""
        return TuningRecord(*args, **kwargs)

    place: str
    _load: Callable[[], str]

    @staticmethod
    def at(
        place: str,
        load: Callable[[], str],
        workload: Workload,
        run_secs: tuple[float, ...] | None,
        target: Target | None,
        args_info: tuple[ArgInfo, ...] | None,
        trace_key: bytes,
        schedules: bool,
    ) -> StoredRecord:
        """Return a record whose trace `load` reads as text."""
        record = object.__new__(StoredRecord)
        vars(record).update(
            place=place,
            _load=load,
            workload=workload,
            run_secs=run_secs,
            target=target,
            args_info=args_info,
            error_msg=None,
            trace_key=trace_key,
            schedules=schedules,
        )
        return record

    @cached_property
    def trace(self) -> Trace:
        """The trace."""
        try:
            return trace_of(json_of(self.trace_text))
        except DatabaseError as error:
            raise DatabaseError(f"{self.place}: {error}") from error

    @property
    def trace_text(self) -> str:
        """The trace as it is stored."""
        return self._load()

    @cached_property
    def schedules(self) -> bool:
        """True if the trace has an instruction before the postprocessing."""
        return super().schedules

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the trace."""
        values = (self.trace, self.workload, self.run_secs, self.target, self.args_info)
        return (TuningRecord, values)
