"""Replaying many traces of one program, which begin alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schedule import Schedule, Trace
from schedule.instruction import Instruction
from schedule.trace.trace import DecisionProvider
from tensorir.function import IRModule


@dataclass(frozen=True)
class _Start:
    """What the instructions before the first decision made of the program."""

    sch: Schedule
    made: dict[Any, Any]


class Replays:
    """Replays traces of a program without their postprocessing parts.

    Traces of a design space have the same instructions, and those before the first decision do the
    same in each: later replays go on from a copy of what they made. A trace from elsewhere, a record
    say, shares no instructions, and leaves no copy. With `keeps_domains` each sampling keeps the
    alternatives that it had.
    """

    def __init__(self, mod: IRModule, *, keeps_domains: bool = False) -> None:
        self._mod = mod
        self._keeps_domains = keeps_domains
        self._starts: dict[tuple[Instruction, ...], _Start | None] = {}
        """What beginnings made that were asked for twice; None for those asked for once."""

    def replay(
        self,
        trace: Trace,
        seed: int,
        provider_for: Callable[[Schedule], DecisionProvider] | None = None,
    ) -> Schedule:
        """Return the schedule of a trace.

        `provider_for` returns what may replace the decisions of a schedule that is being made; it
        is asked from the first decision on. ScheduleError and TraceError as
        `Trace.apply_to_schedule` raises them.
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
        """Return what the beginning of a trace makes, None the first time that it is asked for."""
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
