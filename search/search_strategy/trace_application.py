"""From a trace to a candidate: replay it and run the postprocessors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedule import Schedule, ScheduleError, Trace
from search.arg_info import ArgInfo
from search.errors import TuningError
from search.measure_candidate import MeasureCandidate
from tensorir.function import IRModule

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.postproc.postproc import Postproc


class TraceApplication:
    """Replays traces on the program of a task and counts what was rejected, and by whom."""

    def __init__(self, context: TuneContext) -> None:
        if context.mod is None or context.space_generator is None:
            raise TuningError("a search strategy needs a task with a program and a space generator")
        self._context = context
        self._mod: IRModule = context.mod
        self.postprocs: Sequence[Postproc] = context.space_generator.postprocs
        self.failures: dict[str, int] = {}
        """How many candidates each postprocessor rejected, by its text."""

    def apply(self, trace: Trace, resample: bool = False) -> Schedule | None:
        """Return the postprocessed schedule of a trace, None if it is rejected.

        The trace's own postprocessing part is left out. With `resample` its decisions are drawn
        anew. A decision that does not fit any more may make an instruction fail; that is a
        rejection too.
        """
        sch = Schedule(self._mod, seed=self.fork_seed(), error_render_level="none")
        try:
            provider = (lambda *_: None) if resample else None
            trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=provider)
        except ScheduleError as error:
            self._count(f"{type(error).__name__} in {error.primitive}")
            return None
        return sch if self.postprocess(sch) else None

    def postprocess(self, sch: Schedule) -> bool:
        """Complete a schedule in place; False if a postprocessor rejects it."""
        sch.enter_postproc()
        for postproc in self.postprocs:
            if not postproc.apply(sch):
                self._count(str(postproc))
                return False
        return True

    def candidate(self, sch: Schedule) -> MeasureCandidate:
        """Return a schedule as something to be measured."""
        return MeasureCandidate(sch, ArgInfo.from_entry_func(sch.mod, remove_preproc=True))

    def fork_seed(self) -> int:
        """Return a seed for a schedule, in [1, 2**31 - 1]."""
        return self._context.fork_seed() or 1

    def summary(self) -> str:
        """Return a line for each reason of rejection, and forget the counts."""
        names = [str(postproc) for postproc in self.postprocs]
        counts = dict.fromkeys(names, 0) | self.failures
        self.failures = {}
        return "\n".join(
            f"Postproc #{k} [{name}]: {count} failure(s)"
            for k, (name, count) in enumerate(counts.items())
        )

    def _count(self, reason: str) -> None:
        self.failures[reason] = self.failures.get(reason, 0) + 1
