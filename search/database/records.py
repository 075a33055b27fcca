"""The contents of a database: workloads, and the records of their measurements."""

from __future__ import annotations

import base64
import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from codegen import Target, TargetError
from schedule import Schedule, Trace
from search.arg_info import ArgInfo
from search.database.growing_file import is_number, json_line
from search.database.program_lengths import ProgramLengths
from search.errors import DatabaseError
from search.measuring.measure_candidate import MeasureCandidate
from search.measuring.time_text import time_text
from tensorir import parse
from tensorir.comparison.structural_hash import structural_hash
from tensorir.errors import TensorIRError
from tensorir.function import IRModule
from tensorir.text_table import html_table

FAILED: Final = 1e10
"""The time in seconds that stands for a trial that failed."""


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
        """Return the names of its functions, and a number that tells it from others."""
        names = ", ".join(str(name) for name in self.mod.functions)
        return f"{names} #{self.shash & 0xFFFFFF:06x}"

    def __repr__(self) -> str:
        return f"<Workload {self}>"

    def _repr_html_(self) -> str:
        return self.mod._repr_html_()

    @cached_property
    def lengths(self) -> ProgramLengths:
        """The lengths in the program, by which it is told whether another one is compatible."""
        return ProgramLengths.of(self.mod)

    def as_json(self) -> list[str]:
        """Return `[hash, base64 of the script]`."""
        text = self.script.encode("utf-8")
        return [str(self.shash), base64.b64encode(text).decode("ascii")]

    @staticmethod
    def from_json(obj: Any) -> Workload:
        """Return the workload that `as_json` described; DatabaseError names the field at fault.

        The hash is informative: it is computed anew.
        """
        if not isinstance(obj, list) or len(obj) != 2 or not all(isinstance(x, str) for x in obj):
            raise DatabaseError(f"a workload is [hash, base64 of a script], got {_short(obj)}")
        try:
            text = base64.b64decode(obj[1], validate=True).decode("utf-8")
        except ValueError as error:
            raise DatabaseError(f"field 1 (program) is no base64 of a script: {error}") from error
        if text.lstrip().startswith("{"):
            raise DatabaseError(
                "field 1 (program) is an object dump of another tool, which cannot be read; "
                "commit the program anew from its script"
            )
        return Workload.from_script(text)

    @staticmethod
    def from_script(text: str) -> Workload:
        """Return the workload with this program; DatabaseError if the text is no module."""
        try:
            mod = parse(text)
        except TensorIRError as error:
            raise DatabaseError(f"field 1 (program) cannot be parsed: {error}") from error
        if not isinstance(mod, IRModule):
            raise DatabaseError("field 1 (program) is a function, not a module")
        return Workload(mod)


@dataclass(frozen=True, eq=False)
class TuningRecord:
    """A trace and what measuring it gave.

    `run_secs` are seconds per call; a trial that failed has `[1e10]`, and `error_msg` says why
    (which a file does not keep). One that was ended early as it could not be the best has
    `[bound, 1e10]`, where the bound is how long it takes at least.
    """

    trace: Trace
    workload: Workload
    run_secs: Sequence[float] | None = None
    target: Target | None = None
    args_info: Sequence[ArgInfo] | None = None
    error_msg: str | None = field(default=None, compare=False)

    @cached_property
    def place(self) -> str | None:
        """The file and line where the record is stored; None for one that is in memory only."""
        return None

    @property
    def mean_seconds(self) -> float:
        """The mean of `run_secs`, by which records are ordered; 1e10 without any."""
        return statistics.fmean(self.run_secs) if self.run_secs else FAILED

    @property
    def median_seconds(self) -> float | None:
        """The median of `run_secs`, which a pause of the machine leaves alone; None if none ran."""
        return statistics.median(self.run_secs) if self.run_secs and self.is_valid else None

    @property
    def is_valid(self) -> bool:
        """True if it ran to its end; one with an empty trace is of the unscheduled program."""
        return bool(self.run_secs) and FAILED not in (self.run_secs or ())

    @property
    def bound_seconds(self) -> float | None:
        """The least time it takes, of a trial that was ended early; None for any other."""
        known = [s for s in self.run_secs or () if s != FAILED]
        return min(known) if known and not self.is_valid else None

    @property
    def schedules(self) -> bool:
        """True if the trace has an instruction before the postprocessing."""
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
        """Raise DatabaseError if no database takes the record: its times are no seconds.

        That is the rule by which files are read, so that what was written can be read.
        """
        seconds_of(None if self.run_secs is None else [float(s) for s in self.run_secs])

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
        """Return the record that `as_json` described; DatabaseError names the field at fault."""
        trace, seconds, target, args = fields_of(obj)
        return TuningRecord(
            trace_of(trace), workload, seconds_of(seconds), target_of(target), arguments_of(args)
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


def digest(trace_text: bytes) -> bytes:
    """Return 16 bytes that stand for a trace."""
    return hashlib.sha256(trace_text).digest()[:16]  # CPUs have instructions for it


def fields_of(obj: Any) -> list[Any]:
    """Return the four fields of a record; DatabaseError if it has others."""
    if not isinstance(obj, list) or len(obj) != 4:
        raise DatabaseError(f"a record is [trace, run_secs, target, args_info], got {_short(obj)}")
    return obj


def trace_of(obj: Any) -> Trace:
    """Return a trace read from JSON; DatabaseError for anything else, as for the other fields."""
    try:
        return Trace.from_json(obj)
    except (ValueError, TypeError) as error:
        raise DatabaseError(f"field 0 (trace): {error}") from error


def seconds_of(obj: Any) -> tuple[float, ...] | None:
    """Return the seconds per call read from JSON."""
    if obj is None:
        return None
    numbers = isinstance(obj, list) and all(is_number(s) and s >= 0 for s in obj)
    if not numbers:
        raise DatabaseError(f"field 1 (run_secs) is a list of seconds or null, got {_short(obj)}")
    return tuple(map(float, obj))


def target_of(obj: Any) -> Target | None:
    """Return a target read from JSON."""
    if obj is None:
        return None
    if not isinstance(obj, dict):
        raise DatabaseError(f"field 2 (target) is an object or null, got {_short(obj)}")
    try:
        return Target(obj)
    except TargetError as error:
        raise DatabaseError(f"field 2 (target): {error}") from error


def arguments_of(obj: Any) -> tuple[ArgInfo, ...] | None:
    """Return argument descriptions read from JSON."""
    if obj is None:
        return None
    if not isinstance(obj, list):
        raise DatabaseError(f"field 3 (args_info) is a list or null, got {_short(obj)}")
    try:
        return tuple(ArgInfo.from_json(entry) for entry in obj)
    except ValueError as error:
        raise DatabaseError(f"field 3 (args_info): {error}") from error


def _short(obj: Any) -> str:
    text = repr(obj)
    return text if len(text) <= 80 else text[:77] + "..."
