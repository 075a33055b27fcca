"""From a trace to a candidate: replay it and run the postprocessors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedule import Schedule, ScheduleError, Trace
from search.arg_info import ArgInfo
from search.errors import TuningError, blamed_on
from search.runner.measure_candidate import MeasureCandidate
from search.space_generator.replays import Replays
from tensorir.errors import TensorIRError
from tensorir.function import IRModule

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.postproc.postproc import Postproc
    from search.space_generator.design_space import Decisions


class TraceApplication:
    """Replays traces on the program of a task and counts what was rejected, and by whom."""

    def __init__(self, context: TuneContext) -> None:
        if context.mod is None or context.space_generator is None:
            raise TuningError("a search strategy needs a task with a program and a space generator")
        self._context = context
        self.mod: IRModule = context.mod
        """The program of the task."""
        self.postprocs: Sequence[Postproc] = context.space_generator.postprocs
        self._replays = Replays(self.mod)
        self.failures: dict[str, int] = {}
        """The candidates that each postprocessor rejected since the last summary, by its text."""
        self._accepted = 0
        self._rejected: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}

    def apply(self, trace: Trace, resample: bool = False) -> Schedule | None:
        """Return the postprocessed schedule of a trace, None if it is rejected.

        With `resample` its decisions are drawn anew.
        """
        sch = self.replay(trace, resample)
        return sch if sch is not None and self.postprocess(sch) else None

    def replay(self, trace: Trace, resample: bool = False) -> Schedule | None:
        """Return the schedule of a trace without postprocessing, None if it is rejected.

        The trace's own postprocessing part is left out. A decision that does not fit any more may
        make an instruction fail; that is a rejection.
        """
        try:
            return self._replays.replay(
                trace, self.fork_seed(), (lambda _: lambda *_: None) if resample else None
            )
        except ScheduleError as error:
            self._count(f"{type(error).__name__} in {error.primitive}", error.message)
            return None
        except TensorIRError as error:  # a trace of a record whose arguments are wrong
            self._count(type(error).__name__, str(error).partition("\n")[0])
            return None

    def postprocess(self, sch: Schedule) -> bool:
        """Complete a schedule in place; False if a postprocessor rejects it."""
        sch.enter_postproc()
        for postproc in self.postprocs:
            with blamed_on(postproc, lambda: f"the schedule\n{sch.trace}"):
                accepted = postproc.apply(sch)
            if not accepted:
                name = str(postproc)
                self._count(name, self._reasons.get(name) or postproc.reason(sch))
                return False
        self._accepted += 1
        return True

    def reject(self, name: str, reason: str = "") -> None:
        """Count a schedule that somebody else rejects."""
        self._count(name, reason)

    def candidate(
        self,
        sch: Schedule,
        *,
        space_index: int | None = None,
        decisions: Decisions | None = None,
        predicted: float | None = None,
    ) -> MeasureCandidate:
        """Return a schedule as something to be measured."""
        return MeasureCandidate(
            sch,
            ArgInfo.from_entry_func(sch.mod, remove_preproc=True),
            space_index=space_index,
            decisions=decisions,
            predicted=predicted,
        )

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

    def why_nothing(self) -> str | None:
        """Return in words that all schedules were rejected, by whom and why; None if they were not.

        Where several reject, each gets the reason of the first schedule that it rejected.
        """
        if self._accepted or not self._rejected:
            return None
        parts = [
            f"{count} by {name}" + (f" ({reason})" if (reason := self._reasons[name]) else "")
            for name, count in self._rejected.most_common()
        ]
        total = self._rejected.total()
        return f"all {total} schedules that were sampled were rejected, {', '.join(parts)}"

    def _count(self, name: str, reason: str) -> None:
        self.failures[name] = self.failures.get(name, 0) + 1
        self._rejected[name] += 1
        self._reasons.setdefault(name, reason)
