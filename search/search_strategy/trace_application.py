"""Replaying and postprocessing of traces, which makes candidates."""

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
    """Replays and postprocesses traces on the program of a task, and counts rejections."""

    def __init__(self, context: TuneContext) -> None:
        if context.mod is None or context.space_generator is None:
            raise TuningError(
                "the task has no program or no space generator, which a search strategy needs; "
                "pass mod and space_generator to TuneContext"
            )
        self._context = context
        self.mod: IRModule = context.mod
        """The program of the task."""
        self.postprocs: Sequence[Postproc] = context.space_generator.postprocs
        self._replays = Replays(self.mod)
        self.failures: dict[str, int] = {}
        """The number of rejections by each postprocessor since the last summary, by its name."""
        self._accepted = 0
        self._rejected: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}

    def apply(self, trace: Trace, resample: bool = False) -> Schedule | None:
        """Return the postprocessed schedule of a trace, None if it is rejected.

        With `resample` its decisions are sampled again.
        """
        sch = self.replay(trace, resample)
        return sch if sch is not None and self.postprocess(sch) else None

    def replay(self, trace: Trace, resample: bool = False) -> Schedule | None:
        """Return the schedule of a trace without postprocessing, None if it is rejected.

        The postprocessing part of the trace is left out. A failing instruction is a rejection.
        """
        try:
            return self._replays.replay(
                trace, self.fork_seed(), (lambda _: lambda *_: None) if resample else None
            )
        except ScheduleError as error:
            self.reject(f"{type(error).__name__} in {error.primitive}", error.message)
            return None
        except TensorIRError as error:  # the trace of a record has wrong arguments
            self.reject(type(error).__name__, str(error).partition("\n")[0])
            return None

    def postprocess(self, sch: Schedule) -> bool:
        """Complete a schedule in place; False if a postprocessor rejects it."""
        sch.enter_postproc()
        for postproc in self.postprocs:
            with blamed_on(postproc, lambda: f"the schedule\n{sch.trace}"):
                accepted = postproc.apply(sch)
            if not accepted:
                name = str(postproc)
                self.reject(name, self._reasons.get(name) or postproc.reason(sch))
                return False
        self._accepted += 1
        return True

    def reject(self, name: str, reason: str = "") -> None:
        """Count a rejected schedule."""
        self.failures[name] = self.failures.get(name, 0) + 1
        self._rejected[name] += 1
        self._reasons.setdefault(name, reason)

    def candidate(
        self,
        sch: Schedule,
        *,
        space_index: int | None = None,
        decisions: Decisions | None = None,
        predicted: float | None = None,
    ) -> MeasureCandidate:
        """Return the candidate of a schedule."""
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
        """Return a line with the number of rejections by each postprocessor, and reset them."""
        names = [str(postproc) for postproc in self.postprocs]
        counts = dict.fromkeys(names, 0) | self.failures
        self.failures = {}
        return "\n".join(
            f"Postproc #{k} [{name}]: {count} failure(s)"
            for k, (name, count) in enumerate(counts.items())
        )

    def failure_summary(self) -> str | None:
        """Return a text with the reasons why all schedules were rejected; None if one was accepted.

        Each postprocessor or error has the reason of the first schedule that it rejected.
        """
        if self._accepted or not self._rejected:
            return None
        parts = [
            f"{count} by {name}" + (f" ({reason})" if (reason := self._reasons[name]) else "")
            for name, count in self._rejected.most_common()
        ]
        total = self._rejected.total()
        return f"all {total} sampled schedules were rejected, {', '.join(parts)}"
