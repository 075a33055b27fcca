"""Schedules: transformations of tensor programs that are recorded and can be replayed.

`Schedule` transforms a program through primitives; its `Trace` replays from JSON. `primitive`
registers a new one, `composite` makes one step of several; `library` has such steps, `cursors` and
`queries` find out where to apply them.

The subpackages: `primitives` has a file for each primitive, or for a pair with one rewrite;
`staging` plans and makes the copies that several of them need; `analysis` has their analyses of
programs. `operands` defines the kinds of arguments of primitives, `decisions` the alternatives of
sampling, and `trace` the record, as JSON and as Python. docs/one-primitive.md follows one call
through these subpackages; docs/schedule-state.md explains the program under transformation
(`state.py`).
"""

from schedule import primitives
from schedule.composites import composite
from schedule.decisions.domain import ChoiceDomain, Decision, DecisionDomain
from schedule.errors import (
    ExpiredHandleError,
    Problem,
    ScheduleError,
    TraceError,
    UnknownHandleError,
    check,
    fail,
)
from schedule.handles import BlockRV, ExprRV, LoopRV
from schedule.instruction import Instruction, InstructionKind, Sampled, primitive
from schedule.schedule import Schedule
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from schedule.trace import Trace
from tensorir.version import __version__

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
    "__version__",
    "check",
    "composite",
    "fail",
    "primitive",
    "primitives",
]
