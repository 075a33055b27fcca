"""A record whose trace stays where it is stored until somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schedule import Trace
from search.database.growing_file import json_of
from search.database.records import TuningRecord, Workload, trace_of
from search.errors import DatabaseError

if TYPE_CHECKING:
    from codegen import Target
    from search.arg_info import ArgInfo


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
