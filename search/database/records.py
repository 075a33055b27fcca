"""The entries of a database: workloads, and the records of their measurements."""

from __future__ import annotations

import base64
import hashlib
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from codegen import Target, TargetError
from schedule import Schedule, Trace
from search.arg_info import ArgInfo
from search.database.program_lengths import ProgramLengths
from search.errors import DatabaseError
from search.lines import is_number, json_line, json_of
from search.runner.measure_candidate import MeasureCandidate
from search.runner.time_call import time_text
from tensorir import parse
from tensorir.comparison.structural_hash import structural_hash
from tensorir.errors import TensorIRError
from tensorir.function import IRModule
from tensorir.text_table import html_table

FAILED: Final = 1e10
"""The time in seconds of a failed trial."""


@dataclass(frozen=True, eq=False)
class Workload:
    """A program to be tuned."""

    mod: IRModule

    @cached_property
    def shash(self) -> int:
        """The structural hash of the program."""
        return structural_hash(self.mod)

    @cached_property
    def script(self) -> str:
        """The program as text."""
        return self.mod.script()

    def __str__(self) -> str:
        """Return the names of its functions, and a number that distinguishes it."""
        names = ", ".join(str(name) for name in self.mod.functions)
        return f"{names} #{self.shash & 0xFFFFFF:06x}"

    def __repr__(self) -> str:
        return f"<Workload {self}>"

    def _repr_html_(self) -> str:
        return self.mod._repr_html_()

    @cached_property
    def lengths(self) -> ProgramLengths:
        """The lengths in the program, which decide if another program is compatible."""
        return ProgramLengths.of(self.mod)

    def as_json(self) -> list[str]:
        """Return `[hash, base64 of the script]`."""
        text = self.script.encode("utf-8")
        return [str(self.shash), base64.b64encode(text).decode("ascii")]

    @staticmethod
    def from_json(obj: Any) -> Workload:
        """Return the workload that `as_json` described; DatabaseError names the wrong field.

        The hash is ignored.
        """
        if not isinstance(obj, list) or len(obj) != 2 or not all(isinstance(x, str) for x in obj):
            raise DatabaseError(f"a workload is [hash, base64 of a script], got {_short(obj)}")
        try:
            text = base64.b64decode(obj[1], validate=True).decode("utf-8")
        except ValueError as error:
            raise DatabaseError(f"field 1 (program) must be a script in base64: {error}") from error
        if text.lstrip().startswith("{"):
            raise DatabaseError(
                "field 1 (program) is an object dump of another tool, which cannot be read; "
                "commit the program again from its script"
            )
        return Workload.from_script(text)

    @staticmethod
    def from_script(text: str) -> Workload:
        """Return the workload with this program; DatabaseError if the text is not a module."""
        try:
            mod = parse(text)
        except TensorIRError as error:
            raise DatabaseError(f"field 1 (program) cannot be parsed: {error}") from error
        if not isinstance(mod, IRModule):
            raise DatabaseError("field 1 (program) is a function, not a module")
        return Workload(mod)


@dataclass(frozen=True, eq=False)
class TuningRecord:
    """A trace and its measurement.

    `run_secs` are seconds per call. A failed trial has `[1e10]` and an `error_msg`, which is not
    stored. A trial that was stopped early, because it could not be the best, has `[bound, 1e10]`;
    its time is at least `bound` seconds.
    """

    trace: Trace
    workload: Workload
    run_secs: Sequence[float] | None = None
    target: Target | None = None
    args_info: Sequence[ArgInfo] | None = None
    error_msg: str | None = field(default=None, compare=False)

    @cached_property
    def place(self) -> str | None:
        """The file and line of a stored record; None for a record in memory."""
        return None

    @property
    def mean_seconds(self) -> float:
        """The mean of `run_secs`, which orders records; 1e10 if there are none."""
        return statistics.fmean(self.run_secs) if self.run_secs else FAILED

    @property
    def median_seconds(self) -> float | None:
        """The median of `run_secs`, which is robust against pauses; None if the trial failed."""
        return statistics.median(self.run_secs) if self.run_secs and self.is_valid else None

    @property
    def is_valid(self) -> bool:
        """True if the measurement was completed, also for an empty trace (unscheduled)."""
        return bool(self.run_secs) and FAILED not in (self.run_secs or ())

    @property
    def bound_seconds(self) -> float | None:
        """The minimum time of a trial that was stopped early; None for any other."""
        known = [s for s in self.run_secs or () if s != FAILED]
        return min(known) if known and not self.is_valid else None

    @cached_property
    def schedules(self) -> bool:
        """True if the trace has an instruction before its postprocessing."""
        insts = self.trace.insts
        return bool(insts) and insts[0].kind.name != "EnterPostproc"

    @cached_property
    def trace_text(self) -> str:
        """The JSON form of the trace as compact text."""
        return json_line(self.trace.as_json())

    @cached_property
    def trace_key(self) -> bytes:
        """16 bytes that two records share if they have the same trace."""
        return digest(self.trace_text.encode())

    def __repr__(self) -> str:
        return f"<TuningRecord of {self.workload}: {self._outcome}, {self.target}>"

    def _repr_html_(self) -> str:
        rows = [("record of", str(self.workload)), ("target", str(self.target))]
        rows += [("time", self._outcome), ("place", self.place or "in memory")]
        return html_table(rows) + self.trace._repr_html_()

    @property
    def _outcome(self) -> str:
        if self.median_seconds is not None:
            return time_text(self.median_seconds)
        if self.bound_seconds is not None:
            return f"more than {time_text(self.bound_seconds)}"
        return "failed" if self.run_secs else "not measured"

    def check(self) -> None:
        """Raise DatabaseError if the times are not seconds.

        Readers apply the same rule, so every record that is written can be read.
        """
        _seconds(None if self.run_secs is None else [float(s) for s in self.run_secs])

    def as_json(self) -> list[Any]:
        """Return `[trace, run_secs, target, args_info]`, None for what is missing."""
        return [self.trace.as_json(), *self.measured_as_json()]

    def measured_as_json(self) -> list[Any]:
        """Return `[run_secs, target, args_info]`, None for what is missing."""
        return [
            None if self.run_secs is None else [float(s) for s in self.run_secs],
            None if self.target is None else self.target.export(),
            None if self.args_info is None else [info.as_json() for info in self.args_info],
        ]

    @staticmethod
    def from_json(obj: Any, workload: Workload) -> TuningRecord:
        """Return the record that `as_json` described; DatabaseError names the wrong field."""
        trace, seconds, target, args = _fields(obj)
        return TuningRecord(
            _trace(trace), workload, _seconds(seconds), _target(target), _arguments(args)
        )

    def schedule(self) -> Schedule:
        """Replay the record, with the work of the postprocessors."""
        sch = Schedule(self.workload.mod)
        self.trace.apply_to_schedule(sch, remove_postproc=False)
        return sch

    def as_measure_candidate(self) -> MeasureCandidate:
        """Replay the record into a candidate."""
        sch = self.schedule()
        args = self.args_info
        return MeasureCandidate(sch, ArgInfo.from_entry_func(sch.mod) if args is None else args)


class TraceStore(Protocol):
    """A store from which records read their traces."""

    def place(self, where: Any, /) -> str:
        """Return the file and line, or the database and row, of a record."""

    def trace_text(self, where: Any, trace_key: bytes, /) -> str:
        """Return the trace of a record as JSON."""


class _StoredTrace:
    """Reads the trace of a stored record; all traces of a database would fill the memory."""

    def __get__(self, record: StoredRecord, _: type | None = None) -> Trace:
        try:
            return _trace(json_of(record.trace_text))
        except DatabaseError as error:
            raise DatabaseError(f"{record.place}: {error}") from error


class StoredRecord(TuningRecord):
    """A record of a store, whose trace is read whenever it is used.

    A broken trace raises DatabaseError with the place of the record. `dataclasses.replace` returns
    a record with its own trace and no place.
    """

    trace: Trace = _StoredTrace()  # type: ignore[assignment]
    store: TraceStore | None = None
    where: Any = None

    @staticmethod
    def at(
        workload: Workload,
        fields: tuple[Any, ...],
        trace_key: bytes,
        schedules: bool,
        store: TraceStore,
        where: Any,
    ) -> StoredRecord:
        """Return the record at a place of a store; `fields` are run_secs, target, args_info."""
        record = object.__new__(StoredRecord)
        known = vars(record)
        known["workload"], known["trace_key"], known["schedules"] = workload, trace_key, schedules
        known["run_secs"], known["target"], known["args_info"] = fields
        known["error_msg"], known["store"], known["where"] = None, store, where
        return record

    @cached_property
    def place(self) -> str | None:
        """The file and line, or the database and row; None for a record in memory."""
        return None if self.store is None else self.store.place(self.where)

    @property
    def trace_text(self) -> str:
        """The stored JSON of the trace."""
        if self.store is None:
            return json_line(self.trace.as_json())
        return self.store.trace_text(self.where, self.trace_key)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the trace."""
        values = (self.trace, self.workload, self.run_secs, self.target, self.args_info)
        return (TuningRecord, values)


def digest(trace_text: bytes) -> bytes:
    """Return 16 bytes that identify a trace."""
    return hashlib.sha256(trace_text).digest()[:16]  # CPUs have instructions for it


# -------------------------------------------------------------------------------------- as a line

_ONLY_POSTPROC: Final = (b"[[]", b'[[["EnterPostproc"')
_USUAL_LINE: Final = re.compile(
    rb"\[(\d+),\[(\[\[.*\]\]),(\[[^]]*\]|null),(\{.*\}|null),(\[.*\]|null)\]\]", re.DOTALL
)


class RecordLine(NamedTuple):
    """The line `[index of the workload, [trace, run_secs, target, args_info]]`, the trace as text.

    The trace is nearly all of a line. A reader of a database parses only the fields after the
    trace, which takes a quarter of the time of `json.loads` for the whole line.
    """

    workload: int
    trace: bytes
    run_secs: tuple[float, ...] | None
    target: Target | None
    args_info: tuple[ArgInfo, ...] | None

    @property
    def schedules(self) -> bool:
        """True if the trace has an instruction before its postprocessing."""
        return not self.trace.startswith(_ONLY_POSTPROC)


def write_record_line(workload: int, record: TuningRecord) -> str:
    """Return the line of a record."""
    measured = ",".join(map(json_line, record.measured_as_json()))
    return f"[{workload},[{record.trace_text},{measured}]]"


def read_record_line(line: bytes) -> RecordLine:
    """Return the fields of a line; DatabaseError names the wrong field."""
    try:
        found = _cut(line)
    except DatabaseError:
        found = None  # the reader of the whole line finds the cause
    return found or _parse_line(line)


def _cut(line: bytes) -> RecordLine | None:
    """Return the fields of a line in the usual form, None for another form.

    Each field after the trace is parsed as JSON. If they are JSON, the text before them is the
    trace, provided that the line is JSON; in a line that was cut short the brackets do not match.
    """
    found = _USUAL_LINE.fullmatch(line)
    if found is None or line.count(b"[") != line.count(b"]"):
        return None
    index, trace, *measured = found.groups()
    return RecordLine(int(index), trace, *measured_fields(*measured))


def _parse_line(line: bytes) -> RecordLine:
    obj = json_of(line)
    if not isinstance(obj, list) or len(obj) != 2 or type(obj[0]) is not int:
        raise DatabaseError("a line is [index of the workload, record]")
    trace, seconds, target, args = _fields(obj[1])
    if not isinstance(trace, list) or len(trace) != 2:
        raise DatabaseError("field 0 (trace): a trace is [instructions, decisions]")
    measured = (_seconds(seconds), _target(target), _arguments(args))
    return RecordLine(obj[0], json_line(trace).encode(), *measured)


Measured: TypeAlias = tuple[tuple[float, ...] | None, Target | None, tuple[ArgInfo, ...] | None]
"""The run_secs, target and args_info of a record."""


def measured_fields(run_secs: bytes | str, target: bytes | str, args: bytes | str) -> Measured:
    """Return the measurement of a record from three texts of JSON; DatabaseError if invalid."""
    if isinstance(run_secs, bytes):  # json.loads would first detect the encoding of bytes
        run_secs = run_secs.decode(errors="replace")
    return _seconds(json_of(run_secs)), _target_in(target), _arguments_in(args)


@lru_cache(maxsize=256)
def _target_in(text: bytes | str) -> Target | None:
    return _target(json_of(text))  # most records have the same few


@lru_cache(maxsize=1024)
def _arguments_in(text: bytes | str) -> tuple[ArgInfo, ...] | None:
    return _arguments(json_of(text))


def _fields(obj: Any) -> list[Any]:
    """Return the four fields of a record; DatabaseError if it has others."""
    if not isinstance(obj, list) or len(obj) != 4:
        raise DatabaseError(f"a record is [trace, run_secs, target, args_info], got {_short(obj)}")
    return obj


def _trace(obj: Any) -> Trace:
    """Return the trace in plain data; DatabaseError for anything else, as for the other fields."""
    try:
        return Trace.from_json(obj)
    except (ValueError, TypeError) as error:
        raise DatabaseError(f"field 0 (trace): {error}") from error


def _seconds(obj: Any) -> tuple[float, ...] | None:
    if obj is None:
        return None
    numbers = isinstance(obj, list) and all(is_number(s) and s >= 0 for s in obj)
    if not numbers:
        raise DatabaseError(f"field 1 (run_secs) is a list of seconds or null, got {_short(obj)}")
    return tuple(map(float, obj))


def _target(obj: Any) -> Target | None:
    if obj is None:
        return None
    try:
        return Target(obj) if isinstance(obj, dict) else _refuse(obj, "an object")
    except (TargetError, ValueError) as error:
        raise DatabaseError(f"field 2 (target): {error}") from error


def _arguments(obj: Any) -> tuple[ArgInfo, ...] | None:
    if obj is None:
        return None
    try:
        found = obj if isinstance(obj, list) else _refuse(obj, "a list")
        return tuple(map(ArgInfo.from_json, found))
    except ValueError as error:
        raise DatabaseError(f"field 3 (args_info): {error}") from error


def _refuse(obj: Any, expected: str) -> NoReturn:
    raise ValueError(f"expected {expected} or null, got {_short(obj)}")


def _short(obj: Any) -> str:
    text = repr(obj)
    return text if len(text) <= 80 else text[:77] + "..."
