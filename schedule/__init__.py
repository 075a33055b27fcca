"""Schedules: transformations of tensor programs that are recorded and can be replayed.

`Schedule` transforms a program through primitives; its `Trace` replays from JSON. `primitive`
registers a new one.
"""

from schedule import primitives
from schedule.decisions.domain import ChoiceDomain, Decision, DecisionDomain
from schedule.errors import Problem, ScheduleError, TraceError, check, fail
from schedule.handles import BlockRV, ExprRV, LoopRV
from schedule.instruction import Instruction, InstructionKind, Sampled, primitive
from schedule.schedule import ExpiredHandleError, Schedule, UnknownHandleError
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from schedule.trace import Trace

__all__ = [
    "BlockRV",
    "ChoiceDomain",
    "Decision",
    "DecisionDomain",
    "ExpiredHandleError",
    "ExprRV",
    "Instruction",
    "InstructionKind",
    "LoopRV",
    "Problem",
    "Sampled",
    "Schedule",
    "ScheduleError",
    "ScheduleState",
    "StmtSRef",
    "Trace",
    "TraceError",
    "UnknownHandleError",
    "check",
    "fail",
    "primitive",
    "primitives",
]
