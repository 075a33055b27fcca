"""Default schedules of functions with symbolic shapes.

The function is scheduled with 1 for each size that is open, and what that did is done to the
function itself: a loop over an open size is split like one of a single iteration, so that all of
its iterations are in the outermost part, and every other loop is tiled as it was. Most often the
open size is a batch, whose schedule this is for any number of elements.
"""

from __future__ import annotations

from typing import Any

from codegen import Target
from schedule import LoopRV, Schedule, Trace
from schedule.instruction import Instruction
from schedule.trace import translate
from search.context import normalize_mod
from search.dispatch.adapted_replay import AdaptedReplay, ReplayError, schedule_of, space_for
from search.postproc import DisallowDynamicLoop
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IntImm, Var
from tensorir.rewriting.visit import collect_vars


def open_sizes(func: PrimFunc) -> list[Var]:
    """Return the variables in the shapes of the parameters of a function, in order."""
    shapes = (extent for buffer in func.buffer_map.values() for extent in buffer.shape)
    return list(dict.fromkeys(var for extent in shapes for var in collect_vars(extent)))


def of_single_elements(mod: IRModule) -> IRModule:
    """Return a module of one function with 1 for each of its open sizes."""
    func = mod.prim_func("main")
    return normalize_mod(func.specialize(dict.fromkeys(open_sizes(func), 1)))


def schedule_by_single(mod: IRModule, trace: Trace, target: Target) -> Schedule:
    """Return a schedule of `mod` after a trace that was made of `of_single_elements(mod)`.

    ReplayError where what is done for single elements cannot be done for any number of them.
    """
    sch = schedule_of(mod)
    _OverOpenSizes(sch, "main", lambda block: block).apply(trace)
    sch.enter_postproc()
    for postproc in space_for(mod, target).postprocs:
        if not isinstance(postproc, DisallowDynamicLoop) and not postproc.apply(sch):
            raise ReplayError(f"{postproc} rejects the schedule: {postproc.reason(sch)}")
    return sch


class _OverOpenSizes(AdaptedReplay):
    """Replays a trace of a program whose sizes are 1 on one in which they are open.

    Tiles of loops over open sizes are not sampled: the outermost takes all iterations.
    """

    def _applied(self, inst: Instruction, decision: Any) -> list[Any]:
        if inst.kind.name in ("SamplePerfectTile", "SamplePartitionedTile"):
            loop = translate(inst.values[0], self._made)
            if not self._is_known(loop):
                return [None, *decision[1:]]
        return super()._applied(inst, decision)

    def _covering(self, loop: LoopRV, factors: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._is_known(loop):
            return super()._covering(loop, factors)
        return (None, *(1 if factor is None else factor for factor in factors[1:]))

    def _is_known(self, loop: LoopRV) -> bool:
        return isinstance(self._sch.get(loop).extent, IntImm)
