"""Replaying many traces of one program, which share their first instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from schedule import Schedule, Trace
from schedule.instruction import Instruction
from schedule.trace.trace import DecisionProvider
from tensorir.function import IRModule


class ReplayBudget:
    """The number of instructions that a search may still apply to analyse its design spaces."""

    def __init__(self, instructions: float = inf) -> None:
        self.left = instructions

    def spend(self, instructions: float) -> None:
        """Subtract applied instructions."""
        self.left -= instructions

    def affords(self, replays: int, length: int) -> bool:
        """Return True if a trace of `length` instructions may be replayed `replays` times."""
        return replays * length <= self.left


@dataclass(frozen=True)
class _Start:
    """A schedule after the instructions before the first decision, with their results."""

    sch: Schedule
    made: dict[Any, Any]


class Replays:
    """Replays traces of a program without their postprocessing.

    All traces of a design space share the instructions before the first decision. They are applied
    once, and later replays start from a copy of the result. A trace from a record shares no
    instructions with others, and no copy is kept for it. With `keeps_domains` each sampling
    instruction keeps the alternatives that it had.
    """

    def __init__(self, mod: IRModule, *, keeps_domains: bool = False) -> None:
        self._mod = mod
        self._keeps_domains = keeps_domains
        self._starts: dict[tuple[Instruction, ...], _Start | None] = {}
        """The results of first instructions that were requested twice; None after one request."""

    def replay(
        self,
        trace: Trace,
        seed: int,
        provider_for: Callable[[Schedule], DecisionProvider] | None = None,
    ) -> Schedule:
        """Return the schedule of a trace.

        `provider_for` returns, for the schedule in progress, a function that may replace decisions,
        from the first one on. Raises ScheduleError and TraceError as `Trace.apply_to_schedule`.
        """
        insts = trace.instructions(remove_postproc=True)
        first = next((k for k, inst in enumerate(insts) if inst.kind.has_decision), len(insts))
        shared = tuple(insts[:first])
        start = None if all(inst.kind.is_pure for inst in shared) else self._start(trace, shared)
        if start is None:
            first = 0
            start = _Start(self._fresh(seed), {})
        else:
            start = _Start(start.sch.copy(), dict(start.made))
            start.sch.seed(seed)
        provider = None if provider_for is None else provider_for(start.sch)
        trace.apply_part(start.sch, first, len(insts), start.made, provider)
        return start.sch

    def _start(self, trace: Trace, shared: tuple[Instruction, ...]) -> _Start | None:
        """Return the result of the first instructions of a trace; None at the first request."""
        if shared not in self._starts:
            self._starts[shared] = None
            return None
        found = self._starts[shared]
        if found is None:
            found = _Start(self._fresh(1), {})
            trace.apply_part(found.sch, 0, len(shared), found.made)
            self._starts[shared] = found
        return found

    def _fresh(self, seed: int) -> Schedule:
        sch = Schedule(self._mod, seed=seed, error_render_level="none")
        sch.keeps_domains = self._keeps_domains
        return sch
