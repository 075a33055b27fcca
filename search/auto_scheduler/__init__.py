"""Ansor's style of search, and its logs.

dag = ComputeDAG([A, B, C])
state = dag.state([["SP", 2, 0, 64, [4, 1, 8], 1], ...])
print(state)                    # the loops that the steps make
sch = dag.schedule(state)       # the program, traced
"""

from search.auto_scheduler.compute_dag import ComputeDAG
from search.auto_scheduler.loop_steps import (
    AnnotateStep,
    FollowFusedSplitStep,
    FollowSplitStep,
    FuseStep,
    PragmaStep,
    ReorderStep,
    SplitStep,
    StorageAlignStep,
)
from search.auto_scheduler.stage_steps import (
    CacheReadStep,
    CacheWriteStep,
    ComputeAtStep,
    ComputeInlineStep,
    ComputeRootStep,
    RfactorStep,
)
from search.auto_scheduler.state import State
from search.auto_scheduler.step import Step, StepError
from search.auto_scheduler.trace_step import TraceStep

__all__ = [
    "AnnotateStep",
    "CacheReadStep",
    "CacheWriteStep",
    "ComputeAtStep",
    "ComputeDAG",
    "ComputeInlineStep",
    "ComputeRootStep",
    "FollowFusedSplitStep",
    "FollowSplitStep",
    "FuseStep",
    "PragmaStep",
    "ReorderStep",
    "RfactorStep",
    "SplitStep",
    "State",
    "Step",
    "StepError",
    "StorageAlignStep",
    "TraceStep",
]
