"""The steps of a trace as data to draw: their texts, their decisions, the program after each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from schedule import Instruction, Schedule, Trace
from schedule.decisions.tiles import TileDomain
from schedule.primitives.annotate import ENTER_COMPOSITE, EXIT_COMPOSITE
from schedule.trace.python_text import python_lines
from search.explorer.program_view import Data
from tensorir.function import IRModule

MOST_OPTIONS: Final = 64
"""The maximum number of alternatives of a decision that are offered as buttons."""


@dataclass
class Replay:
    """A trace that was replayed step by step."""

    sch: Schedule
    mods: list[IRModule] = field(default_factory=list)
    """The program before the first step, and after each step."""

    @staticmethod
    def of(initial: IRModule, trace: Trace) -> Replay:
        """Replay a trace on a program; ScheduleError or TraceError if a step is refused."""
        sch = Schedule(initial, seed=1)
        replay = Replay(sch, [sch.mod])
        made: dict[Any, Any] = {}
        for k in range(len(trace.insts)):
            trace.apply_part(sch, k, k + 1, made)
            replay.mods.append(sch.mod)
        return replay


def steps_of(replay: Replay) -> list[Data]:
    """Return the steps of a replayed trace, as data for JSON.

    A step has `text`, `depth` (the number of composites around it), `pure` (True if it only looks
    up something), `composite` (its name, for the step that begins one), `ends` (True for the step
    that ends one) and `decision`: None, or what `decision_data` returns.
    """
    trace = replay.sch.trace
    steps: list[Data] = []
    depth = 0
    texts = python_lines(trace.insts, {}, "tensorir", brief=True)
    for inst, text in zip(trace.insts, texts, strict=True):
        kind = inst.kind.name
        depth -= kind == EXIT_COMPOSITE
        steps.append(
            {
                "text": _composite_text(inst) if kind == ENTER_COMPOSITE else text,
                "depth": depth,
                "pure": inst.kind.is_pure,
                "ends": kind == EXIT_COMPOSITE,
                "composite": inst.values[0] if kind == ENTER_COMPOSITE else None,
                "decision": decision_data(inst, trace),
            }
        )
        depth += kind == ENTER_COMPOSITE
    return steps


def _composite_text(inst: Instruction) -> str:
    name, arguments = inst.values
    return f"{name}({arguments})"


def decision_data(inst: Instruction, trace: Trace) -> Data | None:
    """Return the decision of a sampling instruction and its alternatives; None for others.

    `value` is the decision. For a tile there are `extent` and `limit` (of the last factor; -1 for
    none), otherwise `options`: pairs of a decision and its label, at most `MOST_OPTIONS` of them.
    """
    if inst not in trace.decisions:
        return None
    value, domain = trace.decisions[inst], inst.domain
    if isinstance(domain, TileDomain):
        limit = getattr(domain, "limit", -1)
        return {"kind": "tile", "value": list(value), "extent": domain.extent, "limit": limit}
    options: list[Any] = []
    if domain is not None and domain.size <= MOST_OPTIONS:
        options = [[option, domain.label(option)] for option in domain]
    return {"kind": "choice", "value": value, "options": options}
