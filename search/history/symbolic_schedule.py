"""Default schedules of functions with symbolic shapes.

The function is scheduled with the smallest numbers for the sizes that are open, 1 for most, and
what that did is done to the function itself: a loop over an open size is split like one of a single
iteration, so that all of its iterations are in the outermost part, and every other loop is tiled as
it was. Most often the open size is a batch, whose schedule this is for any number of elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from codegen import Target
from schedule import LoopRV, Schedule, Trace
from schedule.instruction import Instruction
from schedule.trace import translate
from search.history.adapted_replay import AdaptedReplay, ReplayError, schedule_of, space_for
from search.postproc import DisallowDynamicLoop
from search.task import normalize_mod
from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import Block, For
from tensorir.rewriting.visit import collect_vars, substitute, walk

_LARGEST: Final = 1 << 16
"""An open size of which more elements would be needed stays at this."""


def open_sizes(func: PrimFunc) -> list[Var]:
    """Return the variables in the shapes of parameters, and the parameters in extents, in order."""
    shapes = (extent for buffer in func.buffer_map.values() for extent in buffer.shape)
    given = set(func.params)
    found = [var for extent in shapes for var in collect_vars(extent)]
    found += [var for extent in _extents(func) for var in collect_vars(extent) if var in given]
    return list(dict.fromkeys(found))


def with_smallest_sizes(mod: IRModule) -> IRModule:
    """Return a module of one function with a number for each of its open sizes.

    It is 1, or the power of two from which on no loop and no buffer is empty.
    """
    func = mod.prim_func("main")
    sizes = dict.fromkeys(open_sizes(func), 1)
    shapes = [extent for buffer in func.buffer_map.values() for extent in buffer.shape]
    extents = [*shapes, *_extents(func)]
    while empty := [extent for extent in extents if _value(extent, sizes) < 1]:
        larger = {
            var: 2 * sizes[var]
            for extent in empty
            for var in collect_vars(extent)
            if sizes.get(var, _LARGEST) < _LARGEST
            and _value(extent, sizes) <= _value(extent, {**sizes, var: 2 * sizes[var]})
        }
        if not larger:
            break
        sizes.update(larger)
    return normalize_mod(func.specialize(sizes))


def _extents(func: PrimFunc) -> Iterator[PrimExpr]:
    """Yield the extents of the loops of a function, and of the buffers that it allocates."""
    for node in walk(func.body):
        if isinstance(node, For):
            yield node.extent
        elif isinstance(node, Block):
            for buffer in node.alloc_buffers:
                yield from buffer.shape


def _value(extent: PrimExpr, sizes: Mapping[Var, int]) -> int:
    """Return an extent for numbers in the place of sizes; 1 where other values decide it."""
    numbers = {var: const(size, var.dtype) for var, size in sizes.items()}
    value = Analyzer().simplify(substitute(extent, numbers))
    return value.value if isinstance(value, IntImm) else 1


def schedule_by_single(mod: IRModule, trace: Trace, target: Target) -> Schedule:
    """Return a schedule of `mod` after a trace that was made of `with_smallest_sizes(mod)`.

    ReplayError where what is done for these sizes cannot be done for all.
    """
    sch = schedule_of(mod)
    _OverOpenSizes(sch, "main", lambda block: block).apply(trace)
    sch.enter_postproc()
    for postproc in space_for(mod, target).postprocs:
        if not isinstance(postproc, DisallowDynamicLoop) and not postproc.apply(sch):
            raise ReplayError(f"{postproc} rejects the schedule: {postproc.reason(sch)}")
    return sch


class _OverOpenSizes(AdaptedReplay):
    """Replays a trace of a program with the smallest sizes on one in which they are open.

    Tiles of loops over open sizes are not sampled: the outermost takes all iterations.
    """

    def _applied(self, inst: Instruction, decision: Any) -> list[Any]:
        if inst.kind.name in ("SamplePerfectTile", "SamplePartitionedTile"):
            loop = translate(inst.values[0], self._made)
            if not self._is_known(loop):
                return [None, *[1] * (len(decision) - 1)]
        return super()._applied(inst, decision)

    def _covering(self, loop: LoopRV, factors: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._is_known(loop):
            return super()._covering(loop, factors)
        return (None, *(1 if factor is None else factor for factor in factors[1:]))

    def _is_known(self, loop: LoopRV) -> bool:
        return isinstance(self._sch.get(loop).extent, IntImm)
